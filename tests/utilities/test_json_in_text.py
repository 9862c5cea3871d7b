"""JSON is found in what a model wrote around it."""

from __future__ import annotations

import pytest

from Middleware.utilities.model_json import json_values, places_of_json


def test_fences_come_first_and_those_that_say_json_before_others():
    """The whole reply is the last place."""
    reply = "a\n```py\n1\n```\n```JSON\n{}\n```"
    assert places_of_json(reply) == ["{}\n", "1\n", reply]


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("", []),
        ("no", []),
        ('x {"a": 1} y [2] {', [{"a": 1}, [2]]),
        ('{"a": {"b": 1}}', [{"a": {"b": 1}}]),
        ("{oops [1]", [[1]]),
        ('["a\nb"]', [["a\nb"]]),
        ("[" * 5000, []),
        ("{" * 5000 + "[1]", []),
    ],
    ids=[
        "empty",
        "words",
        "two",
        "nested-ones-are-inside",
        "behind-a-slip",
        "a-line-end-in-a-string",
        "too-deep",
        "too-many-tries",
    ],
)
def test_values_from_left_to_right(text, values):
    """Objects and arrays; a reply of nothing but brackets does not take for ever."""
    assert [value for _, value, _ in json_values(text)] == values


def test_places_of_a_value():
    """Where it begins and ends."""
    assert [(start, end) for start, _, end in json_values("ab[1]c")] == [(2, 5)]
