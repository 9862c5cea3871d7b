"""What does not fit a tool's schema, where the schema is a stranger's."""

from __future__ import annotations

import json
import socket

import pytest

from Middleware.workflows.tools.mcp_sessions import faults_of

SCHEMA = {
    "type": "object",
    "properties": {
        "a": {"type": "integer", "minimum": 1},
        "b": {"type": ["string", "null"], "enum": ["x", "y"]},
        "c": {"type": "array", "items": {"type": "object", "required": ["d"]}},
    },
    "required": ["a"],
    "additionalProperties": False,
}


@pytest.mark.parametrize(
    ("arguments", "places"),
    [
        ({"a": 1}, []),
        ({"a": 1, "b": "x", "c": [{"d": 1}]}, []),
        ({}, [""]),
        ({"a": "x"}, ["/a"]),
        ({"a": 0, "b": "z"}, ["/a", "/b"]),
        ({"a": 1, "c": [{"d": 1}, {}]}, ["/c/1"]),
        ({"a": 1, "q": 1}, [""]),
    ],
    ids=json.dumps,
)
def test_each_fault_is_told_with_its_place(arguments, places):
    said = faults_of(arguments, SCHEMA)
    assert [line.partition(":")[0] for line in said.splitlines()[1:]] == [f"arguments{p}" for p in places]


def deep(levels):
    value = 1
    for _ in range(levels):
        value = {"a": value}
    return value


HOSTILE = {
    "reference": {"$ref": "http://169.254.169.254/"},
    "dynamic-reference": {"$dynamicRef": "http://169.254.169.254/"},
    "recursive-reference": {"$recursiveRef": "http://169.254.169.254/"},
    "relative-reference": {"$id": "http://169.254.169.254/", "$ref": "#/$defs/none"},
    "file": {"$ref": "file:///etc/passwd"},
    "to-itself": {"$ref": "#"},
    "other-draft": {"$schema": "http://169.254.169.254/draft", "type": "object"},
    "pattern": {"properties": {"a": {"type": "string", "pattern": "(x+x+)+y"}}},
    "pattern-of-names": {"patternProperties": {"(a+a+)+b": {}}, "propertyNames": {"pattern": "(a+a+)+b"}},
    "no-schema": "x",
    "null": None,
    "odd-values": {"type": 5, "required": "a", "enum": 7, "properties": [1], "items": 3, "minimum": "x", "minLength": -1},
    "odd-type": {"type": ["nonsense"]},
    "odd-names": {"required": [1, {}], "type": []},
    "deep": {"properties": deep(5000)},
}  # fmt: skip


@pytest.mark.parametrize("schema", HOSTILE.values(), ids=HOSTILE)
def test_a_hostile_schema_finds_nothing_and_harms_nothing(schema, monkeypatch):
    """Nothing is fetched, nothing takes long, nothing breaks."""
    monkeypatch.setattr(socket, "getaddrinfo", lambda *args: pytest.fail("it looks for an address"))
    monkeypatch.setattr(socket.socket, "connect", lambda *args: pytest.fail("it connects"))
    assert faults_of({"a": "x" * 60, "a" * 60: 1}, schema) == ""
