"""Where values stand in the text of a file, and keys that stand twice."""

from __future__ import annotations

import pytest

from Middleware.common.errors import NOWHERE, Position
from Middleware.config.json_positions import place_findings, position_in, repeated_keys
from Middleware.config.validation import ERROR, Finding

FLOW = "Workflows/ana/Main.json"
TEXT = b"""\xef\xbb\xbf{ // {"nodes": 1}
  "size": 4, "a/b": {"~": [1, {"x": null}]},
  "nodes": [
    {"title": "One", "prompt": "say \\"}\\" /* no */"},
    {"agentName": "Two", "flag": true,},
    5
  ]
}
"""


@pytest.mark.parametrize(
    ("pointer", "position"),
    [
        ("", Position(1, 1)),
        ("/size", Position(2, 11)),
        ("/a~1b/~0/1/x", Position(2, 37)),
        ("/nodes/0/prompt", Position(4, 32, "One")),
        ("/nodes/1/flag", Position(5, 34, "Two")),
        ("/nodes/1/none/deeper", Position(5, 5, "Two")),
        ("/nodes/2", Position(6, 5)),
        ("/nodes/9", Position(3, 12)),
        ("/none", Position(1, 1)),
    ],
)
def test_the_place_of_a_value_or_of_the_nearest_around_it(pointer, position):
    """Comments, byte order mark and trailing commas move nothing."""
    assert position_in(TEXT, FLOW, pointer) == position


def test_a_workflow_that_is_a_list_takes_both_pointers():
    """A run calls its nodes `/nodes/N` whatever the file looks like."""
    raw = b'[\n {"title": "A"},\n {"title": "B", "x": 1}]'
    assert position_in(raw, FLOW, "/nodes/1/x") == position_in(raw, FLOW, "/1/x") == Position(3, 22, "B")


def test_what_is_no_json_has_no_places():
    assert position_in(b"{", FLOW, "/0") == NOWHERE
    assert repeated_keys(b"{", FLOW) == []


def test_a_place_that_is_known_is_kept():
    known = Finding(FLOW, "/size", ERROR, "m", Position(7, 7))
    assert [f.position for f in place_findings([known, Finding(FLOW, "/size", ERROR, "m")], TEXT)] == [
        Position(7, 7),
        Position(2, 11),
    ]


@pytest.mark.parametrize(
    ("text", "pointers"),
    [
        ('{"a": 1, "b": 2}', []),
        ('{"a": 1, "a": 2}', ["/a"]),
        ('[{"x": {"y": 1, "\\u0079": 2}}, {"x": 1}]', ["/0/x/y"]),
        ('{"_comment": 1, "_comment": 2, "comment1": 1, "comment1": 2, "description": 1, "description": 2}', []),
    ],
    ids=["each-once", "twice", "written-otherwise", "remarks"],
)  # fmt: skip
def test_a_key_that_stands_twice_is_told(text, pointers):
    """The last one counts; of remarks nobody minds."""
    assert [f.pointer for f in repeated_keys(text.encode(), "Users/a.json")] == pointers
