"""Names in workflow files that a placeholder may stand for: known before any run, or not."""

from __future__ import annotations

import pytest

from Middleware.workflows.checks.workflow_graph import known_text

VALUES = {"b": "x", "n": 5, "w": "small", "v": "{w}", "u": "{v}-{b}", "r": "{agent1Input}", "o": {"k": "{w}"}, "c": "{c}"}  # fmt: skip


@pytest.mark.parametrize(
    "name", ["{agent1Input}", "{unset}", "{b}{unset}", "{r}", "{c}", "{o[x]}", "{", "", None, 5], ids=str
)
def test_names_that_only_a_run_knows(name):
    assert known_text(name, VALUES) is None


@pytest.mark.parametrize(
    ("name", "known"),
    [
        ("{w}", "small"),
        ("a{b}", "ax"),
        ("{n}", "5"),
        ("{v}", "small"),
        ("{u}", "small-x"),
        ("{o[k]}", "small"),
    ],
)
def test_a_variable_that_holds_a_name(name, known):
    """As a run fills it: within a name, too, and through other variables."""
    assert known_text(name, VALUES) == known


def test_the_nodes_are_no_variable():
    assert known_text("{nodes}", {"nodes": "x"}) is None
