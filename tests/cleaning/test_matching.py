"""Searches: what is a whole tag, what may become one, what is neither."""

from __future__ import annotations

import pytest

from Middleware.cleaning.head_strip import closing_tag, literal_tag, match_prefix, opening_tag

NAMES = ["think", "thinking"]


def seen(pattern, text):
    """`(start, end, whole)` of what the pattern finds, or None."""
    found = pattern.search(text)
    return found and (found.start(), found.end(), found.lastindex is not None)


@pytest.mark.parametrize(
    ("tag", "text", "expected"),
    [
        ("<think>", "a<think>b", (1, 8, True)),
        ("<think>", "a<THink>b", (1, 8, True)),
        ("<think>", "a<thi", (1, 5, False)),
        ("<think>", "<<th<t", (4, 6, False)),
        ("<think>", "a<thin k", None),
        ("<think>", "", None),
        ("aab", "aaab", (1, 4, True)),
        ("aab", "xaaa", (2, 4, False)),
        ("*", "a*", (1, 2, True)),
        ("(.", "a(", (1, 2, False)),
        ("k", "\u212a", (0, 1, True)),
        ("s>", "ſ>", (0, 2, True)),
    ],
)
def test_literal_tag(tag, text, expected):
    """Case is ignored as `re.IGNORECASE` does; a match is as long as the tag."""
    assert seen(literal_tag(tag), text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a<think>", (1, 8, True)),
        ("a< THINKING\n>", (1, 13, True)),
        ("a<", (1, 2, False)),
        ("a< ", (1, 3, False)),
        ("a<thinkin", (1, 9, False)),
        ("a<think ", (1, 8, False)),
        ("a<thinker", None),
        ("a</think>", None),
        ("a<\v", None),
        ("<" + " " * 57 + "think>", (0, 64, True)),
        ("<" + " " * 58 + "think>", None),
        ("<" + " " * 62, (0, 63, False)),
        ("<" + " " * 63, None),
        ("<<think>", (1, 8, True)),
    ],
)
def test_opening_tag(text, expected):
    assert seen(opening_tag(NAMES), text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a</think>", (1, 9, True)),
        ("a< / thinking >", (1, 15, True)),
        ("a< /", (1, 4, False)),
        ("a<", (1, 2, False)),
        ("a</thin", (1, 7, False)),
        ("a<think>", None),
        ("a</a>", None),
        ("</</think>", (2, 10, True)),
    ],
)
def test_closing_tag(text, expected):
    assert seen(closing_tag(NAMES), text) == expected


@pytest.mark.parametrize(
    ("head", "prefixes", "expected"),
    [
        ("ABC", ["A", "AB"], 1),
        ("ABC", ["AB", "A"], 2),
        ("A", ["AX", "A"], None),
        ("AB", ["AX", "A"], 1),
        ("", ["A"], None),
        ("x", ["A"], 0),
        ("x", [], 0),
    ],
)
def test_match_prefix(head, prefixes, expected):
    """Yes, no, or not yet: the first in list order decides."""
    assert match_prefix(head, prefixes) == expected
