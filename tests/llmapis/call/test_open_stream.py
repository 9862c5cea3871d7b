"""A stream whose tool call is no good: asked for once more while nothing of it has been given, an error after."""

from __future__ import annotations

import json
import threading

import pytest

from Middleware.common.errors import BackendError
from Middleware.llmapis.llm_api import LlmApiService
from tests.patience import PATIENCE_S

HELLO = [{"role": "user", "content": "Hi"}]
SLIP = '{"path": "a",}'
GOOD = '{"path": "a"}'


def called(arguments, **more):
    """An event with a whole call."""
    call = {"index": 0, "id": "c", "type": "function", "function": {"name": "read", "arguments": arguments}}
    return "data: " + json.dumps({"choices": [{"delta": {"tool_calls": [call]}, **more}]}) + "\n\n"


@pytest.fixture
def ask(serve, rig, configs):
    """`ask(*replies)` -> all dicts of a stream; the server gives one reply a request, each in one read."""

    def run(*replies, **fields):
        scripted = iter(replies)

        def script(peer):
            while peer.request():
                peer.send(next(scripted))

        run.server = serve(script)
        configs.endpoint("E", run.server.url, **fields)
        return list(LlmApiService("E", "none", 100, True, **configs.given()).get_response_from_llm(HELLO))

    configs.preset("OpenAiCompatibleApis", "none")
    return run


@pytest.fixture
def one_read(rig):
    """`one_read(arguments)` -> a whole stream with such a call, in one chunk of the transfer."""
    return lambda arguments: (
        rig.SSE_HEAD + rig.chunked(called(arguments, finish_reason="tool_calls") + rig.DONE)
    )


@pytest.fixture
def whole(rig):
    """`whole(arguments)` -> a whole body with such a call, though a stream was asked for."""

    def body(arguments):
        call = {"id": "c", "type": "function", "function": {"name": "read", "arguments": arguments}}
        message = {"content": None, "tool_calls": [call]}
        return rig.json_answer({"choices": [{"message": message, "finish_reason": "tool_calls"}]})

    return body


def arguments_of(chunks):
    calls = [call for chunk in chunks for call in chunk.get("tool_calls", ())]
    return "".join(call["function"]["arguments"] for call in calls)


@pytest.mark.parametrize("form", ["one_read", "whole"])
class TestBeforeOutput:
    def test_it_is_asked_for_once_more(self, ask, form, request, caplog):
        """The client sees the good answer alone."""
        made = request.getfixturevalue(form)
        chunks = ask(made(SLIP), made(GOOD))
        assert arguments_of(chunks) == GOOD
        assert chunks[-1]["finish_reason"] == "tool_calls"
        assert "not a JSON object: read; trying once more" in caplog.text

    def test_twice_is_an_error(self, ask, form, request):
        """With the name of the tool, and nothing of what the model wrote."""
        made = request.getfixturevalue(form)
        with pytest.raises(BackendError) as caught:
            ask(made(SLIP), made(SLIP))
        assert (caught.value.kind, len(ask.server.requests)) == ("protocol_error", 2)
        assert str(caught.value).endswith("arguments that are not a JSON object: read")

    def test_a_second_answer_that_fails_is_an_error(self, ask, form, request, rig):
        """Of its own kind."""
        with pytest.raises(BackendError) as caught:
            ask(request.getfixturevalue(form)(SLIP), rig.json_answer({"error": "gone"}, "404 X"))
        assert caught.value.kind == "not_found"

    def test_a_backup_is_asked_instead(self, ask, form, request, serve, configs, rig):
        """One attempt at the first endpoint, as after any failure before output."""
        made = request.getfixturevalue(form)
        backup = serve(lambda peer: (peer.request(), peer.send(made(GOOD))))
        configs.endpoint("B", backup.url)
        assert arguments_of(ask(made(SLIP), backupEndpointName="B")) == GOOD
        assert len(ask.server.requests) == 1


def test_a_stream_that_is_over_gives_its_connection_back(ask, configs, rig):
    """The next call goes out on the same one."""
    answer = rig.SSE_HEAD + rig.chunked(rig.token("a"), rig.DONE)
    assert ask(answer, answer)[0]["token"] == "a"
    service = LlmApiService("E", "none", 100, True, **configs.given())
    assert next(service.get_response_from_llm(HELLO))["token"] == "a"
    assert (len(ask.server.requests), ask.server.accepted) == (2, 1)


def test_after_output_the_stream_ends_with_the_error(serve, rig, configs):
    """What has been said stands; nobody is told that the call is finished."""
    heard = threading.Event()

    def script(peer):
        peer.request()
        peer.send(rig.SSE_HEAD, rig.chunked(rig.token("Well. "), end=False))
        heard.wait(PATIENCE_S)
        peer.send(rig.chunked(called(SLIP), rig.token("", finish_reason="tool_calls"), rig.DONE))

    server = serve(script)
    configs.endpoint("E", server.url)
    configs.preset("OpenAiCompatibleApis", "none")
    chunks = LlmApiService("E", "none", 100, True, **configs.given()).get_response_from_llm(HELLO)
    assert next(chunks)["token"] == "Well. "
    heard.set()
    last = list(chunks)[-1]
    assert (last["finish_reason"], last["error"]["kind"]) == ("error", "protocol_error")
    assert len(server.requests) == 1


def test_a_stream_that_ends_inside_a_call_is_a_lost_connection(ask, rig):
    """Only its end says so, behind the call; it is not asked for again."""
    chunks = ask(rig.SSE_HEAD + rig.chunked(called('{"pa')))
    assert (chunks[-1]["finish_reason"], chunks[-1]["error"]["kind"]) == ("error", "connection_lost")
    assert len(ask.server.requests) == 1
