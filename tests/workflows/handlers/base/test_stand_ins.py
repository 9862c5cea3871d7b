"""What a text with placeholders may become."""

from __future__ import annotations

import pytest

from Middleware.workflows.handlers.base.base_workflow_node_handler import fillings


@pytest.mark.parametrize(
    ("text", "filled"),
    [
        ("a", ["a"]),
        ("a {x}", ["a 1", "a 2"]),
        ("{x}-{y}", ["1-1", "1-2", "2-1", "2-2"]),
        ("'{x}' \"{y}\" {z}", ["'1' \"1\" 1", "'1' \"1\" 2"]),
        ("{a}{b}{c}{d}", []),
    ],
    ids=["none", "one", "each-with-each", "in-quotes-a-word", "too-many"],
)
def test_every_choice_of_stand_ins(text, filled):
    assert list(fillings(text, ["1", "2"])) == filled
