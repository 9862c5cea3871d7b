"""The one think block between two literal tags."""

from __future__ import annotations

import pytest

from Middleware.cleaning import ResponseCleaner


def clean(text, endpoint=None, node=None, **more):
    cleaner = ResponseCleaner(endpoint, node, **more)
    return "".join([cleaner.feed(letter) for letter in text]) + cleaner.finish()


THINK = {"removeThinking": True, "startThinkTag": "<think>", "endThinkTag": "</think>"}
CLOSING = {"removeThinking": True, "endThinkTag": "</think>", "expectOnlyClosingThinkTag": True}

SITUATIONS = [  # id, endpoint, answer, what the user sees
    ("off", {**THINK, "removeThinking": False}, "<think>a</think>b", "<think>a</think>b"),
    ("a block", THINK, "<think>a</think>b", "b"),
    ("any case", THINK, "<THINK>a</Think>b", "b"),
    ("text before it stays", THINK, "x <think>a</think> y", "x  y"),
    ("only the first", THINK, "<think>a</think>b<think>c</think>", "b<think>c</think>"),
    ("never closed stays", THINK, "x<Think>a", "x<Think>a"),
    ("never closed goes", {**THINK, "whenEndThinkTagMissing": "discard"}, "x<think>a", "x"),
    ("late tag is text", THINK, "x" * 101 + "<think>a</think>b", "x" * 101 + "<think>a</think>b"),
    ("at the edge of the grace period", THINK, "x" * 100 + "<think>a</think>b", "x" * 100 + "b"),
    ("own grace period", {**THINK, "openingTagGracePeriod": 1}, "xx<think>a</think>b", "xx<think>a</think>b"),
    ("no grace", {**THINK, "openingTagGracePeriod": 0}, "<think>a</think>b", "b"),
    ("not even a letter", {**THINK, "openingTagGracePeriod": 0}, "x<think>a</think>b", "x<think>a</think>b"),
    (
        "endless grace",
        {**THINK, "openingTagGracePeriod": 10**30},
        "x" * 300 + "<think>a</think>b",
        "x" * 300 + "b",
    ),
    (
        "wrong grace is the default",
        {**THINK, "openingTagGracePeriod": -1},
        "x" * 100 + "<think>a</think>b",
        "x" * 100 + "b",
    ),
    ("true is no number", {**THINK, "openingTagGracePeriod": True}, "xxx<think>a</think>b", "xxxb"),
    ("begins inside", CLOSING, "a</think>b</think>c", "b</think>c"),
    ("begins inside, never closed goes", CLOSING, "a", ""),
    ("begins inside, never closed stays", {**CLOSING, "whenEndThinkTagMissing": "keep"}, "a", "a"),
    ("begins inside, another word goes", {**CLOSING, "whenEndThinkTagMissing": "perhaps"}, "a", ""),
    ("another word stays", {**THINK, "whenEndThinkTagMissing": "perhaps"}, "x<think>a", "x<think>a"),
    (
        "names of spaces are none",
        {**THINK, "thinkTagNames": [" ", ""]},
        "<think>a</think>b",
        "b",
    ),
    (
        "names take over",
        {**THINK, "thinkTagNames": ["plan"]},
        "<think>a</think><plan>b</plan>",
        "<think>a</think>",
    ),
]


@pytest.mark.parametrize(
    ("endpoint", "text", "expected"), [s[1:] for s in SITUATIONS], ids=[s[0] for s in SITUATIONS]
)
def test_thinking_literal(endpoint, text, expected):
    assert clean(text, endpoint) == expected


def test_the_grace_period_delays_nothing():
    """What stands before a tag is delivered in every case, so it leaves at once."""
    cleaner = ResponseCleaner(THINK, {})

    assert [cleaner.feed(text) for text in ("He", "llo <", "b")] == ["He", "llo ", "<b"]


def test_text_behind_the_block_passes_untouched():
    cleaner = ResponseCleaner(THINK, {})
    cleaner.feed("<think>a</think>b")

    assert cleaner.passes_through
