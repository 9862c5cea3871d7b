"""The quick yes: never where the real validator finds a fault."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from Middleware.config import key_file, machines, named_files, validation, workflows  # noqa: F401  (state their keys)
from Middleware.config.plain_schema import plainly_fits
from Middleware.config.validation import schema
from tests.shipped import shipped_files

HOUSE = Path(__file__).resolve().parents[2]
KINDS = sorted({*validation.KINDS.values(), "keys", "machines", "mcptool", "userpointer"})
FOLDERS = {"ApiTypes": "apitype", "Endpoints": "endpoint", "Users": "user"}
FILES = sorted(path for folder in FOLDERS for path in shipped_files(folder, "[!_]*.json"))

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-3, 70000)
    | st.floats(-2, 2)
    | st.sampled_from(["", "a", "drop", "1.0"]),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(st.sampled_from(["mode", "field", "a"]), inner, max_size=2)
    ),
    max_leaves=4,
)


@pytest.mark.parametrize("kind", KINDS)
def test_a_yes_is_true(kind):
    """For any value in any field of any kind of file."""
    wanted = schema(kind)
    fields = sorted(wanted.get("properties", {})) or ["a"]

    @settings(max_examples=100)
    @given(st.dictionaries(st.sampled_from(fields), VALUES, max_size=4) | VALUES)
    def holds(document):
        if plainly_fits(document, wanted):
            assert Draft202012Validator(wanted).is_valid(document)

    holds()


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_the_files_of_the_house_get_it(path):
    """A start with right files needs no validator. Null counts as an absent key."""
    kind = FOLDERS[path.relative_to(HOUSE / "Public/Configs").parts[0]]
    assert plainly_fits(validation.without_nulls(json.loads(path.read_text("utf-8"))), schema(kind))


@pytest.mark.parametrize(
    ("value", "wanted"),
    [
        ({"a": "x"}, {"properties": {"a": {"type": "integer"}}}),
        ([1, "x"], {"items": {"type": "integer"}}),
        (True, {"type": "integer"}),
        (1, {"enum": [True]}),
        (0, {"minimum": 1}),
        (2, {"maximum": 1}),
        (1, {"exclusiveMinimum": 1}),
        ("", {"minLength": 1}),
        ("x", {"pattern": "^y"}),
        ({}, {"required": ["a"]}),
        ({"a": 1}, {"additionalProperties": False}),
        ({"a": 1}, {"additionalProperties": False, "patternProperties": {"^a": {}}}),
        ({"a": 1, "b": "x"}, {"additionalProperties": {"type": "integer"}}),
        ({"a": 1}, {"properties": {"a": {}}, "additionalProperties": {"type": "string"}}),
        (1, {"not": {"type": "string"}}),
        (1, False),
    ],
    ids=lambda value: json.dumps(value),
)
def test_no_yes(value, wanted):
    """A fault, or a keyword that is not known here."""
    assert not plainly_fits(value, wanted)


@pytest.mark.parametrize(
    ("value", "wanted"),
    [
        (True, {"type": "boolean"}),
        (None, {"type": ["string", "null"]}),
        (1.5, {"type": "number"}),
        (2, {"enum": [1, 2]}),
        (1, {"minimum": 1}),
        ("x", {"minimum": 1}),
        (1, {"maximum": 1}),
        ("x", {"maximum": 1}),
        (1.5, {"exclusiveMinimum": 1}),
        ("x", {"exclusiveMinimum": 1}),
        ("x", {"minLength": 1}),
        (1, {"minLength": 1}),
        ({"a": 1}, {"minProperties": 1}),
        ([], {"minProperties": 1}),
        ("xy", {"pattern": "y"}),
        (1, {"pattern": "y"}),
        ([1, 2], {"items": {"type": "integer"}}),
        ("x", {"items": {"type": "integer"}}),
        ({"a": 1, "b": ""}, {"properties": {"a": {"type": "integer"}, "c": {"type": "integer"}}}),
        ([], {"properties": {"a": {"type": "integer"}}}),
        ({"a": 1}, {"required": ["a"]}),
        ("x", {"required": ["a"]}),
        ({"a": 1}, {"additionalProperties": True}),
        ({"a": 1, "b": 2}, {"additionalProperties": {"type": "integer"}}),
        ({}, {"additionalProperties": False}),
        ("x", {"additionalProperties": False}),
        ("x", {"additionalProperties": {"type": "integer"}}),
        ("x", {"title": "T", "description": "d", "default": 1, "examples": [], "x-level": "note"}),
        ("x", True),
    ],
    ids=lambda value: json.dumps(value),
)
def test_a_yes_without_the_validator(value, wanted):
    """A value that keeps to a keyword, and one of a type of which the keyword says nothing."""
    assert plainly_fits(value, wanted)
