"""What an entry of `agentTools` is, and what of it is wrong before anybody is asked. Source: spec agents.md 2."""

from __future__ import annotations

import re
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from Middleware.workflows.agents.entries import (
    AGENT_TOOLS,
    ENTRY_ALLOWED,
    FetchEntry,
    McpEntry,
    MemoryEntry,
    ScriptEntry,
    WorkflowEntry,
    fitting_name,
    name_faults,
    object_schema,
    read_entries,
    read_entry,
    schema_faults,
)

PLAIN = {"type": "object", "properties": {}}
TWO = {"type": "object", "properties": {"a": {"default": 3}, "b": {}}}

READ = [
    ("mcp:files", McpEntry("files", "*")),
    ("mcp:files/read_*", McpEntry("files", "read_*")),
    ("mcp:files/a/b", McpEntry("files", "a/b")),
    ({"memory": "vector"}, MemoryEntry("search_memory", "")),
    ({"memory": "vector", "name": "m", "description": "d"}, MemoryEntry("m", "d")),
    ({"fetch": {}}, FetchEntry("fetch_page")),
    (
        {
            "fetch": {"allowedHosts": [" A.org"], "maxTokens": 9},
            "name": "f",
            "description": "d",
            "timeout": 2,
        },
        FetchEntry("f", ("a.org",), 9, "d", 2),
    ),
    ({"python": "dir/run.py"}, ScriptEntry("dir/run.py", "run", "", PLAIN)),
    (
        {"python": "x.py", "name": "n", "description": "d", "parameters": TWO, "timeout": 2},
        ScriptEntry("x.py", "n", "d", TWO, 2),
    ),
    ({"workflow": "A"}, WorkflowEntry("A", "A", "", PLAIN, ())),
    ({"workflow": "A", "parameters": TWO}, WorkflowEntry("A", "A", "", TWO, ("a", "b"))),
    ({"workflow": "A", "workflowUserFolderOverride": ""}, WorkflowEntry("A", "A", "", PLAIN, ())),
    (
        {
            "workflow": "A",
            "name": "n",
            "description": "d",
            "parameters": TWO,
            "inputs": ["b"],
            "workflowUserFolderOverride": "f",
            "timeout": 2,
        },
        WorkflowEntry("A", "n", "d", TWO, ("b",), "f", 2),
    ),
]


@pytest.mark.parametrize(("value", "entry"), READ, ids=lambda value: str(value)[:40])
def test_an_entry(value: Any, entry: Any) -> None:
    """Its name is the file's, unless it says one; what it leaves out has a default."""
    assert read_entry(value) == entry


WRONG = [
    *[(text, ENTRY_ALLOWED) for text in ("files", "mcp:", "mcp:/x", "mcp:files/", "MCP:files")],
    *[(value, ENTRY_ALLOWED) for value in (3, None, ["mcp:files"], {}, {"python": "x", "fetch": {}})],
    ({"memory": "file"}, '`"memory": "vector"`'),
    ({"fetch": True}, '`"fetch": {...}`'),
    *[
        ({"fetch": {"allowedHosts": hosts}}, "`allowedHosts` with at least one host name")
        for hosts in ([], "a.org", [3], ["a.org", None])
    ],
    *[({kind: value}, f"`{kind}` with a name") for kind in ("workflow", "python") for value in ("", 3)],
]


@pytest.mark.parametrize(("value", "allowed"), WRONG, ids=lambda value: str(value)[:40])
def test_none(value: Any, allowed: str) -> None:
    """The error says what is allowed."""
    with pytest.raises(ValueError, match=f"^{re.escape(allowed)}$"):
        read_entry(value)


SCHEMA = Draft202012Validator({**AGENT_TOOLS})


@pytest.mark.parametrize("value", [each for each, _ in READ], ids=lambda value: str(value)[:40])
def test_the_schema_takes_an_entry(value: Any) -> None:
    assert SCHEMA.is_valid([value])


REFUSED = [
    *("files", "mcp:", "mcp:/x", "mcp:a/", 3, None, [], {}, {"name": "x"}),
    {"python": "x", "fetch": {}},
    *({kind: ""} for kind in ("workflow", "python")),
    *({"memory": "vector", name: 3} for name in ("name", "description")),
    *({"memory": "vector", "timeout": value} for value in (0, -1, "2")),
    *({"workflow": "A", "inputs": value} for value in ("a", [3])),
    {"workflow": "A", "workflowUserFolderOverride": 3},
    {"memory": "file"},
    {"memory": "vector", "odd": 1},
    *({"fetch": value} for value in (True, {"odd": 1}, {"maxTokens": 0}, {"maxTokens": 1.5})),
    *({"fetch": {"allowedHosts": value}} for value in ("a.org", [], [""], [3])),
]


