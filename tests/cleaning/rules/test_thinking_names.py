"""Every think block whose tags carry a listed name."""

from __future__ import annotations

import pytest

from Middleware.cleaning import ResponseCleaner


def clean(text, endpoint=None, node=None, **more):
    cleaner = ResponseCleaner(endpoint, node, **more)
    return "".join([cleaner.feed(letter) for letter in text]) + cleaner.finish()


NAMES = {"removeThinking": True, "thinkTagNames": ["think", "thought"]}

SITUATIONS = [  # id, endpoint, answer, what the user sees
    ("off", {**NAMES, "removeThinking": False}, "<think>a</think>b", "<think>a</think>b"),
    ("a bare name is a list of one", {**NAMES, "thinkTagNames": "plan"}, "<plan>a</plan>b", "b"),
    (
        "spaces around a name",
        {**NAMES, "thinkTagNames": [" plan\t", "note"]},
        "<plan>a</plan>b<note>c</note>",
        "b",
    ),
    ("spaces around a bare name", {**NAMES, "thinkTagNames": " plan "}, "<plan>a</plan>b", "b"),
    ("many blocks", NAMES, "<think>a</think>b<thought>c</thought>d", "bd"),
    ("white space and case", NAMES, "< Think\t>a< / THOUGHT >b", "b"),
    ("no nesting", NAMES, "<think>a<think>b</think>c</think>", "c</think>"),
    ("never closed goes", NAMES, "x<think>a", "x"),
    ("never closed stays", {**NAMES, "whenEndThinkTagMissing": "keep"}, "x< THINK>a</thi", "x< THINK>a</thi"),
    ("a tag in a code span", NAMES, "Write `<think>`, end it.", "Write `<think>`, end it."),
    ("a tag in a fence", NAMES, "~~~\n<think>a\n~~~\n<think>b</think>c", "~~~\n<think>a\n~~~\nc"),
    ("a tag behind a span", NAMES, "`a` <think>b</think>c", "`a` c"),
    ("a span around a block", NAMES, "<think>a</think>`b`<think>c</think>d", "`b`d"),
    ("no tag", NAMES, "a << b, List<int>, x <think y", "a << b, List<int>, x <think y"),
    ("a stray end is text", NAMES, "a</think>b", "a</think>b"),
    ("a second chance", NAMES, "<<think>a</</think>b", "<b"),
    ("too long a tag", NAMES, "a<" + " " * 58 + "think>b", "a<" + " " * 58 + "think>b"),
    ("the longest tag", NAMES, "a<" + " " * 57 + "think>b</think>c", "ac"),
    (
        "letters of other scripts",
        {**NAMES, "thinkTagNames": ["\u601d\u8003"]},
        "<\u601d\u8003>a</\u601d\u8003>b",
        "b",
    ),
]


@pytest.mark.parametrize(
    ("endpoint", "text", "expected"), [s[1:] for s in SITUATIONS], ids=[s[0] for s in SITUATIONS]
)
def test_thinking_names(endpoint, text, expected):
    assert clean(text, endpoint) == expected


def test_what_is_no_tag_leaves_as_soon_as_that_is_known():
    cleaner = ResponseCleaner(NAMES, {})

    assert [cleaner.feed(text) for text in ("a <", "th", "x", "< ", "b")] == ["a ", "", "<thx", "", "< b"]


def test_what_may_be_a_tag_is_not_held_in_code():
    cleaner = ResponseCleaner(NAMES, {})

    assert [cleaner.feed(chunk) for chunk in ("a `<", "thi", "nk>` <thi", "nk>")] == [
        "a `<",
        "thi",
        "nk>` ",
        "",
    ]
