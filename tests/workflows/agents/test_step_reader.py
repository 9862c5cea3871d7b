"""One call of a model, read as it comes. Source: spec agents.md 3 and 4."""

from __future__ import annotations

from typing import Any

import pytest

from Middleware.llmapis.llm_text import LlmText
from Middleware.workflows.agents.step_reader import PlainWords, StepReader, WordsEnd, one_batch


class Held:
    """Shows what stands before a `[`, and holds the rest: that is a call when it ends in `]`."""

    def __init__(self) -> None:
        self.held = ""

    def feed(self, text: str) -> str:
        shown, bracket, rest = text.partition("[") if not self.held else ("", "", text)
        self.held += bracket + rest
        return shown

    def finish(self) -> WordsEnd:
        is_call = self.held.endswith("]")
        return WordsEnd("" if is_call else self.held, (self.held,) if is_call else (), is_null=not self.held)


def text(token: str, **more: Any) -> dict[str, Any]:
    return {"token": token, "finish_reason": None, **more}


def call(call_id: str, arguments: str = "{}") -> dict[str, Any]:
    return {"id": call_id, "type": "function", "function": {"name": "f", "arguments": arguments}}


def begun(call_id: str, arguments: str = "{}", index: int = 0) -> dict[str, Any]:
    return text("", tool_calls=[{"index": index, **call(call_id, arguments)}])


def read(words: Any, *batches: list[Any]) -> tuple[list[Any], StepReader]:
    """What leaves, batch by batch and at the end."""
    reader = StepReader(words)
    out = [reader.take(batch) for batch in batches]
    return [*out, reader.finish()], reader


class TestWhatLeaves:
    def test_text_of_a_batch_is_one_piece(self):
        out, reader = read(PlainWords(), [text("a"), text("b")], [text("c")], [text("")])
        assert out == [[text("ab")], [text("c")], [], []]
        assert (reader.answer.text, reader.answer.came) == ("abc", "abc")

    def test_thoughts_keep_their_place(self):
        """Behind the text before them, and before the text that comes with them."""
        batch = [text("a"), text("b", thinking="hm"), text("c"), text("", thinking="so")]
        out, reader = read(PlainWords(), batch)
        assert out[0] == [text("a"), text("", thinking="hm"), text("bc"), text("", thinking="so")]
        assert (reader.answer.text, reader.answer.thinking) == ("abc", "hmso")

    def test_an_error_leaves_behind_its_text(self):
        error = {"token": "", "finish_reason": "error", "error": {"kind": "timeout"}}
        out, reader = read(PlainWords(), [text("a"), error])
        assert out[0] == [text("a"), error]
        assert reader.answer.finish_reason == "error"

    def test_an_end_without_text_leaves_nothing(self):
        out, _ = read(PlainWords(), [{"token": "", "finish_reason": "stop", "usage": {}}])
        assert out == [[], []]


class TestWhatIsHeld:
    def test_a_call_that_was_written_as_text(self):
        out, reader = read(Held(), [text("a[")], [text("call]")])
        assert out == [[text("a")], [], []]
        assert (reader.answer.text, reader.answer.came) == ("a", "a[call]")
        assert (reader.answer.text_calls, reader.answer.is_null) == (("[call]",), False)

    def test_what_was_no_call_comes_at_the_end(self):
        out, reader = read(Held(), [text("a[b")])
        assert out == [[text("a")], [text("[b")]]
        assert (reader.answer.text, reader.answer.text_calls) == ("a[b", ())

    def test_no_tool_is_wanted(self):
        _, reader = read(Held(), [text("a")])
        assert reader.answer.is_null

    def test_beside_native_calls_it_is_text(self):
        """A model that calls natively has written no calls."""
        out, reader = read(Held(), [text("a[call]")], [begun("1")])
        assert out == [[text("a")], [], [text("[call]")]]
        answer = reader.answer
        assert (answer.text, answer.text_calls, answer.is_null) == ("a[call]", (), False)
        assert [each["id"] for each in answer.calls] == ["1"]


class TestWhatItCameTo:
    def test_what_stands_beside_the_text(self):
        """The last that says it; an empty one takes nothing back."""
        told = {"model": "m", "native_finish_reason": "max", "truncated": True}
        facts = {"beside": {"reasoning": "hm"}, "usage": {"completion_tokens": 2}, "cost": 3, **told}
        nothing = {"token": "", "finish_reason": None, "beside": None, "usage": None, "cost": None}
        end = {"token": "", "finish_reason": "length", **facts}
        _, reader = read(PlainWords(), [text("a", usage={"completion_tokens": 1})], [end, nothing])
        answer = reader.answer
        assert (answer.beside, answer.usage, answer.cost) == (facts["beside"], facts["usage"], 3)
        assert (answer.finish_reason, answer.facts) == ("length", told)

    def test_a_cancelled_one_has_no_end(self):
        _, reader = read(PlainWords(), [text("a")])
        assert reader.answer.finish_reason is None and reader.answer.facts == {}

    @pytest.mark.parametrize(("reason", "cut"), [("length", {"2", "3"}), ("tool_calls", set())])
    def test_calls_that_the_end_cut(self, reason, cut):
        """Those that the backend says were cut, and those whose arguments are not whole."""
        end = {"token": "", "finish_reason": reason, "cut_calls": [call("3", "{")]}
        _, reader = read(PlainWords(), [begun("1"), begun("2", '{"a": ', 1)], [end])
        assert [each["id"] for each in reader.answer.calls] == ["1", "2", "3"]
        assert reader.answer.cut == cut


@pytest.mark.parametrize(
    ("result", "more"),
    [
        (LlmText("a", finish_reason="stop"), {}),
        ({"content": "a", "beside": {"reasoning": "hm"}, "cut_calls": []}, {"beside": {"reasoning": "hm"}}),
        ({"content": "a", "cut_calls": [call("1")]}, {"cut_calls": [call("1")]}),
        ("a", {}),
    ],
    ids=["text", "thoughts", "cut-calls", "plain"],
)
def test_a_whole_answer_is_one_batch(result, more):
    """With what stands beside its text."""
    assert one_batch(result, [text("b"), text("a")]) == [text("b"), text("a", **more)]
