"""Thoughts inside the text keep their place in the order of an answer, whatever one chunk brings of it."""

from __future__ import annotations

import pytest

from Middleware.llmapis.call.stream_reader import split_in_order
from Middleware.llmapis.reasoning_parser import reasoning_splitter


def told(parser, *tokens, **more):
    """What was said, in order: thoughts in angle brackets."""
    splitter, said = reasoning_splitter(parser), []
    for token in tokens:
        chunk = {"token": token, "finish_reason": None, **more}
        for part in [*split_in_order(splitter, chunk), chunk]:
            said.append(f"<{part['thinking']}>" if part.get("thinking") else "")
            said.append(part["token"])
    thinking, text = splitter.finish()
    return "".join([*said, f"<{thinking}>" if thinking else "", text])


@pytest.mark.parametrize(
    ("tokens", "expected"),
    [
        (["plain"], "plain"),
        (["<think>deep</think>Answer"], "<deep>Answer"),
        (["Sure: use [/THI", "NK] now <think>deep", "</think>Answer"], "Sure: use [/THINK] now <deep>Answer"),
        (["Sure, x <", "b> y<think>deep</think>z"], "Sure, x <b> y<deep>z"),
        (["a<think>b</think>c<think>d</think>e"], "a<b>c<d>e"),
    ],
    ids=["plain", "first", "held-square", "held-angle", "twice"],
)
def test_the_order_is_that_of_the_model(tokens, expected):
    """Text that came before a thought is said before it, also what was held because it might have been a mark."""
    assert told("think", *tokens) == expected


def test_harmony_keeps_it_too():
    """Behind `auto`: text, a thought, the answer."""
    body = "<|channel|>analysis<|message|>deep<|end|><|start|>assistant<|channel|>final<|message|>Yes"
    assert told("auto", f"Well. {body}") == "Well. <deep>Yes"


@pytest.mark.parametrize("size", [1, 2, 3, 5, 8, 13])
def test_however_the_text_is_cut(size):
    """The same words in the same order."""
    text = "Hi, a < b [x] <think>one [two] < three</think>four <think>five</think>six"
    cut = [text[i : i + size] for i in range(0, len(text), size)]
    assert told("think", *cut).replace("><", "") == "Hi, a < b [x] <one [two] < three>four <five>six"


def test_a_thought_of_a_field_of_its_own_comes_first():
    """The chunk brought both."""
    assert told("think", "a<think>b</think>c", thinking="z") == "<z>a<b>c"
