"""The answer of an agent in steps: cleaned one by one, joined by one empty line, thoughts where they belong."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from Middleware.workflows.streaming.step_handler import StepEnd, StepHandler

THINK = {"removeThinking": True, "startThinkTag": "<think>", "endThinkTag": "</think>"}
INLINE = {**THINK, "reasoningOutput": "inline"}
FIELD = {**THINK, "reasoningOutput": "field"}
FINISH = {"token": "", "finish_reason": "stop"}


def text(token):
    return {"token": token, "finish_reason": None}


def thought(words):
    return {"token": "", "finish_reason": None, "thinking": words}


def handled(endpoint, *steps, size=0, opening=None, **options):
    """The handler after an answer of these steps, and what it gave; a step is its chunks, the last one ends it.

    `size`: how texts are cut; 0: not at all.
    """
    handler = StepHandler(endpoint, {}, opening, user_config={}, **options)
    out = []
    for at, step in enumerate(steps):
        chunks = [chunk if isinstance(chunk, dict) else text(chunk) for chunk in step]
        for chunk in chunks:
            token = chunk["token"]
            cut = [token[i : i + size] for i in range(0, len(token), size)] if size and token else [token]
            for piece in cut:
                out += handler.clean_batch([{**chunk, "token": piece}])
        if at < len(steps) - 1:
            end = StepEnd(called=True, answers=options.get("holds_text", False) and at == len(steps) - 2)
            out += handler.clean_batch([{"token": "", "finish_reason": None, "step": end}])
    out += handler.clean_batch([FINISH])
    return handler, out


def said(out):
    return "".join(chunk["token"] for chunk in out)


def thoughts(out):
    return "".join(chunk.get("thinking", "") for chunk in out)


class TestTexts:
    @pytest.mark.parametrize(
        ("steps", "answer"),
        [
            ([["a"], ["b"]], "a\n\nb"),
            ([["a\n \n"], ["\n\n b\n"]], "a\n\nb\n"),
            ([["a"], [" \n"], ["b"]], "a\n\nb"),
            ([[" \n"], ["b"]], "b"),
            ([["a \n"], [""]], "a \n"),
            ([["a"], ["b "], [""]], "a\n\nb "),
            ([[""], [""]], ""),
            ([["<think>x</think>a"], ["<think>y</think>"], ["<think>z</think>\nb"]], "a\n\nb"),
        ],
    )
    @pytest.mark.parametrize("size", [0, 1, 2])
    def test_one_empty_line_between(self, steps, answer, size):
        """However the backend cuts them."""
        handler, out = handled(THINK, *steps, size=size)
        assert said(out) == handler.full_response_text == answer

    def test_it_says_whether_a_step_said_anything(self):
        """Once its text is cleaned."""
        handler = StepHandler(THINK, {}, user_config={})
        ends = []
        for token in ("<think>a</think> ", "b", ""):
            ends.append(StepEnd(called=True))
            handler.clean_batch([text(token), {**text(""), "step": ends[-1]}])
        assert [end.said for end in ends] == [False, True, False]

    def test_the_opening_of_a_group_chat_is_of_the_first_text(self):
        """Not of the first step, which may have none."""
        _, out = handled({}, [""], ["hello"], ["again"], opening="Ada:")
        assert said(out) == "Ada: hello\n\nagain"

    def test_an_empty_answer_of_a_group_chat_opens_as_ever(self):
        """But a step that may be followed by another has said nothing."""
        end = StepEnd(may_go_on=True)
        handler = StepHandler(THINK, {}, "Ada:", user_config={})
        out = handler.clean_batch([text("<think>a</think>"), {**text(""), "step": end}, FINISH])
        assert (end.said, said(out)) == (False, "Ada: ")

    @settings(max_examples=200)
    @given(
        st.lists(st.text("ab \n<>/think", max_size=12), min_size=1, max_size=4),
        st.integers(1, 5),
        st.booleans(),
    )
    def test_whole_is_as_streamed(self, texts, size, holds):
        """Text, and thoughts in their field."""
        steps = [[token] for token in texts]
        whole = handled(FIELD, *steps, holds_text=holds)
        cut = handled(FIELD, *steps, size=size, holds_text=holds)
        assert said(whole[1]) == said(cut[1])
        assert thoughts(whole[1]) == thoughts(cut[1])
        assert whole[0].thoughts == cut[0].thoughts


class TestThoughts:
    def test_in_their_field(self):
        """As they come, also behind text; an empty line parts those of two steps."""
        handler, out = handled(
            FIELD, [thought("a"), "x"], [thought("b"), thought("c")], ["<think>d</think>y"]
        )
        assert (said(out), thoughts(out)) == ("x\n\ny", "a\n\nbc\n\nd")
        assert handler.thoughts == ["a", "bc", "d"]

    def test_in_the_text(self):
        """Those before the first text alone, in one frame."""
        _, out = handled(INLINE, [thought("a")], [thought("b"), "x"], [thought("c"), "y"])
        assert said(out) == "<think>a\n\nb</think>x\n\ny"

    @pytest.mark.parametrize("size", [0, 1])
    @pytest.mark.parametrize(
        ("first", "answer"),
        [
            (["x<think>a</think>"], "x<think>a</think>\n\ny"),
            (["x", thought("a")], "x<think>a</think>\n\ny"),
            (["x<think>a"], "x<think>a</think>\n\ny"),
            (["x\n<think>a</think>\n"], "x<think>a</think>\n\ny"),
        ],
    )
    def test_in_the_text_behind_it(self, first, answer, size):
        """A step that ends in a thought closes its tag, so the next text never stands inside it."""
        _, out = handled({**INLINE, "thinkTagNames": ["think"]}, first, [thought("b"), "y"], size=size)
        assert said(out) == answer

    def test_nowhere(self):
        """They are known all the same."""
        handler, out = handled({**THINK, "reasoningOutput": "drop"}, [thought("a")], [thought("b"), "y"])
        assert (said(out), thoughts(out), handler.thoughts) == ("y", "", ["a", "b"])


class TestTextAsThinking:
    def test_text_beside_calls_is_a_thought(self):
        """Behind those of its own step; the last call's text is the answer."""
        handler, out = handled(FIELD, [thought("a"), "Looking."], ["Yes."], holds_text=True)
        assert (said(out), thoughts(out)) == ("Yes.", "a\n\nLooking.")
        assert handler.thoughts == ["a", "Looking."]

    def test_an_answer_comes_whole(self):
        """It waits for its end, when nobody said that it is the last one."""
        handler = StepHandler(FIELD, {}, user_config={}, holds_text=True)
        assert handler.clean_batch([text("Yes.")]) == []
        assert said(handler.clean_batch([FINISH])) == "Yes."


def test_each_step_is_told():
    """Its text as it came, the same cleaned, and its thoughts; a step of nothing is not."""
    told = []
    handled(THINK, ["<think>a</think>x"], [""], ["y "], tell_step=lambda *step: told.append(step))
    assert told == [("x", "x", ["a"]), ("y ", "y ", [])]
