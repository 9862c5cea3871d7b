"""The text of a whole answer, with the facts that came beside it."""

from __future__ import annotations

import pytest

from Middleware.llmapis.llm_text import LlmText, in_order, note_answer, pieces_of


def test_a_thought_taken_out_of_the_text():
    """All else that is known of the answer stays; the answer that it was made from stays as it was."""
    answer = LlmText("<t>hm</t>a", finish_reason="length", usage={"total_tokens": 3}, model="m", refusal=True)
    apart = answer.told_apart("a", "hm")
    assert (apart, apart.thinking) == ("a", "hm")
    assert {**vars(answer), "thinking": "hm"} == vars(apart)
    assert (answer, answer.thinking) == ("<t>hm</t>a", "")


@pytest.mark.parametrize(
    ("said", "pieces"),
    [
        ([], None),
        ([("", "a"), ("", "b")], None),
        ([("t", ""), ("u", "a"), ("", "b")], None),
        ([("", "a"), ("t", "")], [("", "a"), ("t", "")]),
        ([("t", "a"), ("", "b"), ("", ""), ("u", ""), ("v", "c")], [("t", "ab"), ("uv", "c")]),
    ],
    ids=["nothing", "text", "thoughts-first", "thought-last", "thought-between"],
)
def test_the_order_of_thoughts_and_text(said, pieces):
    """Told only where a thought stands behind text."""
    assert pieces_of(said) == pieces


def test_a_whole_answer_in_its_order():
    """The last dict has all that is known of it; without an order it is the only one."""
    answer = LlmText("ab", thinking="t", pieces=[("", "a"), ("t", "b")])
    whole = {"token": "ab", "thinking": "t", "finish_reason": "length"}
    first = {"token": "a", "finish_reason": None}
    assert in_order({**whole}, answer) == [first, {**whole, "token": "b"}]
    assert in_order({**whole}, LlmText("ab", thinking="t")) == [whole]


class Told:
    """A node that is observed."""

    def __init__(self):
        self.answers = []

    def note_answer(self, text, thinking):
        self.answers.append((text, thinking))


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (LlmText("a", thinking="hm"), ("a", "hm")),
        (LlmText("a"), ("a", "")),
        ("a", ("a", "")),
        ({"content": "a", "thinking": "hm", "tool_calls": []}, ("a", "hm")),
        ({"content": None, "tool_calls": []}, ("", "")),
    ],
    ids=["thoughts", "none", "plain", "calls", "calls-alone"],
)
def test_observers_see_text_and_thoughts(answer, told):
    """The answer goes on as it is."""
    node = Told()
    assert note_answer(node, answer) is answer
    assert node.answers == [told]
    assert note_answer(None, answer) is answer
