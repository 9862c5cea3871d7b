"""A key is stated once; its schema and its typed value are made of that."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

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
from Middleware.workflows.handlers.node_types import NODES
from Middleware.workflows.models.node_keys import COMMON_KEYS

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
HANDLERS = PACKAGE / "workflows" / "handlers"
SOURCES = [path for path in sorted(PACKAGE.rglob("*.py")) if HANDLERS not in path.parents]
KINDS = sorted(validation._FILES)


def defaults_in(shape) -> Iterator[tuple[str, Any]]:
    """The keys, at any depth of a schema, that state a default, with it."""
    for name, stated in [*shape.get("properties", {}).items(), ("", shape.get("additionalProperties"))]:
        if isinstance(stated, Mapping):
            if name and "default" in stated:
                yield name, stated["default"]
            yield from defaults_in(stated)


def defaults_of_nodes() -> Iterator[tuple[str, Any]]:
    for keys in (COMMON_KEYS, *(NODES[node].KEYS for node in NODES)):
        yield from ((name, key.default) for name, key in keys.items())


OF_FILES = [pair for kind in KINDS for pair in defaults_in(schema(kind))]
DEFAULTS = {name for name, _ in OF_FILES}


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


SAID = {(name, type(value), str(value)) for name, value in (*OF_FILES, *defaults_of_nodes())}


def is_its_default(name, value) -> bool:
    """Whether the two nodes are a key's name and the very default that it states. A switch that is off says
    nothing that a default would say."""
    if not (isinstance(name, ast.Constant) and is_literal(value)) or value.value is False:
        return False
    return (name.value, type(value.value), str(value.value)) in SAID


def pairs_of_table(node) -> list[tuple[ast.AST, ast.AST]]:
    """What a table holds: `{"name": 5}`, `("name", 5)`, `dict(name=5)`. A dict that spreads another is that
    one with changes, and no table."""
    if isinstance(node, ast.Dict) and None not in node.keys:
        return list(zip(node.keys, node.values, strict=True))
    if isinstance(node, ast.Tuple | ast.List) and len(node.elts) == 2:
        return [(node.elts[0], node.elts[1])]
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "dict":
        return [(ast.Constant(word.arg), word.value) for word in node.keywords]
    return []


def defaults_in_tables(source: str) -> list[tuple[int, str]]:
    """Entries of tables that say a stated default again: (line, name)."""
    nodes = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.expr)]
    return [
        (value.lineno, name.value)
        for node in nodes
        for name, value in pairs_of_table(node)
        if is_its_default(name, value)
    ]


def test_the_scan_sees_a_default_in_a_table():
    """Of files and of nodes; other values, and what changes another table, are let through."""
    source = """
a = {"port": 5000, "maxMessagesBetweenChunks": 5}
b = [("location", "top"), ("limit", 5)]
c = dict(limit=5)
d = {"port": 5001, "maxMessagesBetweenChunks": 1, "chat": False, "limit": KEYS["limit"].default}
e = {**d, "port": 5000}
f = ("limit", 5, 6)
"""
    found = [(2, "port"), (2, "maxMessagesBetweenChunks"), (3, "location"), (3, "limit"), (4, "limit")]
    assert sorted(defaults_in_tables(source)) == sorted(found)


def test_no_table_says_a_default_again():
    """Nor do the nodes' own modules."""
    again = {path: defaults_in_tables(path.read_text(encoding="utf-8")) for path in PACKAGE.rglob("*.py")}
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
