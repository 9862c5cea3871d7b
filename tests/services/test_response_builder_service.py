"""Whole payloads, against the examples of frontend-api.md 18."""

from __future__ import annotations

import re

import pytest

from Middleware.common.constants import VERSION
from Middleware.common.instance_global_variables import LaunchFacts, launch_facts, set_launch_facts
from Middleware.common.request_context import RequestContext, enter_request
from Middleware.services.answers import METRICS, AnswerFacts, WholeAnswer
from Middleware.services.response_builder_service import ResponseBuilderService

build = ResponseBuilderService()
FACTS = AnswerFacts("R", "mira", created=1760000000)
CALL = {"id": "call_7", "type": "function", "function": {"name": "tide", "arguments": '{"port":"Brest"}'}}


DETAILS = {
    "parent_model": "",
    "format": "gguf",
    "family": "wilmer",
    "families": ["wilmer"],
    "parameter_size": "N/A",
    "quantization_level": "Q8",
}


def timed(body):
    """An object of Ollama without its time, which has its form."""
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", body.pop("created_at"))
    return body


def usage(prompt, completion):
    return {"prompt_tokens": prompt, "completion_tokens": completion}


@pytest.fixture
def started():
    before = launch_facts()
    set_launch_facts(LaunchFacts(started_at=1759990000))
    yield
    set_launch_facts(before)


class TestOpenAI:
    def test_chat(self):
        """18.1, key by key in this order."""
        body = build.build_openai_chat_completion_response(WholeAnswer("The Ob.", usage=usage(17, 4)), FACTS)
        assert list(body.items()) == [
            ("id", "chatcmpl-R"),
            ("object", "chat.completion"),
            ("created", 1760000000),
            ("model", "mira"),
            ("system_fingerprint", f"hr-{VERSION}"),
            (
                "choices",
                [
                    {
                        "index": 0,
                        "message": {"role": "assistant", "content": "The Ob."},
                        "logprobs": None,
                        "finish_reason": "stop",
                    }
                ],
            ),
            ("usage", {"prompt_tokens": 17, "completion_tokens": 4, "total_tokens": 21}),
        ]

    def test_tool_calls(self):
        """18.4: null content when there is no text."""
        answer = WholeAnswer("", tool_calls=[CALL], finish_reason="tool_calls")
        choice = build.build_openai_chat_completion_response(answer, FACTS)["choices"][0]
        assert choice["message"] == {"role": "assistant", "content": None, "tool_calls": [CALL]}
        assert choice["finish_reason"] == "tool_calls"

    def test_tool_calls_beside_text(self):
        """The text stays."""
        message = build.build_openai_chat_completion_response(WholeAnswer("x", tool_calls=[CALL]), FACTS)[
            "choices"
        ][0]
        assert message["message"]["content"] == "x"

    def test_reasoning(self):
        """A field of the message."""
        body = build.build_openai_chat_completion_response(WholeAnswer("x", "hm"), FACTS)
        assert body["choices"][0]["message"]["reasoning_content"] == "hm"

    def test_text_completion(self):
        """18.6, key by key in this order; tool calls are not known here."""
        answer = WholeAnswer("Roland: Always.", finish_reason="tool_calls", usage=usage(24, 5))
        assert list(build.build_openai_completion_response(answer, FACTS).items()) == [
            ("id", "cmpl-R"),
            ("object", "text_completion"),
            ("created", 1760000000),
            ("model", "mira"),
            ("system_fingerprint", f"hr-{VERSION}"),
            ("choices", [{"text": "Roland: Always.", "index": 0, "logprobs": None, "finish_reason": "stop"}]),
            ("usage", {"prompt_tokens": 24, "completion_tokens": 5, "total_tokens": 29}),
        ]

    def test_plain_text_will_do(self):
        """For callers that have no more; the facts are those of the current request."""
        with enter_request(RequestContext("Q", "jo", "openaichatcompletion")):
            chat, text = (
                build.build_openai_chat_completion_response("a"),
                build.build_openai_completion_response("a"),
            )
            chunk = build.build_openai_chat_completion_chunk("")
        assert (chat["id"], text["id"], chat["model"]) == ("chatcmpl-Q", "cmpl-Q", "jo")
        assert chunk["choices"][0]["delta"] == {}

    @pytest.mark.parametrize("asked", [False, True], ids=["plain", "numbers-asked-for"])
    def test_chunks(self, asked):
        """18.2, 18.6, key by key; a client that asked for the numbers finds the key in every chunk."""
        facts = AnswerFacts("R", "mira", created=1760000000, include_usage=asked)
        null = {"usage": None} if asked else {}
        chat = {
            "id": "chatcmpl-R",
            "object": "chat.completion.chunk",
            "created": 1760000000,
            "model": "mira",
            "system_fingerprint": f"hr-{VERSION}",
        }
        text = {**chat, "id": "cmpl-R", "object": "text_completion"}
        choice = {"index": 0, "delta": {"content": "a"}, "logprobs": None, "finish_reason": None}
        assert build.build_openai_chat_completion_chunk("a", facts=facts) == {
            **chat,
            "choices": [choice],
            **null,
        }
        choice = {"index": 0, "delta": {"x": 1}, "logprobs": None, "finish_reason": "stop"}
        chunk = build.build_openai_chat_completion_chunk({"x": 1}, "stop", facts)
        assert chunk == {**chat, "choices": [choice], **null}
        choice = {"text": "a", "index": 0, "logprobs": None, "finish_reason": "length"}
        chunk = build.build_openai_completion_chunk("a", "length", facts)
        assert chunk == {**text, "choices": [choice], **null}
        for is_chat, head in ((True, chat), (False, text)):
            chunk = build.build_openai_usage_chunk({"total_tokens": 3}, facts, chat=is_chat)
            assert chunk == {**head, "choices": [], "usage": {"total_tokens": 3}}
        event = {"type": "status", "data": {"description": "1 of 2", "done": False}}
        chunk = build.build_openai_status_chunk("1 of 2", facts)
        assert chunk == {**chat, "choices": [], **null, "event": event}

    def test_models(self, started):
        """18.13: created when the process started."""
        assert build.build_openai_models_response(["mira:novel"]) == {
            "object": "list",
            "data": [
                {
                    "id": "mira:novel",
                    "object": "model",
                    "created": 1759990000,
                    "owned_by": "headrace",
                    "name": "mira:novel",
                }
            ],
        }


