"""A key is stated once; its schema and its typed value are made of that."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

import Middleware
from Middleware.config import validation
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
from Middleware.config.validation import check, schema

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


# --------------------------------------------------------------------------
# The house states each key once. The fields of nodes are looked at where nodes are tested.


PACKAGE = Path(Middleware.__path__[0])
NODES = PACKAGE / "workflows" / "handlers"
SOURCES = [path for path in sorted(PACKAGE.rglob("*.py")) if NODES not in path.parents]
KINDS = sorted(validation._FILES)


def names_with_defaults(shape) -> set[str]:
    """The keys, at any depth of a schema, that state a default."""
    inner = [*shape.get("properties", {}).items(), ("", shape.get("additionalProperties"))]
    found = {name for name, stated in inner if name and "default" in stated}
    return found.union(*(names_with_defaults(one) for _, one in inner if isinstance(one, Mapping)))


DEFAULTS = set().union(*(names_with_defaults(schema(kind)) for kind in KINDS))


def is_literal(node) -> bool:
    """A number, a word or a truth; an empty text stands for nothing at all and is no default."""
    return isinstance(node, ast.Constant) and node.value not in ("", None)


def name_asked_for(node) -> str | None:
    """`name` of `x.get("name", ...)`."""
    is_get = isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "get"
    name = node.args[0] if is_get and node.args else None
    return name.value if isinstance(name, ast.Constant) and isinstance(name.value, str) else None


def defaults_said_again(source: str) -> list[tuple[int, str]]:
    """`x.get("name", 5)` and `x.get("name") or 5` of keys whose default is stated: (line, name)."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call) and len(node.args) == 2 and is_literal(node.args[1]):
            name = name_asked_for(node)
        elif isinstance(node, ast.BoolOp) and isinstance(node.op, ast.Or) and is_literal(node.values[-1]):
            name = name_asked_for(node.values[0])
        else:
            continue
        if name in DEFAULTS:
            found.append((node.lineno, name))
    return found


def test_the_scan_sees_a_default_that_is_said_again():
    """Keys without a stated default, and defaults that are no literals, are let through."""
    source = """
a.get("port", 5000)
b.get("chat", False)
c.get("location") or "top"
d.get("port", KEY.default)
e.get("args", ())
f.get("systemPrompt", "x")
g.get("port")
"""
    assert defaults_said_again(source) == [(2, "port"), (3, "chat"), (4, "location")]


def test_no_default_is_said_again():
    """It stands in the key alone; who reads the value without it asks the key."""
    again = {path: defaults_said_again(path.read_text(encoding="utf-8")) for path in SOURCES}
    assert {str(path.relative_to(PACKAGE)): found for path, found in again.items() if found} == {}


def test_no_key_of_a_file_is_stated_twice():
    """What is handed in (by the cleaning rules) is stated there alone; a reader of both leaves it open."""
    twice = []
    for kind in KINDS:
        stated = [name for name, shape in validation._FILES[kind]["properties"].items() if shape]
        stated += [name for fields in validation._SOURCES.get(kind, ()) for name in fields()]
        twice += [f"{kind} {name}" for name in set(stated) if stated.count(name) > 1]
    assert twice == []


def test_no_schema_is_written_by_hand():
    """Our own keywords of JSON Schema come from keys, and no file holds a schema."""
    own_words = {"x-level", "x-open", "x-elsewhere"}
    allowed = {PACKAGE / "config" / "keys.py", PACKAGE / "config" / "validation.py"}
    by_hand = [
        str(path)
        for path in SOURCES
        if path not in allowed and "cleaning" not in path.parts
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Dict) and own_words & {getattr(key, "value", None) for key in node.keys}
    ]
    assert by_hand == []
    schemas = [path for path in PACKAGE.rglob("*.json") if '"$schema"' in path.read_text(encoding="utf-8")]
    assert schemas == []
