"""Texts removed from the start of an answer."""

from __future__ import annotations

import pytest

from Middleware.cleaning.head_strip import HeadStrip, LeadingSpace

SITUATIONS = [  # id, prefixes, chunks, released after each chunk and at the end
    ("no prefix", ["A:"], ["B", "C"], ["B", "C", ""]),
    ("no prefix, and its space stays", ["A:"], [" B", " C"], [" B", " C", ""]),
    ("cut prefix and its space", ["A:"], ["A", ": ", " x"], ["", "", "x", ""]),
    ("refuted late", ["A:"], ["A", "B"], ["", "AB", ""]),
    ("ends undecided", ["A:"], ["A"], ["", "A"]),
    ("the end decides for a later one", ["AX", "A"], ["A"], ["", ""]),
    ("the end strips behind it", ["A \nX", "A"], ["A ", "\n"], ["", "", ""]),
    ("once", ["A"], ["A A"], ["A", ""]),
    ("nothing came", ["A"], [""], ["", ""]),
]


@pytest.mark.parametrize(
    ("prefixes", "chunks", "released"), [s[1:] for s in SITUATIONS], ids=[s[0] for s in SITUATIONS]
)
def test_head_strip(prefixes, chunks, released):
    stage = HeadStrip(prefixes)
    assert [*map(stage.feed, chunks), stage.finish()] == released


@pytest.mark.parametrize(("text", "done"), [("A", False), ("A: ", False), ("A: x", True), ("x", True)])
def test_is_done_once_decided_and_the_space_behind_is_gone(text, done):
    stage = HeadStrip(["A:"])
    stage.feed(text)
    assert stage.done is done


def test_leading_space_goes_and_is_never_held():
    stage = LeadingSpace()

    assert [(stage.feed(text), stage.done) for text in (" \n", "\u3000a ")] == [("", False), ("a ", True)]
    assert stage.finish() == ""