class TestOllama:
    def test_chat(self):
        """18.9: the call's arguments are an object, the numbers are there."""
        answer = WholeAnswer("", tool_calls=[CALL], finish_reason="tool_calls", usage=usage(60, 12))
        body = build.build_ollama_chat_response(answer, FACTS)
        assert list(body) == ["model", "created_at", "message", "done", "done_reason", *METRICS, "request_id"]
        assert body["message"]["tool_calls"] == [
            {"id": "call_7", "function": {"index": 0, "name": "tide", "arguments": {"port": "Brest"}}}
        ]
        assert (body["done_reason"], body["prompt_eval_count"], body["eval_count"]) == ("stop", 60, 12)

    def test_plain_text_will_do(self):
        """For callers that have no more; the facts are those of the current request."""
        with enter_request(RequestContext("Q", "jo", "ollamaapichat")):
            chat, text = build.build_ollama_chat_response("a"), build.build_ollama_generate_response("a")
            chunks = build.build_ollama_chat_chunk("a"), build.build_ollama_generate_chunk("a")
        assert chat["message"] == {"role": "assistant", "content": "a"}
        assert text["response"] == "a"
        assert {(body["model"], body["request_id"]) for body in (chat, text, *chunks)} == {("jo", "Q")}

    def test_chat_reasoning(self):
        """A field of the message."""
        assert build.build_ollama_chat_response(WholeAnswer("x", "hm"), FACTS)["message"]["thinking"] == "hm"

    def test_generate(self):
        """18.10: with the five keys of a text completion."""
        body = build.build_ollama_generate_response(
            WholeAnswer("A grey square.", "hm", usage=usage(300, 5)), FACTS
        )
        assert (body["response"], body["thinking"], body["done_reason"]) == ("A grey square.", "hm", "stop")
        assert list(body) == [
            "model", "created_at", "response", "thinking", "done", "done_reason", *METRICS, "request_id",
            "id", "object", "created", "choices", "usage",
        ]  # fmt: skip
        assert (body["id"], body["object"], body["created"], body["usage"]["total_tokens"]) == (
            "gen-R",
            "text_completion",
            1760000000,
            305,
        )
        assert (body["model"], timed(body)["request_id"]) == ("mira", "R")
        assert body["choices"][0]["text"] == "A grey square."
        assert "context" not in body

    def test_chunks(self):
        """18.9, 18.10, key by key."""
        head, end = {"model": "mira"}, {"done": False, "request_id": "R"}
        message = {"role": "assistant", "content": "a"}
        assert timed(build.build_ollama_chat_chunk("a", FACTS)) == {**head, "message": message, **end}
        message = {"role": "assistant", "thinking": "hm"}
        assert timed(build.build_ollama_chat_chunk({"thinking": "hm"}, FACTS)) == {
            **head, "message": message, **end,
        }  # fmt: skip
        assert timed(build.build_ollama_generate_chunk("a", FACTS)) == {**head, "response": "a", **end}
        assert timed(build.build_ollama_generate_chunk("", FACTS, thinking="hm")) == {
            **head, "response": "", "thinking": "hm", **end,
        }  # fmt: skip

    @pytest.mark.parametrize("chat", [True, False], ids=["chat", "generate"])
    def test_the_last_object(self, chat):
        """18.9: no text, the reason, the six numbers; beside them those of the workflow."""
        facts = AnswerFacts("R", "mira", unmeasured=True, workflow_usage=lambda: {"total_tokens": 9})
        answer = WholeAnswer("said", finish_reason="length")
        text = {"message": {"role": "assistant", "content": ""}} if chat else {"response": ""}
        assert timed(build.build_ollama_done_chunk(answer, facts, chat=chat)) == {
            "model": "mira",
            **text,
            "done": True,
            "done_reason": "length",
            **dict.fromkeys(METRICS, 0),
            "request_id": "R",
            "workflow_usage": {"total_tokens": 9},
        }

    @pytest.mark.parametrize("chat", [True, False], ids=["chat", "generate"])
    def test_load(self, chat):
        """18.12: no numbers."""
        text = {"message": {"role": "assistant", "content": ""}} if chat else {"response": ""}
        body = build.build_ollama_load_response("mira", "unload", chat=chat)
        assert timed(body) == {"model": "mira", **text, "done": True, "done_reason": "unload"}

    def test_tags(self):
        """18.13."""
        [model] = build.build_ollama_tags_response(["mira:novel"])["models"]
        assert re.fullmatch("[0-9a-f]{64}", model.pop("digest"))
        assert model == {
            "name": "mira:novel",
            "model": "mira:novel:latest",
            "modified_at": "2024-11-23T00:00:00Z",
            "size": 1,
            "details": DETAILS,
        }

    def test_show(self):
        """18.13."""
        assert build.build_ollama_show_response("mira:novel", 4096, ["completion", "tools"]) == {
            "license": "",
            "modelfile": "",
            "parameters": "",
            "template": "",
            "details": DETAILS,
            "model_info": {
                "general.architecture": "wilmer",
                "general.basename": "mira:novel",
                "wilmer.context_length": 4096,
            },
            "capabilities": ["completion", "tools"],
            "modified_at": "2024-11-23T00:00:00Z",
        }

    def test_version(self):
        """Three parts: clients compare it as a semantic version."""
        assert build.build_ollama_version_response() == {"version": "0.9.0"}
