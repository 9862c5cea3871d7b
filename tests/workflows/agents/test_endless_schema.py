"""Schemas that lead back to themselves, and arguments of too many levels."""

from __future__ import annotations

import subprocess
import sys

import pytest

from Middleware.workflows.agents.argument_check import argument_breaches
from Middleware.workflows.agents.endless_schema import LEVELS, is_deep, is_endless
from tests.e2e.conftest import HOUSE

ENDLESS = [
    {"$ref": "#"},
    {"anyOf": [{"type": "object"}, {"not": {"$ref": "#/anyOf/1"}}]},
    {
        "$defs": {"a": {"allOf": [{"$ref": "#/$defs/b"}]}, "b": {"if": {"$ref": "#/$defs/a"}}},
        "$ref": "#/$defs/a",
    },
    {"dependentSchemas": {"a": {"$ref": "#"}}},
    {"dependencies": {"a": {"$ref": "#"}}},
    {"oneOf": [{"$ref": "#"}]},
    {"if": {"type": "object"}, "then": {"$ref": "#"}},
    {"if": {"type": "string"}, "else": {"$ref": "#"}},
]
TREE = {"type": "object", "properties": {"in": {"$ref": "#"}, "name": {"type": "string"}}}


def nested(levels):
    """So many objects, one in the other."""
    document = {"name": 5}
    for _ in range(levels - 1):
        document = {"in": document}
    return document


@pytest.mark.parametrize("schema", ENDLESS)
def test_one_that_leads_back_to_itself_finds_no_fault(schema):
    """It ended the process where Python's limit was high, as it is once workflows are nested deeply."""
    code = (
        "import sys; sys.setrecursionlimit(24_400);"
        " from Middleware.workflows.agents.argument_check import argument_breaches;"
        f" print(argument_breaches({{'a': 1}}, {schema!r}))"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=HOUSE, capture_output=True, text=True)
    assert (done.returncode, done.stdout.strip()) == (0, "[]"), done.stderr
    assert is_endless(schema)


@pytest.mark.parametrize("schema", [TREE, {"allOf": [TREE, {"$ref": "#/allOf/0"}]}, {"$ref": "#/none"}, {}])
def test_others_have_an_end(schema):
    """Also one that describes a tree: it leads back to itself one level further in."""
    assert not is_endless(schema)


def test_a_tree_is_followed_to_its_leaves():
    [breach] = argument_breaches(nested(3), TREE)
    assert breach.path == ("in", "in", "name")


def test_arguments_of_too_many_levels_are_not_judged():
    assert not is_deep(nested(LEVELS - 1)) and is_deep(nested(LEVELS))
    assert argument_breaches(nested(LEVELS), TREE) == []
