"""The harmony format by its grammar: thoughts and tool arguments never become answer, however it is cut."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from Middleware.llmapis.reasoning_parser import HEADER_LIMIT, MARKS, HarmonySplitter

FINAL = "<|channel|>final<|message|>"
CASES = {  # text, thinking, answer
    "thought and answer": ("<|channel|>analysis<|message|>a<|end|><|start|>assistant" + FINAL + "b<|return|>", "a", "b"),
    "recipient behind the channel": ("<|channel|>commentary to=functions.f<|message|>{}<|call|>", "{}", ""),
    "recipient before the channel": ("<|start|>assistant to=python<|channel|>analysis<|message|>x<|call|>b", "x", "b"),
    "recipient of a final message": ("<|channel|>final to=python<|message|>x<|end|>b", "x", "b"),
    "recipient without a channel": ("<|start|>assistant to=python<|message|>x<|end|>b", "x", "b"),
    "constrained": ("<|channel|>commentary to=functions.f <|constrain|>json<|message|>{}<|call|>b", "{}", "b"),
    "constrained final": ("<|channel|>final <|constrain|>json<|message|>{}<|return|>", "", "{}"),
    "type without its mark": ("<|channel|>commentary to=functions.f json<|message|>{}<|call|>", "{}", ""),
    "white space between parts": ("<|start|> assistant\n<|channel|> analysis \n<|message|>a<|end|>", "a", ""),
    "preamble": ("<|channel|>commentary<|message|>a" + FINAL + "b", "a", "b"),
    "unknown channel": ("<|channel|>odd<|message|>a<|end|>b", "a", "b"),
    "any case": ("<|CHANNEL|>Final<|Message|>b<|END|>", "", "b"),
    "no header": ("<|message|>b<|end|>", "", "b"),
    "a role alone": ("<|start|>assistant<|message|>b", "", "b"),
    "outside of messages": ("a<|end|>b<|return|>c", "", "abc"),
    "the next start closes": ("<|channel|>analysis<|message|>a<|start|>assistant" + FINAL + "b", "a", "b"),
    "a message mark in a thought": ("<|channel|>analysis<|message|>a<|message|>c<|end|>", "ac", ""),
    "a constrain mark outside of headers": ("a<|constrain|>b", "", "ab"),
    "a header that is begun anew": ("<|channel|>analysis" + FINAL + "b", "analysis", "b"),
    "a header that never ends": ("<|channel|>odd", "odd", ""),
    "a header that is broken off": ("<|channel|>odd<|end|>b", "odd", "b"),
    "an empty channel": ("<|channel|><|message|>a", "a", ""),
    "words instead of a header": ("<|start|>Here is the answer at last", "", "Here is the answer at last"),
    "an answer without its message mark": ("<|channel|>final Here it is at last", "", "final Here it is at last"),
    "a word too long for a header": ("<|start|>" + "x" * (HEADER_LIMIT + 9), "", "x" * (HEADER_LIMIT + 9)),
    "open at the end": ("<|channel|>analysis<|message|>a<|en", "a<|en", ""),
    "half a mark in the answer": ("b <|x <|e", "", "b <|x <|e"),
}  # fmt: skip


def split(pieces):
    splitter = HarmonySplitter()
    said = [splitter.feed(piece) for piece in pieces] + [splitter.finish()]
    return "".join(thinking for thinking, _ in said), "".join(text for _, text in said)


@pytest.mark.parametrize("cut", [list, lambda text: [text]], ids=["characters", "whole"])
@pytest.mark.parametrize(("text", "thinking", "answer"), CASES.values(), ids=CASES)
def test_split(text, thinking, answer, cut):
    assert split(cut(text)) == (thinking, answer)


MORSELS = [*MARKS, "<", "<|", "a", " ", "\n", "final", "analysis", " to=f", "json", "word " * 3, "y" * 130]


@settings(max_examples=300)
@given(
    st.lists(st.sampled_from(MORSELS), max_size=14).map("".join), st.lists(st.integers(0, 300), max_size=6)
)
def test_any_cut_gives_the_same(text, cuts):
    edges = [0, *sorted(min(cut, len(text)) for cut in cuts), len(text)]

    assert split(text[a:b] for a, b in pairwise(edges)) == split([text])


@given(st.lists(st.sampled_from(["a", " ", "final", *MARKS]), max_size=14).map("".join))
def test_no_mark_reaches_the_answer(text):
    _, answer = split([text])

    assert [mark for mark in MARKS if mark in answer] == []


def test_an_answer_is_not_held():
    splitter = HarmonySplitter()

    assert [splitter.feed(piece) for piece in (FINAL, "Hel", "lo <", "b>")] == [
        ("", ""),
        ("", "Hel"),
        ("", "lo "),
        ("", "<b>"),
    ]
