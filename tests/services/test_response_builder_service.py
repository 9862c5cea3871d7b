"""Whole payloads, against the examples of frontend-api.md 18."""

from __future__ import annotations

import pytest

from Middleware.common.constants import VERSION
from Middleware.common.instance_global_variables import LaunchFacts, launch_facts, set_launch_facts
from Middleware.common.request_context import RequestContext, enter_request
from Middleware.services.answers import METRICS, AnswerFacts, WholeAnswer
from Middleware.services.response_builder_service import ResponseBuilderService

build = ResponseBuilderService()
FACTS = AnswerFacts("R", "mira", created=1760000000)
CALL = {"id": "call_7", "type": "function", "function": {"name": "tide", "arguments": '{"port":"Brest"}'}}


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

    def test_chat_reasoning(self):
        """A field of the message."""
        assert build.build_ollama_chat_response(WholeAnswer("x", "hm"), FACTS)["message"]["thinking"] == "hm"

    def test_generate(self):
        """18.10: with the five keys of a text completion."""
        body = build.build_ollama_generate_response(
            WholeAnswer("A grey square.", "hm", usage=usage(300, 5)), FACTS
        )
        assert (body["response"], body["thinking"], body["done_reason"]) == ("A grey square.", "hm", "stop")
        assert (body["id"], body["object"], body["usage"]["total_tokens"]) == (
            "gen-R",
            "text_completion",
            305,
        )
        assert body["choices"][0]["text"] == "A grey square."
        assert "context" not in body

    @pytest.mark.parametrize("chat", [True, False])
    def test_load(self, chat):
        """18.12: no numbers."""
        body = build.build_ollama_load_response("mira", "unload", chat=chat)
        assert list(body) == ["model", "created_at", "message" if chat else "response", "done", "done_reason"]

    def test_tags(self):
        """18.13."""
        [model] = build.build_ollama_tags_response(["mira:novel"])["models"]
        assert (model["name"], model["model"], model["size"]) == ("mira:novel", "mira:novel:latest", 1)
        assert len(model["digest"]) == 64
        assert model["details"]["families"] == ["wilmer"]

    def test_show(self):
        """18.13."""
        body = build.build_ollama_show_response("mira:novel", 4096, ["completion", "tools"])
        assert body["model_info"]["wilmer.context_length"] == 4096
        assert body["capabilities"] == ["completion", "tools"]

    def test_version(self):
        """Three parts: clients compare it as a semantic version."""
        assert build.build_ollama_version_response() == {"version": "0.9.0"}
