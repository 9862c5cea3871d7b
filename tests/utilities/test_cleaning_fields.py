"""The keys of the cleaning rules reach whoever checks files: a new rule's too, from its own file alone."""

from __future__ import annotations

import pytest

from Middleware.cleaning import stage
from Middleware.cleaning.stage import COUNT, FLAG, RULES, TEXT_OR_TEXTS, rule
from Middleware.config.validation import schema
from Middleware.utilities.streaming_utils import file_fields, node_descriptions, node_fields


@pytest.fixture(autouse=True)
def _a_new_rule(monkeypatch):
    """In a table of its own, which is forgotten."""
    monkeypatch.setattr(stage, "RULES", dict(RULES))
    monkeypatch.setattr("Middleware.utilities.streaming_utils.RULES", stage.RULES)

    @rule(
        order=350,
        endpoint={"shoutLimit": COUNT("How loud.", default=3)},
        node={"shout": FLAG("Be loud.", of_models=True), "shoutTexts": TEXT_OR_TEXTS("What is shouted.")},
        user={"shoutAlways": FLAG("Always be loud.")},
    )
    def newcomer(inputs):
        return None


def test_keys_of_files():
    """With default and level; the files' schemas have them."""
    assert file_fields("endpoint")["shoutLimit"] == {
        "type": "integer",
        "minimum": 0,
        "default": 3,
        "description": "How loud.",
    }
    assert schema("endpoint")["properties"]["shoutLimit"] == file_fields("endpoint")["shoutLimit"]
    assert schema("user")["properties"]["shoutAlways"]["x-level"] == "warning"


def test_they_are_made_once():
    """For the rules that there are."""
    assert file_fields("endpoint") is file_fields("endpoint")


def test_keys_of_nodes():
    """What must be right, and what should be."""
    assert "shoutTexts" in node_fields(strict=True) and "shoutTexts" not in node_fields(strict=False)
    assert node_fields(strict=False)["shout"]["type"] == "boolean"


def test_keys_of_nodes_in_words():
    """An empty default goes without saying."""
    assert node_descriptions(of_models=True)["shout"] == "Be loud. Default: false."
    assert node_descriptions(of_models=False)["shoutTexts"] == "What is shouted."
    assert "shout" not in node_descriptions(of_models=False)
