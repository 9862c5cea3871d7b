"""How long a backend loaded the model is noted at its call, where it says so (prompt-reuse.md 7.1)."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from Middleware.llmapis.call.call_arguments import CallArguments
from Middleware.llmapis.llm_api import LlmApiService

ASKED = CallArguments(conversation=[{"role": "user", "content": "Hello"}], prompt="Hello")


@pytest.fixture
def ask(serve, rig, configs, node):
    """`ask(api_type, stream, load_duration)` -> the trace of a call whose answer ends with this."""

    def run(api_type, stream, load_duration):
        text = {"message": {"role": "assistant", "content": "Hi"}, "response": "Hi"}
        last = {**text, "done": True, "done_reason": "stop", "load_duration": load_duration}
        answer = rig.json_answer(last)
        if stream:
            lines = [{**text, "done": False}, last]
            head = b"HTTP/1.1 200 OK\r\nContent-Type: application/x-ndjson\r\nConnection: close\r\n\r\n"
            answer = head + b"".join(json.dumps(line).encode() + b"\n" for line in lines)
        server = serve(lambda peer: (peer.request(), peer.send(answer)))
        configs.endpoint("E", server.url, api_type, machine="desk")
        service = LlmApiService("E", None, 100, stream, **configs.given())
        service.whole_answer(replace(ASKED, trace=node))
        return node.node.last_model_call

    configs.preset("OllamaCompatibleApis", "none")
    return run


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
@pytest.mark.parametrize("api_type", ["OllamaApiChat", "OllamaApiGenerate"])
def test_ollama_says_it_at_the_end(ask, api_type, stream):
    """In nanoseconds; the machine of the endpoint is noted, too."""
    call = ask(api_type, stream, 8_250_000_000)
    assert (call.load_s, call.machine) == (8.25, "desk")


@pytest.mark.parametrize("told", [None, 0, -5, "8", True, 2**60], ids=repr)
def test_what_is_no_time_is_not_known(ask, told):
    assert ask("OllamaApiChat", False, told).load_s is None
