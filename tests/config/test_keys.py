"""A key is stated once; its schema and its typed value are made of that."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pytest

from Middleware.config.keys import (
    ANY,
    FLAG,
    NOTHING,
    NUMBER,
    OBJECT,
    TEXT,
    TEXTS,
    WHOLE,
    Key,
    key_field,
    keys_of_fields,
    object_of,
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
        "inner": object_of({"size": WHOLE("Size.")}, open=True)("More."),
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
    ("word", one_of("a", "b")("", default="a"), "b", "b"),
    ("other-word", one_of("a", "b")("", default="a"), "c", "a"),
    ("no-object", OBJECT(""), [1], None),
]


@pytest.mark.parametrize(("key", "found", "value"), [c[1:] for c in VALUES], ids=[c[0] for c in VALUES])
def test_the_value_of_a_key(key, found, value):
    """What is of a wrong kind counts as absent."""
    assert key.value(found) == value
    assert key.value_in({"name": found}, "name") == value


@dataclass(frozen=True, slots=True)
class Kitchen:
    raw: str = ""
    burners_in_use: int = key_field(WHOLE, "How many are lit.", default=2, minimum=1, maximum=6)
    gas_is_on: bool = key_field(FLAG, "Gas flows.")
    cook_name: str = key_field(TEXT, "Who cooks.")
    dish: str = key_field(one_of("soup", "stew"), "What is cooked.", default="soup")
    web_ui: str = key_field(TEXT, "The screen.", "webUI", pattern="^http", allowed="an address")
    spices: tuple[str, ...] | None = key_field(
        TEXTS, "In order.", read=lambda value: tuple(value) if isinstance(value, list) else None
    )
    notes: Mapping[str, str] = key_field(OBJECT.lenient, "Remarks.", empty=NOTHING)
    unsaid: int | None = key_field(WHOLE, default=0, absent=None)


FIELDS = keys_of_fields(Kitchen)


@pytest.mark.parametrize(
    ("attribute", "name", "stated"),
    [
        ("burners_in_use", "burnersInUse", {"type": "integer", "default": 2, "minimum": 1, "maximum": 6, "description": "How many are lit."}),
        ("gas_is_on", "gasIsOn", {"type": "boolean", "default": False, "x-level": "warning", "description": "Gas flows."}),
        ("cook_name", "cookName", {"type": "string", "description": "Who cooks."}),
        ("dish", "dish", {"enum": ["soup", "stew"], "default": "soup", "description": "What is cooked."}),
        ("web_ui", "webUI", {"type": "string", "pattern": "^http", "x-allowed": "an address", "description": "The screen."}),
        ("spices", "spices", {"type": "array", "items": {"type": "string"}, "description": "In order."}),
        ("notes", "notes", {"type": "object", "x-level": "warning", "description": "Remarks."}),
        ("unsaid", "unsaid", {"type": "integer", "default": 0}),
    ],
)  # fmt: skip
def test_a_dataclass_states_keys_in_its_fields(attribute, name, stated):
    """A field's name in camelCase is the key's, unless it says another; an empty default goes without saying."""
    assert (FIELDS[name].attribute, FIELDS[name].key.schema()) == (attribute, stated)


@pytest.mark.parametrize(
    ("name", "found", "value"),
    [
        ("burnersInUse", 4, 4),
        ("burnersInUse", "4", 4),
        ("burnersInUse", 0, 2),
        ("burnersInUse", "many", 2),
        ("gasIsOn", 1, True),
        ("cookName", "Ana", "Ana"),
        ("cookName", 5, ""),
        ("dish", "stew", "stew"),
        ("dish", "cake", "soup"),
        ("spices", ["salt"], ("salt",)),
        ("spices", "salt", None),
        ("unsaid", None, None),
        ("unsaid", "x", None),
    ],
)
def test_the_value_of_a_field(name, found, value):
    """Of a wrong kind, or below the least: it counts as not set."""
    assert FIELDS[name].value(found) == value


def test_a_dataclass_without_a_file_holds_the_defaults():
    """Each field what it holds without its key."""
    kitchen = Kitchen()
    assert (kitchen.burners_in_use, dict(kitchen.notes), kitchen.spices) == (2, {}, None)
    assert (kitchen.dish, kitchen.unsaid, kitchen.cook_name) == ("soup", None, "")
