"""JSON as weak models write it. Source: spec memory.md 18.2 (20)."""

from __future__ import annotations

import json

import pytest

from Middleware.utilities.model_json import MAX_DEPTH, read_value, read_whole, value_at

VALUES = [
    {"a": [1, -2.5e3, "x", True, False, None], "b": {"c": []}},
    [],
    {},
    'text with " and \\ and \u00fc and \U0001f600',
    0,
]


@pytest.mark.parametrize("value", VALUES, ids=repr)
@pytest.mark.parametrize("ascii_only", [True, False])
def test_what_is_json_is_read_as_json(value, ascii_only):
    assert read_whole(json.dumps(value, ensure_ascii=ascii_only, indent=2)) == value


@pytest.mark.parametrize("value", [VALUES[0], {"it's": 'say "x"', "n": None}], ids=repr)
def test_what_python_prints_is_read_on_wish(value):
    assert read_value(repr(value), python=True) == (value, len(repr(value)))
    with pytest.raises(ValueError):
        read_value(repr(value))


SLIPS = [
    ("comma-in-a-list", "[1, 2, ]", [1, 2]),
    ("comma-in-an-object", '{"a": 1,\n}', {"a": 1}),
    ("raw-line-end", '["a\r\nb"]', ["a\r\nb"]),
    ("raw-tab", '["a\tb"]', ["a\tb"]),
    ("markdown-escape", r'["a\_b"]', ["a_b"]),
    ("folder", r'["C:\Users\d"]', [r"C:\Users\d"]),
    ("short-unicode-escape", r'["\u12"]', [r"\u12"]),
    ("control-character", '["a\x01b"]', ["a\x01b"]),
]


@pytest.mark.parametrize(("text", "value"), [slip[1:] for slip in SLIPS], ids=[slip[0] for slip in SLIPS])
def test_a_slip_is_read_as_it_is_meant(text, value):
    assert read_whole(text) == value


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[",
        "[1",
        "[,]",
        "[1,,2]",
        "[1 2]",
        '{"a" 1}',
        "{1: 2}",
        "{[]: 1}",
        '["a]',
        "word",
        "[1] [2]",
        "[01]",
    ],
    ids=repr,
)
def test_anything_else_is_refused(text):
    with pytest.raises(ValueError):
        read_whole(text)


def test_deep_nesting_is_refused_before_python_gives_up():
    assert read_whole("[" * MAX_DEPTH + "]" * MAX_DEPTH)
    with pytest.raises(ValueError, match="too deeply"):
        read_whole("[" * 100_000)


@pytest.mark.parametrize(
    ("pointer", "found"),
    [
        ("", {"a/b": [1, {"~": 2}], "0": 3}),
        ("/a~1b/0", 1),
        ("/a~1b/1/~0", 2),
        ("/0", 3),
    ],
)
def test_a_pointer_leads_to_a_value(pointer, found):
    assert value_at({"a/b": [1, {"~": 2}], "0": 3}, pointer) == found


@pytest.mark.parametrize(
    "pointer", ["/1", "/l/2", "/l/-1", "/l/01", "/l/x", "/l/\u0661", "/l/0/x", "/l/" + "9" * 5000]
)
def test_a_pointer_that_leads_nowhere(pointer):
    with pytest.raises(LookupError):
        value_at({"l": [1, 2]}, pointer)
