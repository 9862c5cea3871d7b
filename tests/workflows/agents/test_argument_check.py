"""Whether the arguments of a call fit its tool's schema, and how a model is told. Source: spec agents.md 3.5."""

from __future__ import annotations

from typing import Any

import pytest

from Middleware.workflows.agents.argument_check import (
    CHOICES,
    DEEPEST,
    SHOWN,
    argument_breaches,
    sentence_of_breach,
)


def told(arguments: Any, schema: Any) -> list[str]:
    """Each sentence once, as a call tells them."""
    return list(dict.fromkeys(sentence_of_breach(breach) for breach in argument_breaches(arguments, schema)))


def of_a(schema: Any) -> dict[str, Any]:
    return {"type": "object", "properties": {"a": schema}}


LONG = "x" * 2 * SHOWN
SENTENCES = [
    *[
        ({"type": kind}, value, f"must be {words}")
        for kind, value, words in [
            ("object", 1, "an object"),
            ("array", {}, "an array"),
            ("string", 1, "a string"),
            ("integer", 1.5, "an integer"),
            ("number", "1", "a number"),
            ("boolean", 1, "true or false"),
            ("null", 0, "null"),
        ]
    ],
    ({"type": ["string", "null"]}, 1, "must be a string or null"),
    ({"enum": ["b", 2, None]}, "c", 'must be one of "b", 2, null'),
    ({"enum": list(range(CHOICES + 5))}, -1, f"must be one of {', '.join(map(str, range(CHOICES)))}"),
    ({"const": "b"}, "c", 'must be "b"'),
    ({"minimum": 2}, 1, "must be 2 or more"),
    ({"maximum": 2}, 3, "must be 2 or less"),
    ({"exclusiveMinimum": 2}, 2, "must be more than 2"),
    ({"exclusiveMaximum": 2}, 2, "must be less than 2"),
    ({"minLength": 2}, "x", "must have at least 2 characters"),
    ({"maxLength": 2}, "xxx", "must have at most 2 characters"),
    ({"minItems": 2}, [1], "must have at least 2 items"),
    ({"maxItems": 2}, [1, 2, 3], "must have at most 2 items"),
    ({"multipleOf": 2}, 3, "does not fit the tool's schema"),
]


@pytest.mark.parametrize(("schema", "value", "sentence"), SENTENCES, ids=lambda value: str(value)[:40])
def test_what_does_not_fit(schema: Any, value: Any, sentence: str) -> None:
    """The place, and what has to be there."""
    assert told({"a": value}, of_a(schema)) == [f'"a" {sentence}']


def test_a_long_value_is_shown_in_part() -> None:
    [sentence] = told({"a": "c"}, of_a({"const": LONG}))
    assert len(sentence) < SHOWN + 20


PLACES = [
    ({"b": [1, "x"]}, {"properties": {"b": {"items": {"type": "integer"}}}}, ['"b[1]" must be an integer']),
    ({"b": {"c": 1}}, {"properties": {"b": of_a({}) | {"required": ["a"]}}}, ['"b.a" is missing']),
    ({}, {"required": ["a", "b"]}, ['"a" is missing', '"b" is missing']),
    ({"a": 1}, {"required": ["a", "b"]}, ['"b" is missing']),
    ({"a": 1, "b": 2}, of_a({}) | {"additionalProperties": False}, ['"b" is no argument of this tool']),
    ({"a": 1}, {"additionalProperties": False}, ['"a" is no argument of this tool']),
    ({"a": 1}, {"maxProperties": 0}, ["the arguments: does not fit the tool's schema"]),
]


@pytest.mark.parametrize(("arguments", "schema", "sentences"), PLACES, ids=lambda value: str(value)[:40])
def test_where(arguments: Any, schema: Any, sentences: list[str]) -> None:
    """By the way to it; each argument that is missing, or is none, by its name."""
    assert told(arguments, schema) == sentences


def test_each_missing_argument_counts_once() -> None:
    """Also where two parts of the schema need it; so many are not more to repair than there are."""
    schema = {"required": ["a", "b", "c"], "allOf": [{"required": ["c", "d"]}]}
    assert [breach.missing for breach in argument_breaches({"a": 1}, schema)] == ["c", "d", "b"]


def test_an_argument_that_is_wrong_in_two_ways_counts_twice() -> None:
    assert len(argument_breaches({"a": "xxx"}, of_a({"maxLength": 2, "minLength": 4}))) == 2


def nested(depth: int, inner: Any) -> Any:
    for _ in range(depth):
        inner = {"items": inner}
    return inner


FIT = [
    ("a-pattern-could-take-for-ever", of_a({"pattern": "^b$"})),
    ("formats-are-hints", of_a({"format": "date"})),
    ("names-by-pattern", {"patternProperties": {"^a$": {}}, "additionalProperties": False}),
    ("names-by-pattern-unevaluated", {"patternProperties": {"^a$": {}}, "unevaluatedProperties": False}),
    ("a-reference-elsewhere", of_a({"$ref": "https://example.org/schema.json"})),
    ("a-reference-to-nothing", of_a({"$ref": "#/$defs/none"})),
    ("a-reference-to-no-schema", of_a({"$ref": "#/title"}) | {"title": "x"}),
    ("a-reference-in-a-list", of_a({"anyOf": [{"$ref": "#/$defs/none"}]})),
    ("a-name-like-a-word", {"properties": {"pattern": {"type": "string"}, "a": {}}}),
    ("values-are-no-schemas", of_a({"enum": ["x", {"pattern": "y"}]})),
    ("no-json", of_a({"const": {1, 2}})),
    ("no-schema", of_a({"type": "odd"})),
]


@pytest.mark.parametrize("schema", [schema for _, schema in FIT], ids=[name for name, _ in FIT])
def test_what_is_not_looked_at_fits(schema: Any) -> None:
    assert told({"a": "x"}, schema) == []


@pytest.mark.parametrize("reference", ["#/$defs/text", "#/%24defs/text"])
def test_a_reference_within_is_followed(reference: str) -> None:
    schema = of_a({"$ref": reference}) | {"$defs": {"text": {"type": "string"}}}
    assert told({"a": 1}, schema) == ['"a" must be a string']


def test_values_beside_a_pattern_count() -> None:
    """Only the words that could take for ever, or that nobody can follow, are left out."""
    assert told({"a": 1}, of_a({"pattern": "^b$", "type": "string"})) == ['"a" must be a string']
    choice = of_a({"enum": [{"pattern": "y"}]})
    assert told({"a": {}}, choice) == ['"a" must be one of {"pattern": "y"}']


def test_a_schema_is_followed_so_deep() -> None:
    """What lies deeper fits."""
    value: Any = "x"
    for _ in range(DEEPEST):
        value = [value]
    assert told({"a": [["x"]]}, of_a(nested(2, {"type": "integer"}))) == ['"a[0][0]" must be an integer']
    assert told({"a": value}, of_a(nested(DEEPEST, {"type": "integer"}))) == []
