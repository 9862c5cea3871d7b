"""A node's key is stated once: its shape, its sentence and its default are in `KEYS`, and nowhere else."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import pytest

import Middleware.workflows
import Middleware.workflows.handlers.impl
from Middleware.common.errors import ConfigError
from Middleware.workflows.handlers.base.base_workflow_node_handler import WorkflowNodeHandler
from Middleware.workflows.handlers.node_types import NODES, number_defaults
from Middleware.workflows.models.node_keys import (
    ANY,
    COMMON_KEYS,
    COUNT,
    FLAG,
    INTEGER,
    NEEDED_INTEGER,
    NEEDED_TEXT,
    TEXT,
    WANTED_TEXT,
    Keys,
    NodeKey,
    must_hold,
    one_of,
    sentences,
    should_hold,
    whole_of_at_least,
)

ENGINE = Path(Middleware.workflows.__path__[0])
HANDLERS = Path(Middleware.workflows.handlers.impl.__path__[0])
KNOWN = {**COMMON_KEYS, **{name: key for node in NODES for name, key in NODES[node].KEYS.items()}}


def handlers() -> Iterator[tuple[str, ast.Module]]:
    for path in sorted(HANDLERS.glob("[a-z]*.py")):
        yield path.name, ast.parse(path.read_text("utf-8"))


def stated_in(class_: ast.ClassDef) -> list[str]:
    """The names that the `KEYS` of a class state, in the source."""
    tables = [
        part.value
        for part in class_.body
        if isinstance(part, ast.AnnAssign) and ast.unparse(part.target) == "KEYS"
    ]
    return [
        key.value
        for table in tables
        if isinstance(table, ast.Dict)
        for key in table.keys
        if isinstance(key, ast.Constant)
    ]


def own_default(code: ast.AST) -> str | None:
    """The key for which an expression brings a default of its own, such as `.get("key", 5)` or
    `.get("key") or 5`.
    """
    if isinstance(code, ast.BoolOp) and isinstance(code.op, ast.Or):
        name, others = key_read(code.values[0]), code.values[1:]
    elif isinstance(code, ast.Call) and key_read(code):
        name = key_read(code)
        behind = [word.value for word in code.keywords if word.arg == "default"]
        others = [*code.args[-1:], *behind]
    else:
        return None
    return name if any(is_default(other, name) for other in others) else None


def is_default(code: ast.AST, name: str | None) -> bool:
    """Whether an expression is the default of this key, or a number, which could only be another one."""
    if name is None or not isinstance(code, ast.Constant) or code.value in (None, "", False):
        return False
    return isinstance(code.value, int | float) or code.value == KNOWN[name].default


def key_read(code: ast.AST) -> str | None:
    """The key that `.get("key", ...)`, `.value("key")` or a helper that is given its name reads."""
    if isinstance(code, ast.Call):
        for argument in code.args[:2]:
            if isinstance(argument, ast.Constant) and argument.value in KNOWN:
                return str(argument.value)
    return None


class TestStatedOnce:
    def test_no_table_states_a_name_twice(self):
        """A second entry would replace the first one silently."""
        twice = {
            f"{file}, {class_.name}": [
                name for name, times in Counter(stated_in(class_)).items() if times > 1
            ]
            for file, tree in handlers()
            for class_ in ast.walk(tree)
            if isinstance(class_, ast.ClassDef)
        }
        assert {place: names for place, names in twice.items() if names} == {}

    def test_the_tables_are_found(self):
        """What is scanned is what the types have."""
        found = {name for _, tree in handlers() for node in ast.walk(tree) if isinstance(node, ast.ClassDef) for name in stated_in(node)}  # fmt: skip
        shared = {"blockPrivateAddresses", "allowedHosts", "onError", "maxResponseBytes"}
        assert found | shared == {name for node in NODES for name in NODES[node].KEYS}

    def test_no_default_stands_in_the_code(self):
        """It is read with `context.value`, or `common_value`."""
        settings = {"memory", "checks"}  # of keys of settings files, which have the same names
        again = {
            f"{path.relative_to(ENGINE)}:{node.lineno}": name
            for path in sorted(ENGINE.glob("**/*.py"))
            if path.relative_to(ENGINE).parts[0] not in settings
            for node in ast.walk(ast.parse(path.read_text("utf-8")))
            if isinstance(node, ast.expr) and (name := own_default(node))
        }
        assert again == {}

    @pytest.mark.parametrize(
        ("code", "found"),
        [
            ('config.get("limit", 5)', "limit"),
            ('config.get("searchMode") or "keyword"', "searchMode"),
            ('context.value("limit") or 5', "limit"),
            ('number(config, "limit", 7)', "limit"),
            ('number(config, "limit", default=7)', "limit"),
            ('config.get("searchMode", "")', None),
            ('config.get("limit")', None),
            ('config.get("elsewhere", 5)', None),
        ],
    )
    def test_a_default_in_the_code_would_be_found(self, code, found):
        assert own_default(ast.parse(code, mode="eval").body) == found

    @pytest.mark.parametrize("part", ["SCHEMA", "ADVICE", "FIELDS"])
    def test_no_type_states_a_part_by_hand(self, part):
        """There is one way; a plug-in learns it at once."""
        with pytest.raises(TypeError, match=f"Loud states {part}; state KEYS"):
            type("Loud", (WorkflowNodeHandler,), {part: {}})


class TestWhatIsMadeOfThem:
    KEYS: ClassVar[Keys] = {
        "text": WANTED_TEXT("A text."),
        "size": COUNT("How many. Default: {default}.", default=5),
        "on": FLAG("Whether. Default: {default}."),
        "mode": one_of("a", "b")("Which. Default: {default}.", default="a", offered=True),
        "any": ANY("Anything.", required=True),
    }

    def test_what_must_hold(self):
        assert must_hold(self.KEYS) == {
            "properties": {
                "text": {"type": "string"},
                "size": {"type": ["integer", "number", "string", "boolean"]},
                "mode": {"enum": ["a", "b"], "default": "a"},
                "any": {},
            },
            "required": ["any"],
        }

    def test_what_should_hold(self):
        should = should_hold(self.KEYS)
        assert list(should["properties"]) == ["text", "size", "on"]
        assert should["properties"]["text"] == {"minLength": 1}
        assert should["required"] == ["text"]

    def test_nothing_of_no_keys(self):
        assert (must_hold({}), should_hold({}), sentences({})) == ({}, {}, {})

    def test_the_sentences_tell_the_defaults(self):
        told = sentences(self.KEYS)
        assert (told["size"], told["on"], told["mode"]) == (
            "How many. Default: 5.",
            "Whether. Default: false.",
            "Which. Default: a.",
        )

    def test_the_parts_of_a_type(self):
        """`RULES` come to what should hold; common keys to what can be read."""
        made: Any = type(
            "Made", (WorkflowNodeHandler,), {"KEYS": {"text": TEXT("A text.")}, "RULES": {"minProperties": 1}}
        )
        assert made.SCHEMA == {"properties": {"text": {"type": "string"}}}
        assert made.ADVICE == {"minProperties": 1}
        assert made.FIELDS == {"text": "A text."}
        assert made.ALL_KEYS.keys() == {"text", *COMMON_KEYS}


VALUES = [
    ("a-text", TEXT, "x", "x"),
    ("no-text", TEXT, None, ""),
    ("a-number", INTEGER("", default=5), 7, 7),
    ("no-number", INTEGER("", default=5), None, 5),
    ("a-wrong-number-is-the-default", INTEGER("", default=5), "many", 5),
    ("true-is-no-number", INTEGER("", default=5), True, 5),
    ("a-flag-goes-by-truth", FLAG, "yes", True),
    ("no-flag", FLAG, None, False),
    ("an-integer-with-a-bound", ANY("", read=whole_of_at_least(0)), 0, 0),
]


class TestValues:
    @pytest.mark.parametrize(("key", "written", "value"), [v[1:] for v in VALUES], ids=[v[0] for v in VALUES])
    def test_typed(self, key: NodeKey, written, value):
        """Null counts as absent."""
        assert key.value_in({"x": written}, "x") == value
        assert type(key.value_in({"x": written}, "x")) is type(value)

    @pytest.mark.parametrize(
        ("key", "name", "written", "message"),
        [
            (TEXT, "prompt", 5, "'prompt' must be a text"),
            (NEEDED_TEXT, "input", "", "a Made needs an 'input'"),
            (NEEDED_TEXT, "tool", None, "a Made needs a 'tool'"),
            (NEEDED_INTEGER, "turns", "x", "'turns' must be a whole number, not 'x'"),
            (ANY("", read=whole_of_at_least(1)), "size", 0, "'size' must be an integer >= 1, not 0"),
        ],
    )
    def test_a_value_that_cannot_be_used(self, key: NodeKey, name, written, message):
        """The sentence names the key and what is allowed."""
        with pytest.raises(ConfigError) as caught:
            key.value_in({"type": "Made", name: written}, name)
        assert str(caught.value) == message

    def test_a_kind_gives_its_own_facts_on(self):
        """What only nodes state stays with a changed key."""
        key = COUNT("How many.", default=5, minimum=2, advised=True)
        assert (key.number, key.advised, key.default) == (True, True, 5)
        assert key.should["minimum"] == 2 and key.but(default=6).sentence == "How many."


def test_numbers_of_all_types():
    """Common ones, those of a type and those of settings files; the first of two types counts."""
    defaults = number_defaults()
    assert defaults["maxResponseSizeInTokens"] == 400
    assert (defaults["limit"], defaults["num_results"], defaults["percentile"]) == (5, 10, 0.5)
    assert defaults["chunksPerMemory"] == 3 and "chunkSize" not in defaults