@pytest.mark.parametrize("value", REFUSED, ids=lambda value: str(value)[:60])
def test_the_schema_refuses(value: Any) -> None:
    """What could mean nothing; and an object that is no list."""
    assert not SCHEMA.is_valid([value]) and not SCHEMA.is_valid({"0": value})


@pytest.mark.parametrize("value", ["files", {"python": "x", "fetch": {}}, {}], ids=str)
def test_the_schema_says_what_is_allowed(value: Any) -> None:
    told = {error.schema.get("x-allowed") for error in SCHEMA.iter_errors([value])}
    assert told == {ENTRY_ALLOWED}


def test_those_that_can_be_read() -> None:
    """Each with its place; what is no list has none."""
    tools = ["files", "mcp:a", {"workflow": "A", "inputs": 3}, {"memory": "vector"}]
    assert read_entries({"agentTools": tools}) == [(1, McpEntry("a")), (3, MemoryEntry())]
    assert read_entries({"agentTools": "mcp:a"}) == read_entries({}) == []


@pytest.mark.parametrize(
    ("pattern", "tool", "takes"),
    [("*", "a", True), ("re?d", "read", True), ("read", "READ", False), ("[r]ead", "read", False)],
)
def test_the_tools_of_a_server(pattern: str, tool: str, takes: bool) -> None:
    """Only `*` and `?` stand for something, and case counts."""
    assert McpEntry("s", pattern).takes(tool) is takes
    assert McpEntry("s", "[r]").takes("[r]")


def test_the_inputs_of_a_workflow() -> None:
    """In the order of `inputs`: what the call says, else the default of the schema, else an empty text."""
    entry = WorkflowEntry("A", "A", "", TWO, ("b", "a", "c"))
    assert entry.inputs_of({}) == ["", 3, ""]
    assert entry.inputs_of({"a": None, "b": 1, "c": 2, "d": 4}) == [1, None, 2]
    odd = WorkflowEntry("A", "A", "", {"properties": {"a": "x"}}, ("a",))
    assert odd.inputs_of({}) == [""]


def test_names_that_clash_or_do_not_fit() -> None:
    """Those of a server's tools are not known yet. Each name but the first is a clash."""
    tools = [
        "mcp:a",
        "mcp:a",
        {"workflow": "A"},
        {"python": "A.py"},
        {"python": "x/A.py"},
        {"workflow": "my tool"},
        {"workflow": "x" * 65},
        {"workflow": "x" * 64},
    ]
    assert [(index, text.partition(":")[0][:22]) for index, text in name_faults({"agentTools": tools})] == [
        (3, "two tools are named 'A"),
        (4, "two tools are named 'A"),
        (5, "the name of a tool, 'm"),
        (6, "the name of a tool, 'x"),
    ]


SCHEMAS = [
    ({"workflow": "A"}, ""),
    ({"python": "A.py", "parameters": {"properties": {}}}, ""),
    ({"python": "A.py", "parameters": ["a"]}, "`parameters` of 'A' is no JSON Schema of an object"),
    (
        {"workflow": "A", "parameters": {"type": "string"}},
        "`parameters` of 'A' is no JSON Schema of an object",
    ),
    ({"python": "A.py", "parameters": {"properties": {"a": {"type": "odd"}}}}, "`parameters` of 'A' is no"),
    ({"workflow": "A", "parameters": TWO, "inputs": ["a"]}, ""),
    (
        {"workflow": "A", "parameters": TWO, "inputs": ["a", "c", "d"]},
        "`inputs` of 'A' names 'c', which is no",
    ),
    ({"fetch": {}, "parameters": 3}, ""),
]


@pytest.mark.parametrize(("tool", "told"), SCHEMAS, ids=lambda value: str(value)[:60])
def test_parameters_that_can_hardly_be_meant(tool: Any, told: str) -> None:
    found = list(schema_faults({"agentTools": ["mcp:a", tool]}))
    assert bool(found) is bool(told) and all(index == 1 and text.startswith(told) for index, text in found)


@pytest.mark.parametrize(
    ("schema", "told"),
    [
        ("x", PLAIN),
        (None, PLAIN),
        ({}, {"properties": {}}),
        ({"type": "object", "properties": 3}, PLAIN),
        (TWO, TWO),
    ],
)
def test_a_schema_as_models_are_told_it(schema: Any, told: dict[str, Any]) -> None:
    assert object_schema(schema) == told


@pytest.mark.parametrize(
    ("name", "fitting"), [("a.b c", "a_b_c"), ("aZ09_-", "aZ09_-"), ("", "_"), ("x" * 70, "x" * 64)]
)
def test_a_name_as_models_may_be_told_it(name: str, fitting: str) -> None:
    assert fitting_name(name) == fitting
