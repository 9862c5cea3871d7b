"""A key is stated once; its schema and its typed value are made of that."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from Middleware.config.keys import (
    ANY,
    FLAG,
    NUMBER,
    OBJECT,
    TEXT,
    TEXTS,
    WHOLE,
    Key,
    key_field,
    keys_of_fields,
    object_key,
    object_schema,
    one_of,
)
from Middleware.config.validation import check

BOTH = Key(must={"type": ["integer", "string"]}, should={"minimum": 0}, read=lambda found: found or None)

SCHEMAS = [
    ("anything", ANY("A comment."), {"description": "A comment."}),
    ("a-flag-warns", FLAG("Log."), {"type": "boolean", "x-level": "warning", "default": False, "description": "Log."}),
    ("a-flag-that-must", FLAG("Log.").strict, {"type": "boolean", "default": False, "description": "Log."}),
    ("words-for-the-shape", TEXT("Name.", pattern="^a$", allowed="an a"), {"type": "string", "pattern": "^a$", "x-allowed": "an a", "description": "Name."}),
    ("an-empty-default-may-be-stated", TEXT("Key.", default=""), {"type": "string", "default": "", "description": "Key."}),
    ("a-text-that-should", TEXT("Level.").lenient, {"type": "string", "x-level": "warning", "description": "Level."}),
    ("words", one_of("a", "b")("Mode."), {"enum": ["a", "b"], "description": "Mode."}),
    ("both-levels", BOTH("Limit.", minimum=1), {"type": ["integer", "string"], "allOf": [{"minimum": 1, "x-level": "warning"}], "description": "Limit."}),
]  # fmt: skip


@pytest.mark.parametrize(("key", "schema"), [c[1:] for c in SCHEMAS], ids=[c[0] for c in SCHEMAS])
def test_the_schema_of_a_key(key, schema):
    assert key.schema() == schema


def test_the_schema_of_an_object():
    """Required keys are listed; an object inside another is one of its keys."""
    keys = {
        "url": TEXT("Address.", required=True),
        "inner": object_key("More.", {"size": WHOLE("Size.")}, open=True),
    }
    assert object_schema(keys, minProperties=1) == {
        "type": "object",
        "properties": {
            "url": {"type": "string", "description": "Address."},
            "inner": {
                "type": "object",
                "properties": {"size": {"type": "integer", "description": "Size."}},
                "x-open": True,
                "description": "More.",
            },
        },
        "required": ["url"],
        "minProperties": 1,
    }


def test_each_level_of_a_breach_is_reported_as_such():
    """What must hold is an error, what should hold is a warning."""
    keys = object_schema({"limit": BOTH("Limit.")})
    levels = [[f.level for f in check({"limit": value}, keys, "a.json")] for value in (True, -1, 3)]
    assert levels == [["error"], ["warning"], []]


VALUES = [
    ("absent", WHOLE("", default=5), None, 5),
    ("number", WHOLE("", default=5), 7, 7),
    ("number-in-a-text", WHOLE("", default=5), "7", 7),
    ("no-number", WHOLE("", default=5), "x", 5),
    ("below-the-minimum", WHOLE("", default=5, minimum=1), 0, 5),
    ("flag", FLAG(""), 1, True),
    ("absent-flag", FLAG("", default=True), None, True),
    ("text", TEXT(""), "a", "a"),
    ("no-text", TEXT("", default="b"), 5, "b"),
    ("absent-text", TEXT(""), None, ""),
    ("absent-texts", TEXTS(""), None, None),
    ("object", OBJECT(""), {"a": 1}, {"a": 1}),
    ("number-with-a-point", NUMBER(""), 0.5, 0.5),
    ("own-reader", BOTH("", default=3), 0, 3),
]


@pytest.mark.parametrize(("key", "found", "value"), [c[1:] for c in VALUES], ids=[c[0] for c in VALUES])
def test_the_value_of_a_key(key, found, value):
    """What is of a wrong kind counts as absent."""
    assert key.value(found) == value
    assert key.value_in({"name": found}, "name") == value


def test_a_dataclass_states_keys_in_its_fields():
    """A field's name in camelCase is the key's, unless it says another."""

    @dataclass
    class Settings:
        raw: str = ""
        max_depth: int = key_field(WHOLE("Depth.", default=64))
        task: str = key_field(TEXT("Task."), "openWebUITask", later=True)

    stated = keys_of_fields(Settings)
    assert [(name, one.attribute, one.key.sentence, one.more) for name, one in stated.items()] == [
        ("maxDepth", "max_depth", "Depth.", {}),
        ("openWebUITask", "task", "Task.", {"later": True}),
    ]
    assert Settings() == Settings("", 64, "")
