"""Shared workflows that are tools (more-fronts.md 6.3). What clients are told of them: `test_tool_calls.py`."""

from __future__ import annotations

import pytest

from Middleware.common.errors import ConfigError
from Middleware.config.users import UserSettings
from Middleware.config.validation import WARNING
from Middleware.config.workflows import ToolInput, chat_names, input_count, load_tool, tool_faults, tool_offer

ANA = UserSettings("ana")
FILE = "Workflows/_shared/tide/_mcpTool.json"


def put(configs, file, folder="tide"):
    configs.put(f"Workflows/_shared/{folder}/_DefaultWorkflow.json", [])
    configs.put(f"Workflows/_shared/{folder}/_mcpTool.json", file)
    return configs.snapshot()


def test_a_tool(configs):
    """As its file says; null counts as absent, remarks are left out."""
    inputs = {"port": {"required": True, "_note": "x", "default": None}, "hours": {"type": "integer"}}
    tool = load_tool(put(configs, {"description": "Tide.", "title": None, "inputs": inputs}), FILE)
    assert (tool.folder, tool.name, tool.title, tool.message) == ("tide", "tide", None, "{port}")
    assert [(one.name, dict(one.schema), one.required) for one in tool.inputs] == [
        ("port", {"type": "string"}, True),
        ("hours", {"type": "integer"}, False),
    ]


@pytest.mark.parametrize(
    ("file", "count"),
    [
        ({"description": "x"}, 1),
        ({"description": "x", "inputs": {}}, 0),
        ({"description": "", "inputs": {"a": {}, "b": {}}}, 2),
        ({"descripton": "x"}, 0),
    ],
)
def test_the_number_of_inputs(configs, file, count):
    """What the workflow beside the file is given; nothing where the file is faulty or not there."""
    snapshot = put(configs, file)
    assert input_count(snapshot, FILE) == count
    assert input_count(snapshot, "Workflows/_shared/none/_mcpTool.json") == 0


@pytest.mark.parametrize(
    ("file", "names"),
    [
        ({"description": "Tide."}, []),
        ({"description": "Tide.", "chat": False}, []),
        ({"description": "Tide.", "chat": None}, []),
        ({"description": "Tide.", "chat": True}, ["tide"]),
        ({"description": " ", "chat": True}, ["tide"]),
        ({"descripton": "Tide.", "chat": True}, []),
        ({"description": "Tide.", "chat": "yes"}, []),
    ],
    ids=["tool", "no", "null", "both", "chat alone", "faulty", "no boolean"],
)
def test_a_tool_that_is_a_chat_model(configs, file, names):
    """Only one whose file says so. Source: frontend-api.md 5."""
    assert chat_names(put(configs, file), ANA) == names


def test_what_is_offered(configs):
    """Good tools in the order of their folders; the rest is named with its reason."""
    put(configs, {"description": "1", "name": "x"}, "a")
    put(configs, {"description": "2", "name": "x"}, "b")
    put(configs, {"description": 3}, "c")
    put(configs, {"description": "4"}, "d")
    snapshot = put(configs, {"description": " "}, "e")
    offer = tool_offer(snapshot, ANA)
    assert [tool.folder for tool in offer.tools] == ["a", "d"]
    assert [error.file for error in offer.faulty] == ["Workflows/_shared/c/_mcpTool.json"]
    [unfit] = offer.unfit
    assert unfit.file == "Workflows/_shared/b/_mcpTool.json" and "another folder" in unfit.message


def test_why_a_good_file_is_no_tool(configs):
    """Nothing answers it, or its name is taken or too long; a folder without the file is no tool at all."""
    put(configs, {"description": "1", "name": "x"}, "a")
    put(configs, {"description": "2", "name": "x"}, "b")
    put(configs, {"description": "3"}, "c" * 65)
    configs.put("Workflows/_shared/d/_mcpTool.json", {"description": "4"})
    configs.put("Workflows/_shared/e/_DefaultWorkflow.json", [])
    offer = tool_offer(configs.snapshot(), ANA)
    no = "is not offered as a tool, because"
    assert [(finding.level, finding.message) for finding in offer.unfit] == [
        (WARNING, f"{no} another folder already uses the name 'x'; set `name`"),
        (WARNING, f"{no} the name '{'c' * 65}' has more than 64 characters; set `name`"),
        (WARNING, f"{no} there is no _DefaultWorkflow.json beside it"),
    ]
    assert ([tool.folder for tool in offer.tools], offer.faulty) == (["a"], [])


