"""Names in workflow files that a placeholder may stand for: known before any run, or not."""

from __future__ import annotations

import pytest

from Middleware.workflows.managers.known_text import known_text


@pytest.mark.parametrize("name", ["{agent1Input}", "{unset}", "a{b}", "", None, 5], ids=str)
def test_names_that_only_a_run_knows(name):
    assert known_text(name, {"b": "x", "n": 5}) is None
    assert known_text("{n}", {"n": 5}) is None


def test_a_variable_that_holds_a_name():
    assert known_text("{w}", {"w": "small"}) == "small"
