"""The node's own texts at the start."""

from __future__ import annotations

import pytest

from Middleware.cleaning import ResponseCleaner


def clean(text, endpoint=None, node=None, **more):
    cleaner = ResponseCleaner(endpoint, node, **more)
    return "".join([cleaner.feed(letter) for letter in text]) + cleaner.finish()


SITUATIONS = [  # id, list, answer, what the user sees
    ("first in list order", ["A", "AB"], "ABC", "BC"),
    ("at most one", ["A", "B"], "AB", "B"),
    ("a bare text", "A:", "A: b", "b"),
    ("empty entries are ignored", ["", "A"], "Ab", "b"),
    ("case counts", ["A"], "ab", "ab"),
    ("exactly as written", ["A: "], "A:b", "A:b"),
    ("nothing listed", None, "A", "A"),
]


@pytest.mark.parametrize(
    ("listed", "text", "expected"), [s[1:] for s in SITUATIONS], ids=[s[0] for s in SITUATIONS]
)
def test_node_prefixes(listed, text, expected):
    node = {"removeCustomTextFromResponseStart": True, "responseStartTextToRemove": listed}
    assert clean(text, node=node) == expected


def test_off():
    assert clean("A", node={"responseStartTextToRemove": ["A"]}) == "A"