def test_a_folder_without_the_file_is_a_chat_model(configs):
    """As shared workflows are; but for a name that no `model` field can say."""
    put(configs, {"description": "Tide."})
    for folder in ("plain", "latest"):
        configs.put(f"Workflows/_shared/{folder}/_DefaultWorkflow.json", [])
    assert chat_names(configs.snapshot(), ANA) == ["plain"]


@pytest.mark.parametrize(
    ("more", "title", "message"),
    [
        ({}, None, "{port}"),
        ({"title": "Tides", "message": "When at {port}?"}, "Tides", "When at {port}?"),
        ({"inputs": {}}, None, ""),
        ({"inputs": None}, None, "{message}"),
    ],
    ids=["nothing", "all", "no-input", "the-one-input"],
)
def test_its_title_and_message(configs, more, title, message):
    """The first input is the message where nothing else is said."""
    tool = load_tool(put(configs, {"description": "x", "inputs": {"port": {}, "day": {}}, **more}), FILE)
    assert (tool.title, tool.message, tool.chat) == (title, message, False)


def test_the_one_input_of_a_tool_that_names_none(configs):
    [one] = load_tool(put(configs, {"description": "x"}), FILE).inputs
    shown = {"type": "string", "description": "What to do."}
    assert (one.name, dict(one.schema), one.required) == ("message", shown, True)


def test_a_fault_is_an_error_of_the_file(configs):
    """With its place."""
    document = {"description": "x", "inputs": {"a": {"type": "number", "default": "1"}}}
    with pytest.raises(ConfigError) as caught:
        load_tool(put(configs, document), FILE)
    assert (caught.value.file, caught.value.pointer) == (FILE, "/inputs/a/default")


@pytest.mark.parametrize(
    "document",
    [
        None,
        [],
        {"inputs": 1},
        {"inputs": {"a": 1}},
        {"inputs": {"a": {"type": "x", "default": 1}}},
        {"inputs": {"a": {"enum": 1}}},
    ],
)
def test_what_the_schema_tells_is_not_told_again(document):
    """Whatever stands there."""
    assert list(tool_faults(document)) == []


def test_every_value_that_does_not_fit_is_told():
    """At its own place."""
    document = {
        "inputs": {"a": {"type": "integer", "enum": [1, "2", 3.5], "default": 4}, "b": {"default": 5}}
    }
    assert list(tool_faults(document)) == [
        ("/inputs/a/enum/1", "must be a whole number, like the type of the input"),
        ("/inputs/a/enum/2", "must be a whole number, like the type of the input"),
        ("/inputs/a/default", "does not fit: 'a' must be one of: 1, 2, 3.5"),
        ("/inputs/b/default", "does not fit: 'b' must be a string"),
    ]


@pytest.mark.parametrize(
    ("folder", "name"),
    [
        ("tide", "tide"),
        ("Tide.v2_x-1", "Tide.v2_x-1"),
        ("high tide", "high_tide"),
        ("\u00e9bb & flow", "_bb___flow"),
    ],
)
def test_a_tool_without_a_name_is_called_as_its_folder(configs, folder, name):
    """What no client takes in a name becomes `_`."""
    tool = load_tool(
        put(configs, {"description": "Tide."}, folder), f"Workflows/_shared/{folder}/_mcpTool.json"
    )
    assert (tool.folder, tool.name) == (folder, name)


@pytest.mark.parametrize(
    ("schema", "value", "fault"),
    [
        ({"type": "string"}, "", None),
        ({"type": "string"}, 5, "'a' must be a string"),
        ({"type": "string", "enum": ["m", "ft"]}, "ft", None),
        ({"type": "string", "enum": ["m", "ft"]}, "yd", "'a' must be one of: m, ft"),
        ({"type": "integer", "enum": [1, 2]}, 2, None),
        ({"type": "integer", "enum": [1, 2]}, "2", "'a' must be a whole number"),
        ({"type": "integer"}, True, "'a' must be a whole number"),
        ({"type": "number"}, 1.5, None),
        ({"type": "number"}, True, "'a' must be a number"),
        ({"type": "boolean"}, False, None),
        ({"type": "boolean"}, 0, "'a' must be true or false"),
    ],
    ids=str,
)
def test_what_a_value_of_an_input_must_be(schema, value, fault):
    """Of its type, then one of those that are allowed."""
    assert ToolInput("a", schema).fault(value) == fault
