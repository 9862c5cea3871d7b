"""Streams of the OpenAI protocol, and its errors (frontend-api.md 11.2, 11.3, 12.1)."""

from __future__ import annotations

import pytest

from Middleware.protocols.openai import error_object
from Middleware.protocols.registry import WIRE_FORMATS, ErrorReply
from Middleware.services.answers import usage_numbers
from Middleware.services.response_builder_service import FINGERPRINT
from tests.protocols.streams import CALL, REST, STEPS, SUM, chunk, framer, payloads


def deltas(units):
    return [payload["choices"][0]["delta"] for payload in payloads(units)]


def test_thoughts_are_counted():
    """They are output of the model, where nobody told the numbers."""
    stream = framer("openaichatcompletion", include_usage=True)
    units = stream.units([chunk("Hello", thinking="world and all"), chunk("", "stop")])
    told = [payload["usage"] for payload in payloads(units) if payload.get("usage")]
    assert told[0]["completion_tokens"] > usage_numbers(None, "Hello")["completion_tokens"]


class TestOpenAIChat:
    def test_the_role_goes_first_once(self):
        """As a unit of its own, right before the first output."""
        stream = framer("openaichatcompletion")
        units = (
            stream.units([chunk("The")]) + stream.units([chunk(" Ob.")]) + stream.units([chunk("", "stop")])
        )
        assert deltas(units) == [
            {"role": "assistant", "content": ""},
            {"content": "The"},
            {"content": " Ob."},
            {},
        ]
        assert stream.end() == ["data: [DONE]\n\n"]

    @pytest.mark.parametrize(
        "more", [chunk("", "stop"), chunk("", tool_calls=[CALL]), chunk("", thinking="hm")]
    )
    def test_so_it_does_before_a_text_that_does_not_come_alone(self, more):
        """A client adds texts to the empty one that it begins with."""
        first = deltas(framer("openaichatcompletion").units([chunk("The"), more]))
        assert first[:2] == [{"role": "assistant", "content": ""}, {"content": "The"}]

    def test_every_unit_carries_the_same_facts(self):
        """One id, one creation time, one fingerprint."""
        stream = framer("openaichatcompletion", include_usage=True)
        units = payloads(stream.units([chunk("a")]) + stream.units([chunk("", "stop")]))
        facts = {(u["id"], u["created"], u["model"], u["system_fingerprint"]) for u in units}
        assert facts == {("chatcmpl-R", 1760000000, "mira", FINGERPRINT)}
        assert [u["usage"] for u in units[:-1]] == [None, None, None]

    def test_usage_comes_last_on_request(self):
        """In a chunk without a choice."""
        stream = framer("openaichatcompletion", include_usage=True)
        usage = {"prompt_tokens": 17, "completion_tokens": 4}
        last = payloads(stream.units([chunk("a"), chunk("", "stop", usage=usage)]))[-1]
        assert last["choices"] == []
        assert last["usage"] == {"prompt_tokens": 17, "completion_tokens": 4, "total_tokens": 21}

    @pytest.mark.parametrize("api_type", ["openaichatcompletion", "openaicompletion"])
    @pytest.mark.parametrize("usage", [SUM, None], ids=["a-model", "no-model"])
    def test_the_workflows_numbers_stand_beside(self, api_type, usage):
        """Never inside: strict readers of `usage` are not disturbed. Nothing when no model was asked."""
        stream = framer(api_type, include_usage=True, workflow_usage=lambda: usage)
        last = payloads(stream.units([chunk("a"), chunk("", "stop", usage={"prompt_tokens": 7})]))[-1]
        assert list(last)[-1] == ("workflow_usage" if usage else "usage")
        assert last.get("workflow_usage") == usage
        assert set(last["usage"]) == {"prompt_tokens", "completion_tokens", "total_tokens"}

    def test_the_workflows_numbers_come_on_request(self):
        """With the answer's own."""
        units = framer("openaichatcompletion", workflow_usage=lambda: SUM).units([chunk("a", "stop")])
        assert "workflow_usage" not in "".join(units)

    def test_without_the_request_there_is_no_usage_key(self):
        """Strict readers do not expect it."""
        units = payloads(framer("openaichatcompletion").units([chunk("a", "stop")]))
        assert all("usage" not in unit for unit in units)

    def test_tool_call_deltas_pass_through(self):
        """Units of their own; the role has null content then; the reason says so."""
        stream = framer("openaichatcompletion")
        units = stream.units([chunk(tool_calls=[CALL])]) + stream.units([chunk(tool_calls=[REST])])
        units += stream.units([chunk("", "stop")])
        assert deltas(units) == [
            {"role": "assistant", "content": None},
            {"tool_calls": [CALL]},
            {"tool_calls": [REST]},
            {},
        ]
        assert payloads(units)[-1]["choices"][0]["finish_reason"] == "tool_calls"

    def test_text_of_the_same_chunk_goes_before_its_tool_call(self):
        """What was decided has gone out when the call goes."""
        units = framer("openaichatcompletion").units([chunk("x"), chunk("y", tool_calls=[CALL])])
        assert deltas(units)[1:] == [{"content": "xy"}, {"tool_calls": [CALL]}]

    def test_reasoning_has_units_of_its_own(self):
        """Before the text, neighbours joined."""
        batch = [
            chunk(thinking="a "),
            chunk(thinking="river"),
            chunk("The Ob.", thinking="!"),
            chunk("", "stop"),
        ]
        assert deltas(framer("openaichatcompletion").units(batch)) == [
            {"role": "assistant", "content": ""},
            {"reasoning_content": "a river!"},
            {"content": "The Ob."},
            {},
        ]

    def test_reasoning_after_text_of_one_read(self):
        """The order of the chunks stays."""
        units = framer("openaichatcompletion").units([chunk("a"), chunk(thinking="b"), chunk("c")])
        assert deltas(units)[1:] == [{"content": "a"}, {"reasoning_content": "b"}, {"content": "c"}]

    def test_an_empty_answer_has_a_role_and_a_finish(self):
        """A stream that says nothing still ends properly."""
        assert deltas(framer("openaichatcompletion").finish_units("stop")) == [
            {"role": "assistant", "content": ""},
            {},
        ]

    def test_an_error_ends_the_stream(self):
        """One error unit, then the end mark. It has no `choices`: the AI SDK would take it for a chunk."""
        error, end = payloads(
            framer("openaichatcompletion").error(ErrorReply(502, "M", code="backend_error"))
        )
        assert error == {
            "error": {"message": "M", "type": "server_error", "param": None, "code": "backend_error"},
        }
        assert end == "[DONE]"


