"""The endpoint's texts at the start."""

from __future__ import annotations

import pytest

from Middleware.cleaning import ResponseCleaner


def clean(text, endpoint=None, node=None, **more):
    cleaner = ResponseCleaner(endpoint, node, **more)
    return "".join([cleaner.feed(letter) for letter in text]) + cleaner.finish()


ON = "removeCustomTextFromResponseStartEndpointWide"
LIST = "responseStartTextToRemoveEndpointWide"


@pytest.mark.parametrize(
    ("listed", "text", "expected"),
    [([" A: "], "A:b", "b"), ("A", "A b", "b"), (["  ", "A"], "Ab", "b"), ([], "A", "A"), ([" "], "A", "A")],
)
def test_endpoint_prefixes(listed, text, expected):
    """Each text is stripped before it is looked for."""
    assert clean(text, {ON: True, LIST: listed}) == expected


def test_comes_after_the_node():
    node = {"removeCustomTextFromResponseStart": True, "responseStartTextToRemove": "N"}
    assert (clean("NEx", {ON: True, LIST: "E"}, node), clean("ENx", {ON: True, LIST: "E"}, node)) == (
        "x",
        "Nx",
    )


def test_off():
    assert clean("A", {LIST: ["A"]}) == "A"
