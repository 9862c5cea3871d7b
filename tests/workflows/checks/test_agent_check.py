"""What `--validate` says of agents: names that lead nowhere or clash, and tools that a page could misuse."""

from __future__ import annotations

from typing import Any

import pytest

from Middleware.workflows.checks.agent_check import ORDERS


def at(level: str, place: str = "") -> str:
    """How a finding of the node's tools begins."""
    return f"Workflows/ana/Main.json: {level}: node 1, agentTools{place}"


FILES = {"transport": "stdio", "command": "files"}
FAR = {"transport": "streamable_http", "url": "https://tools.example.org/mcp"}
NEAR = {"transport": "streamable_http", "url": "http://127.0.0.1:8931/mcp"}
NOTE = f"{at('note')}: {ORDERS}"


def agent(*tools: Any, **fields: Any) -> dict[str, Any]:
    return {"type": "Agent", "endpointName": "small-model", "agentTools": list(tools), **fields}


@pytest.fixture
def said(checked: Any) -> Any:
    """`said(*tools)`: the findings of a tree whose one node is an agent with these tools."""
    checked.put("MCPServers/files.json", FILES)
    checked.put("MCPServers/far.json", FAR)
    checked.put("MCPServers/near.json", NEAR)
    checked.flow({"type": "WebFetch", "url": "{agent1Input}", "blockPrivateAddresses": True}, name="Page")
    checked.flow({"type": "SaveCustomFile", "filepath": "/tmp/x", "content": "{agent1Input}"}, name="Save")
    checked.flow({"type": "CustomWorkflow", "workflowName": "Save"}, name="Deep")
    checked.flow(name="Plain")
    used = [{"type": "CustomWorkflow", "workflowName": n} for n in ("Page", "Save", "Deep", "Plain")]
    checked.flow(*used, name="Other")
    checked.put("Users/bo.json", {"customWorkflowOverride": True, "customWorkflow": "Other",
                "endpointConfigsSubDirectory": "lan", "workflowConfigsSubDirectoryOverride": "ana"})  # fmt: skip

    def findings(*tools: Any, **fields: Any) -> list[str]:
        checked.flow(agent(*tools, **fields))
        return [line for line in checked.lines() if "Main.json" in line]

    return findings


def flow(workflow: str, **fields: Any) -> dict[str, Any]:
    schema = {"type": "object", "properties": {"url": {"type": "string"}}}
    own = {"workflow": workflow, "name": workflow.lower(), "description": "x", "parameters": schema}
    return {**own, **fields}


class TestNames:
    def test_a_sound_agent_has_no_finding(self, said: Any) -> None:
        assert said("mcp:files/read_*", flow("Plain"), {"memory": "vector"}) == []

    @pytest.mark.parametrize(
        ("tool", "where", "what"),
        [
            ("mcp:file", "[0]", 'no MCP server "file"'),
            (flow("Plane"), "[0].workflow", 'no workflow "Plane"'),
            ({"python": "lost.py"}, "[0].python", "no file 'lost.py'"),
            ("files", "[0]", "allowed: "),
            ({"fetch": {"allowedHost": ["x"]}}, "[0]", "allowed: "),
            ({"workflow": "Plain", "fetch": {}}, "[0]", "allowed: "),
            (flow("Plain", name="my tool"), "[0]", "the name of a tool, 'my tool'"),
        ],
    )
    def test_what_is_wrong_is_an_error(self, said: Any, tool: Any, where: str, what: str) -> None:
        lines = said(tool)
        assert any(line.startswith(at("error", where)) and what in line for line in lines), lines

    def test_names_that_clash(self, said: Any) -> None:
        (line,) = said(flow("Plain"), flow("Save", name="plain"))
        assert line == f"{at('error', '[1]')}: two tools are named 'plain': set another `name`"

    def test_an_agent_needs_a_tool_or_those_of_the_client(self, said: Any) -> None:
        assert said() == [f"{at('error')}: name at least one tool, or set `allowTools`"]
        assert said(allowTools=True) == []

    @pytest.mark.parametrize(
        "schema",
        [["a"], "x", {"type": "string"}, {"type": "object", "properties": {"a": {"type": "strange"}}}],
    )
    def test_a_schema_that_is_none_is_a_warning(self, said: Any, schema: Any) -> None:
        (line,) = said(flow("Plain", parameters=schema))
        assert line.startswith(f"{at('warning', '[0]')}: `parameters` of 'plain'")

    def test_an_input_that_is_no_parameter_is_a_warning(self, said: Any) -> None:
        (line,) = said(flow("Plain", inputs=["ulr"]))
        assert line == f"{at('warning', '[0]')}: `inputs` of 'plain' names 'ulr', which is no parameter"

    def test_a_field_that_it_does_not_take(self, said: Any, checked: Any) -> None:
        checked.put("StructuredOutputs/s.json", {"type": "object"})
        (line,) = said(flow("Plain"), structuredOutputFile="s")
        assert "structuredOutputFile" in line and "not used" in line


