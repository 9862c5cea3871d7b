"""Scripts read thoughts, text and calls of a stream through one parser; thoughts and text are cumulative."""

from __future__ import annotations

import threading

import pytest

from Middleware.llmapis.response_parser import LLMResponseParser, ParsedDelta, llm_parser


@pytest.fixture
def parser():
    return LLMResponseParser()


class TestOpenAi:
    def test_text_and_thoughts_so_far(self, parser):
        """Cumulative, and empty when the delta added nothing to that kind."""
        parser.parse_openai({"reasoning_content": "hm"})
        second = parser.parse_openai({"reasoning": " ok"})
        third = parser.parse_openai({"content": "Hi"})
        assert (second.thinking, second.thinking_delta, second.text) == ("hm ok", " ok", "")
        assert (third.thinking, third.text, third.text_delta) == ("", "Hi", "Hi")

    def test_marks_of_minimax_are_split_over_deltas(self, parser):
        """A mark of twenty characters, then one optional line end."""
        parts = ["<|im_st", "art|>thinking\nplan<|im_", "end|>Done"]
        *_, last = [parser.parse_openai({"content": part}) for part in parts]
        assert (last.text, parser.parse_openai({"reasoning": "!"}).thinking) == ("Done", "plan!")

    def test_half_a_mark_at_the_end_is_text(self, parser):
        """The finish reason lets out what was held."""
        parsed = parser.parse_openai({"choices": [{"delta": {"content": "a <|im"}, "finish_reason": "stop"}]})
        assert (parsed.text, parsed.is_complete) == ("a <|im", True)

    def test_thoughts_of_google_in_the_content(self, parser):
        """The mark behind them comes without the flag."""
        flagged = {"content": "<thought>t", "extra_content": {"google": {"thought": True}}}
        first = parser.parse_openai(flagged)
        second = parser.parse_openai({"content": "</thought>a"})
        parser.parse_openai(flagged)
        last = parser.parse_openai({"choices": [{"delta": {"content": "</t"}, "finish_reason": "stop"}]})
        assert (first.thinking, second.text, last.text) == ("t", "a", "a</t")

    def test_a_character_in_two_halves(self, parser):
        """Servers whose strings are UTF-16 cut so; a half at the end stays one."""
        first = parser.parse_openai({"content": "a\ud83d", "reasoning": "t"})
        second = parser.parse_openai({"content": "\ude00"})
        last = parser.parse_openai({"choices": [{"delta": {"content": "\ud83d"}, "finish_reason": "stop"}]})
        assert (first.text, first.thinking) == ("a", "t")
        assert (second.text, second.text_delta) == ("a\U0001f600", "\U0001f600")
        assert last.text == "a\U0001f600\ud83d"

    def test_calls_are_regular_deltas(self, parser):
        """With index, id and type on the first fragment."""
        parsed = parser.parse_openai(
            {"tool_calls": [{"id": "c", "function": {"name": "f", "arguments": {}}}]}
        )
        call = {"index": 0, "id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}
        assert parsed.tool_calls == [call]

    def test_a_chunk_without_choices_says_nothing(self, parser):
        """Usage chunks, preambles."""
        assert parser.parse_openai({"choices": []}) == ParsedDelta()

    def test_the_word_null_is_no_end(self, parser):
        """KoboldCpp's OpenAI route."""
        chunk = {"choices": [{"delta": {"content": "a"}, "finish_reason": "null"}]}
        assert not parser.parse_openai(chunk).is_complete


class TestAnthropic:
    def test_blocks(self, parser):
        """A second block keeps the thoughts of the first."""
        say = parser.parse_anthropic
        say(
            {"type": "content_block_start", "index": 0, "content_block": {"type": "thinking", "thinking": ""}}
        )
        say({"type": "content_block_delta", "index": 0, "delta": {"type": "thinking_delta", "thinking": "a"}})
        say(
            {"type": "content_block_start", "index": 1, "content_block": {"type": "thinking", "thinking": ""}}
        )
        thought = say(
            {"type": "content_block_delta", "index": 1, "delta": {"type": "thinking_delta", "thinking": "b"}}
        )
        text = say({"type": "content_block_delta", "index": 2, "delta": {"type": "text_delta", "text": "T"}})
        assert (thought.thinking, text.text) == ("ab", "T")

    def test_the_end(self, parser):
        """Both the stop reason and the last event complete the answer."""
        ended = parser.parse_anthropic({"type": "message_delta", "delta": {"stop_reason": "end_turn"}})
        last = parser.parse_anthropic({"type": "message_stop"})
        assert (ended.is_complete, last.is_complete) == (True, True)

    def test_call_input_comes_as_deltas(self, parser):
        """`input_json_delta` on the wire."""
        block = {"type": "tool_use", "id": "t", "name": "f", "input": {}}
        parser.parse_anthropic({"type": "content_block_start", "index": 0, "content_block": block})
        delta = {"type": "input_json_delta", "partial_json": '{"a"'}
        parsed = parser.parse_anthropic({"type": "content_block_delta", "index": 0, "delta": delta})
        assert parsed.tool_calls == [{"index": 0, "function": {"arguments": '{"a"'}}]


class TestFaces:
    @pytest.mark.parametrize("provider", ["anthropic", "Claude"])
    def test_by_provider(self, parser, provider):
        """The provider's name picks the dialect."""
        event = {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "T"}}
        assert parser.parse_chunk(event, provider=provider).text == "T"

    def test_openai_is_the_default(self, parser):
        """Most servers speak it."""
        assert parser.parse_chunk({"choices": [{"delta": {"content": "T"}}]}).text == "T"

    def test_reset_forgets(self, parser):
        """One object may serve one stream after another."""
        parser.parse_openai({"content": "a"})
        parser.reset()
        assert parser.parse_openai({"content": "b"}).text == "b"

    def test_thinking_tags(self, parser):
        """Marks that open reasoning."""
        assert parser.has_thinking_tags("<think>") and not parser.has_thinking_tags("plain")

    def test_the_module_object_has_a_state_for_each_thread(self):
        """Two requests at once do not mix."""
        llm_parser.reset()
        llm_parser.parse_openai({"content": "mine "})
        seen = []
        other = threading.Thread(
            target=lambda: seen.append(llm_parser.parse_openai({"content": "theirs"}).text)
        )
        other.start()
        other.join()
        assert (seen, llm_parser.parse_openai({"content": "too"}).text) == (["theirs"], "mine too")


ODD = [None, 5, "x", [], [None], {"a": 1}, [{"delta": 5}]]
ANTHROPIC = [
    ("content_block_delta", "delta"),
    ("content_block_start", "content_block"),
    ("content_block_stop", "index"),
    ("message_start", "message"),
    ("message_delta", "usage"),
]


@pytest.mark.parametrize("odd", ODD, ids=repr)
def test_odd_forms_say_nothing(odd):
    """Never an exception."""
    parser = LLMResponseParser()
    for key in ("choices", "delta", "content", "tool_calls", "finish_reason"):
        assert parser.parse_openai({key: odd}).thinking == ""
    for kind, key in ANTHROPIC:
        assert parser.parse_anthropic({"type": kind, key: odd}).text == ""
