"""The response object: what it repeats, how it ends, its items (more-fronts.md 3.5, 11.6)."""

from __future__ import annotations

import json

import pytest
from openai.types.responses import Response

from Middleware.protocols.response_object import echo_of, response_object, usage_object, whole_response
from Middleware.services.answers import AnswerFacts, WholeAnswer, compact_json

FACTS = AnswerFacts("R", "mira", created=1760000000)
CALL = {"id": "call_1", "type": "function", "function": {"name": "tide", "arguments": '{"port": "Brest"}'}}
USAGE = {"prompt_tokens": 11, "completion_tokens": 7}
SAID = {
    "instructions": "i",
    "max_output_tokens": 77,
    "max_tool_calls": 3,
    "parallel_tool_calls": False,
    "previous_response_id": "resp_1",
    "prompt_cache_key": "pk",
    "reasoning": {"effort": "low", "summary": "auto"},
    "safety_identifier": "s",
    "store": False,
    "temperature": 0.1,
    "text": {"format": {"type": "json_schema", "name": "n", "schema": {}}, "verbosity": "low"},
    "tool_choice": {"type": "function", "name": "f"},
    "tools": [{"type": "function", "name": "f", "parameters": {}, "strict": None}],
    "top_p": 1,
    "truncation": "auto",
    "user": "u",
    "metadata": {"a": "b"},
}
VECTOR = '{"id":"resp_R","object":"response","created_at":1760000000,"status":"completed","background":false,"completed_at":1760000001,"error":null,"incomplete_details":null,"instructions":null,"max_output_tokens":null,"max_tool_calls":null,"model":"mira","output":[{"id":"msg_R_0","type":"message","status":"completed","role":"assistant","content":[{"type":"output_text","annotations":[],"logprobs":[],"text":"Hi there!"}]}],"parallel_tool_calls":true,"previous_response_id":null,"prompt_cache_key":null,"reasoning":{"effort":null,"summary":null},"safety_identifier":null,"service_tier":"default","store":true,"temperature":null,"text":{"format":{"type":"text"},"verbosity":"medium"},"tool_choice":"auto","tools":[],"top_logprobs":0,"top_p":null,"truncation":"disabled","usage":{"input_tokens":11,"input_tokens_details":{"cached_tokens":0,"cache_write_tokens":0},"output_tokens":7,"output_tokens_details":{"reasoning_tokens":0},"total_tokens":18},"user":null,"metadata":{}}'


def test_the_vector():
    """11.6, byte for byte but for the time of its end."""
    made = whole_response(WholeAnswer("Hi there!", usage=USAGE), FACTS)
    assert isinstance(made["completed_at"], int)
    assert compact_json({**made, "completed_at": 1760000001}) == VECTOR
    Response.model_validate(made)


class TestItems:
    def test_thoughts_text_calls(self):
        """In this order; the number in an id is the item's place."""
        made = whole_response(WholeAnswer("I look.", "A tool will do.", [CALL], "tool_calls"), FACTS)
        thoughts, text, call = made["output"]
        assert thoughts == {
            "id": "rs_R_0",
            "type": "reasoning",
            "summary": [{"type": "summary_text", "text": "A tool will do."}],
        }
        assert (text["id"], text["content"][0]["text"]) == ("msg_R_1", "I look.")
        assert call == {
            "id": "fc_R_2",
            "type": "function_call",
            "status": "completed",
            "call_id": "call_1",
            "name": "tide",
            "arguments": '{"port": "Brest"}',
        }
        assert made["status"] == "completed"
        Response.model_validate(made)

    @pytest.mark.parametrize(
        ("answer", "types"),
        [
            (WholeAnswer(), ["message"]),
            (WholeAnswer(thinking="hm"), ["reasoning", "message"]),
            (WholeAnswer(tool_calls=[CALL]), ["function_call"]),
        ],
        ids=["nothing", "only-thoughts", "only-a-call"],
    )
    def test_an_empty_text(self, answer, types):
        """Is left out beside calls only: clients read the first message."""
        assert [item["type"] for item in whole_response(answer, FACTS)["output"]] == types

    @pytest.mark.parametrize(
        ("reason", "why"), [("length", "max_output_tokens"), ("content_filter", "content_filter")]
    )
    def test_incomplete(self, reason, why):
        """The response and its message say so; it was never completed."""
        made = whole_response(WholeAnswer("and the", finish_reason=reason), FACTS)
        assert (made["status"], made["completed_at"]) == ("incomplete", None)
        assert made["incomplete_details"] == {"reason": why} and made["error"] is None
        assert made["output"][0]["status"] == "incomplete"
        Response.model_validate(made)


class TestUsage:
    def test_details_that_the_backend_told(self):
        """Of its cache and its thoughts."""
        counts = {"cached_tokens": 5, "cache_write_tokens": 2, "reasoning_tokens": 3}
        told = usage_object(WholeAnswer("x", usage={**USAGE, **counts}))
        assert told["input_tokens_details"] == {"cached_tokens": 5, "cache_write_tokens": 2}
        assert told["output_tokens_details"] == {"reasoning_tokens": 3}

    def test_estimated(self):
        """Never absent."""
        told = usage_object(WholeAnswer("Hello", "world"))
        assert told["output_tokens"] == told["total_tokens"] > 0


class TestEcho:
    def test_what_was_said(self):
        """As it was sent, at the place of each."""
        made = response_object(AnswerFacts("R", "mira", echo=echo_of(SAID)), "in_progress", [])
        assert {name: made[name] for name in SAID} == SAID

    @pytest.mark.parametrize(
        "odd",
        [None, [], "", float("nan"), {"x": float("inf")}, -1, True, 10**400],
        ids=lambda odd: repr(odd)[:15],
    )
    @pytest.mark.parametrize("name", sorted(SAID))
    def test_what_does_not_fit(self, name, odd):
        """Its default; the object stays what the official types accept, and can be written as JSON."""
        made = response_object(AnswerFacts("R", "mira", echo=echo_of({name: odd})), "in_progress", [])
        fits = type(made[name]) is type(odd) and made[name] == odd
        assert fits or made[name] == response_object(FACTS, "in_progress", [])[name]
        json.dumps(made, allow_nan=False)

    def test_only_functions(self):
        """Tools of other kinds were not used."""
        tools = [{"type": "web_search"}, 5, *SAID["tools"], {"type": "function", "x": float("nan")}]
        assert echo_of({"tools": tools})["tools"] == SAID["tools"]