class TestOrders:
    @pytest.mark.parametrize(
        "tools",
        [
            ["mcp:files"],
            ["mcp:near", "mcp:files", {"memory": "vector"}],
            [{"fetch": {}}],
            ["mcp:far"],
            [flow("Page")],
            [{"fetch": {}}, flow("Plain"), flow("Page")],
        ],
        ids=["files", "near", "pages", "far", "page-by-workflow", "pages-twice"],
    )
    def test_one_kind_alone_is_no_note(self, said: Any, tools: list[Any]) -> None:
        assert said(*tools) == []

    @pytest.mark.parametrize(
        "tools",
        [
            [{"fetch": {"allowedHosts": ["example.org"]}}, "mcp:files/read_*"],
            ["mcp:far", {"memory": "vector"}],
            [flow("Page"), "mcp:near"],
            [{"fetch": {}}, flow("Save")],
            [{"fetch": {}}, flow("Deep")],
        ],
        ids=[
            "page-and-files",
            "far-and-memory",
            "workflow-and-near",
            "page-and-write",
            "page-and-deep-write",
        ],
    )
    def test_both_are_a_note(self, said: Any, tools: list[Any]) -> None:
        """A workflow counts as what its nodes do, and their children."""
        assert NOTE in said(*tools)

    def test_two_agents_are_the_remedy(self, said: Any, checked: Any) -> None:
        """But for an agent that calls the other as its tool: what that one read comes back to it."""
        checked.flow(agent({"fetch": {}}), name="Reader")
        assert NOTE in said(flow("Reader"), "mcp:files")
        checked.flow(agent({"fetch": {}}), {**agent("mcp:files"), "is_responder": True})
        assert not any(ORDERS in line for line in checked.lines())


def test_an_agent_that_can_reach_itself_is_a_note(said: Any) -> None:
    lines = said(flow("Main"))
    assert any("note: " in line and "calls itself, under a condition" in line for line in lines)


def test_what_an_agent_hands_on_counts_as_written_by_a_model(said: Any, checked: Any) -> None:
    """An address of it needs a guard (tools.md 11.2.7)."""
    checked.flow({"type": "WebFetch", "url": "{agent1Input}"}, name="Page")
    said(flow("Page"))
    assert any("{agent1Input} contains text from a user or a model" in line for line in checked.lines())


def test_inputs_of_a_tool_are_counted(said: Any, checked: Any) -> None:
    checked.flow({"type": "StaticResponse", "content": "{agent2Input}"}, name="Plain")
    checked.put("Users/bo.json", {"customWorkflowOverride": True, "customWorkflow": "Main",
                "endpointConfigsSubDirectory": "lan", "workflowConfigsSubDirectoryOverride": "ana"})  # fmt: skip
    said(flow("Plain"))
    assert any("{agent2Input} is never passed" in line for line in checked.lines())


def test_a_tool_is_no_answer_of_a_child(said: Any) -> None:
    """Fields for the node's own text mean something."""
    assert (
        said(flow("Plain"), removeCustomTextFromResponseStart=True, responseStartTextToRemove=["Sure"]) == []
    )
