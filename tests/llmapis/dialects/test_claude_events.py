"""Events of a Claude stream, one by one."""

from __future__ import annotations

import pytest

from Middleware.llmapis.dialects.claude_events import ClaudeEvents, claude_usage


@pytest.fixture
def events():
    return ClaudeEvents()


def start(index, **block):
    return {"type": "content_block_start", "index": index, "content_block": block}


def delta(index, kind, **fields):
    return {"type": "content_block_delta", "index": index, "delta": {"type": kind, **fields}}


def stop(index):
    return {"type": "content_block_stop", "index": index}


class TestText:
    def test_deltas_are_tokens(self, events):
        """Word by word."""
        assert events.chunk(delta(0, "text_delta", text="Hi")) == {"token": "Hi", "finish_reason": None}

    def test_a_block_may_begin_with_text(self, events):
        """Most begin empty and say nothing."""
        assert events.chunk(start(0, type="text", text="H")) == {"token": "H", "finish_reason": None}
        assert events.chunk(start(0, type="text", text="")) is None

    @pytest.mark.parametrize(
        "event",
        [
            {"type": "ping"},
            {"type": "odd"},
            {},
            stop(0),
            {"type": "message_stop"},
            {"type": "message_start"},
            start(0, type="server_tool_use", id="x", name="web_search"),
            delta(0, "citations_delta", citation={}),
            delta(0, "input_json_delta", partial_json="{}"),
            delta(0, "signature_delta", signature="s"),
            {"type": "content_block_start"},
        ],
        ids=str,
    )
    def test_others_say_nothing(self, events, event):
        """Input of a server's own tool included."""
        assert events.chunk(event) is None


class TestThoughts:
    def test_deltas_and_signatures_make_the_block(self, events):
        """Which goes back to the API as it came."""
        events.chunk(start(0, type="thinking", thinking=""))
        said = [events.chunk(delta(0, "thinking_delta", thinking=piece)) for piece in ("h", "m", "")]
        events.chunk(delta(0, "signature_delta", signature="sig"))
        events.chunk(start(1, type="redacted_thinking", data="x"))
        assert [chunk and chunk["thinking"] for chunk in said] == ["h", "m", None]
        assert events.thought_blocks == [
            {"type": "thinking", "thinking": "hm", "signature": "sig"},
            {"type": "redacted_thinking", "data": "x"},
        ]

    def test_a_thought_at_the_start_of_its_block(self, events):
        """Counts too."""
        assert events.chunk(start(0, type="thinking", thinking="a"))["thinking"] == "a"


class TestCalls:
    def fragments(self, events, *given):
        chunks = [events.chunk(event) for event in given]
        return [call for chunk in chunks if chunk for call in chunk["tool_calls"]]

    def test_in_pieces(self, events):
        """The index counts calls, not blocks."""
        given = [
            start(3, type="tool_use", id="a", name="f", input={}),
            delta(3, "input_json_delta", partial_json=""),
            delta(3, "input_json_delta", partial_json='{"x"'),
            stop(3),
            start(5, type="tool_use", id="b", name="g", input={}),
            delta(5, "input_json_delta", partial_json="{}"),
        ]
        assert self.fragments(events, *given) == [
            {"index": 0, "id": "a", "type": "function", "function": {"name": "f", "arguments": ""}},
            {"index": 0, "function": {"arguments": '{"x"'}},
            {"index": 1, "id": "b", "type": "function", "function": {"name": "g", "arguments": ""}},
            {"index": 1, "function": {"arguments": "{}"}},
        ]
        assert events.calls == [("a", '{"x"'), ("b", "{}")]

    @pytest.mark.parametrize(("given", "said"), [({}, [""]), ({"x": 1}, ["", '{"x": 1}'])])
    def test_input_that_came_in_no_pieces_is_said_at_the_end(self, events, given, said):
        """Whole at the start. None at all may be a call that was cut."""
        begun = start(0, type="tool_use", id="a", name="f", input=given)
        fragments = self.fragments(events, begun, stop(0))
        assert [one["function"]["arguments"] for one in fragments] == said


class TestEnd:
    @pytest.mark.parametrize(
        ("word", "reason"),
        [
            ("end_turn", "stop"),
            ("stop_sequence", "stop"),
            ("pause_turn", "stop"),
            ("max_tokens", "length"),
            ("model_context_window_exceeded", "length"),
            ("tool_use", "tool_calls"),
            ("refusal", "content_filter"),
            ("new_word", "stop"),
        ],
    )
    def test_stop_reasons(self, events, word, reason):
        """In OpenAI's words; Claude's own is kept beside."""
        chunk = events.chunk({"type": "message_delta", "delta": {"stop_reason": word}})
        assert (chunk["finish_reason"], chunk["native_finish_reason"]) == (reason, word)

    def test_usage_is_put_together(self, events):
        """Input at the start, output (cumulative) at the end."""
        events.chunk({"type": "message_start", "message": {"model": "c", "usage": {"input_tokens": 9}}})
        chunk = events.chunk({"type": "message_delta", "delta": {}, "usage": {"output_tokens": 3}})
        assert chunk["usage"] == {"prompt_tokens": 9, "completion_tokens": 3, "total_tokens": 12}
        assert (chunk["finish_reason"], events.model) == (None, "c")

    def test_what_the_start_says_of_the_output_is_of_the_start(self, events):
        """An answer that never tells more has told nothing of its length."""
        start = {"model": "c", "usage": {"input_tokens": 9, "output_tokens": 1}}
        events.chunk({"type": "message_start", "message": start})
        assert events.usage == {"prompt_tokens": 9}
        assert events.chunk({"type": "message_delta", "delta": {}})["usage"] == {"prompt_tokens": 9}

    def test_the_last_event(self, events):
        """Is the end mark."""
        events.chunk({"type": "message_stop"})
        assert events.ended


def test_what_the_cache_gave_counts_as_prompt():
    """As OpenAI counts it."""
    counts = {
        "input_tokens": 1,
        "cache_read_input_tokens": 20,
        "cache_creation_input_tokens": 300,
        "output_tokens": 4000,
    }
    assert claude_usage(counts) == {
        "prompt_tokens": 321,
        "completion_tokens": 4000,
        "total_tokens": 4321,
        "cached_tokens": 20,
        "cache_write_tokens": 300,
    }


def test_a_cache_that_is_not_told_is_unknown():
    """Servers that speak this API without a cache; 0 would be a claim."""
    assert claude_usage({"input_tokens": 1, "output_tokens": 4}) == {
        "prompt_tokens": 1,
        "completion_tokens": 4,
        "total_tokens": 5,
    }