class TestProgress:
    """Nodes that start (more-fronts.md 8)."""

    def test_as_reasoning(self):
        """Lines with their depth, one unit for what is there at once; the role goes before, once."""
        stream = framer("openaichatcompletion", progress="reasoning")
        units = stream.progress_units(STEPS) + stream.progress_units(STEPS[:1])
        units += stream.units([chunk(thinking="hm")]) + stream.units([chunk("The Ob.")])
        assert deltas(units) == [
            {"role": "assistant", "content": ""},
            {"reasoning_content": "[1/2] Recall\n  [1/3] Search\n"},
            {"reasoning_content": "[1/2] Recall\n"},
            {"reasoning_content": "hm"},
            {"content": "The Ob."},
        ]

    def test_as_status(self):
        """11.11: chunks without a choice, before the role, the event last; no leading spaces."""
        stream = framer("openaichatcompletion", progress="status", include_usage=True)
        units = payloads(stream.progress_units(STEPS))
        assert [unit["event"]["data"]["description"] for unit in units] == ["[1/2] Recall", "[1/3] Search"]
        assert [(unit["choices"], unit["usage"], list(unit)[-1]) for unit in units] == [
            ([], None, "event")
        ] * 2
        assert framer("openaichatcompletion", progress="status").progress_units(STEPS[:1]) == [
            'data: {"id":"chatcmpl-R","object":"chat.completion.chunk","created":1760000000,"model":"mira",'
            '"system_fingerprint":"' + FINGERPRINT + '","choices":[],"event":{"type":"status","data":{'
            '"description":"[1/2] Recall","done":false}}}\n\n'
        ]
        assert deltas(stream.units([chunk("a")]))[0] == {"role": "assistant", "content": ""}

    def test_it_is_no_part_of_the_answer(self):
        """Neither counted nor kept."""
        stream = framer("openaichatcompletion", progress="reasoning")
        stream.progress_units(STEPS)
        stream.units([chunk("Hello")])
        assert stream.output_tokens == usage_numbers(None, "Hello")["completion_tokens"]
        assert (stream.answer("stop").thinking, stream.answer("stop").text) == ("", "Hello")

    def test_text_completions_have_no_place(self):
        assert WIRE_FORMATS["openaicompletion"].shows_progress == ()
        assert framer("openaicompletion", progress="reasoning").progress_units(STEPS) == []


class TestOpenAIText:
    def test_a_stream(self):
        """Text chunks, an empty one with the reason, the end mark."""
        stream = framer("openaicompletion")
        units = stream.units([chunk("Hello.")]) + stream.units([chunk("", "length")])
        assert [u["choices"][0] for u in payloads(units)] == [
            {"text": "Hello.", "index": 0, "logprobs": None, "finish_reason": None},
            {"text": "", "index": 0, "logprobs": None, "finish_reason": "length"},
        ]

    def test_tool_calls_and_reasoning_are_not_sent(self):
        """The protocol has no place for them."""
        stream = framer("openaicompletion")
        units = stream.units([chunk("a", thinking="t", tool_calls=[CALL]), chunk("", "tool_calls")])
        assert [u["choices"][0]["text"] for u in payloads(units)] == ["a", ""]
        assert payloads(units)[-1]["choices"][0]["finish_reason"] == "stop"

    def test_usage_on_request(self):
        """Estimated when the backend reported none."""
        last = payloads(framer("openaicompletion", include_usage=True).units([chunk("Hello world", "stop")]))[
            -1
        ]
        assert last["usage"] == {"prompt_tokens": 0, "completion_tokens": 3, "total_tokens": 3}
        assert (last["object"], last["choices"]) == ("text_completion", [])


def test_an_error_is_an_object():
    """With all four fields."""
    assert error_object(ErrorReply(400, "M", "p")) == {
        "error": {"message": "M", "type": "invalid_request_error", "param": "p", "code": None}
    }
