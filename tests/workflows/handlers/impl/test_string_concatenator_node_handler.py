"""StringConcatenator: texts joined."""

from __future__ import annotations

import pytest

SITUATIONS = [
    (
        "texts-are-filled",
        {"strings": ["Topic: {agent1Output}", "{agent2Output}"], "delimiter": " | "},
        "Topic: A | B",
    ),
    ("no-delimiter", {"strings": ["a", "b"]}, "ab"),
    ("null-delimiter", {"strings": ["a", "b"], "delimiter": None}, "ab"),
    ("the-delimiter-is-literal", {"strings": ["a", "b"], "delimiter": "{agent1Output}"}, "a{agent1Output}b"),
    ("other-items", {"strings": [100, True, None, 1.5, "x"], "delimiter": ","}, "100,True,None,1.5,x"),
    ("empty-list", {"strings": [], "delimiter": ","}, ""),
    ("missing", {}, ""),
    ("null", {"strings": None}, ""),
]


@pytest.mark.parametrize(("fields", "output"), [s[1:] for s in SITUATIONS], ids=[s[0] for s in SITUATIONS])
def test_output(bench, fields, output):
    """Items in order, other than texts by their Python text."""
    bench.engine.values = {"agent1Output": "A", "agent2Output": "B"}
    assert bench("StringConcatenator", **fields) == output
    assert bench.engine.warnings == []


@pytest.mark.parametrize("strings", ["abc", {"a": 1}, 3], ids=repr)
def test_anything_but_a_list_is_empty_with_a_warning(bench, strings):
    """The run goes on."""
    assert bench("StringConcatenator", strings=strings) == ""
    assert "must be a list" in bench.engine.warnings[0]
    assert bench.findings("StringConcatenator", strings=strings) == ([], ["/strings"])


def test_the_schema_asks_for_strings(bench):
    """A missing list is advice, a delimiter that is no text an error."""
    assert bench.findings("StringConcatenator", delimiter=3) == (["/delimiter"], [""])
    assert bench.findings("StringConcatenator", strings=[1, "a", None]) == ([], [])
