"""An Agent's tools: found, named, put in order, and what is wrong with them is said before anybody is asked."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from Middleware.common.errors import ConfigError
from Middleware.common.request_context import enter_request
from Middleware.workflows.agents import mcp_lists
from Middleware.workflows.agents.agent_tool import AgentTool
from Middleware.workflows.agents.tools import client_choice, gather_tools
from Middleware.workflows.tools import mcp_doors
from tests.e2e.conftest import HOUSE
from tests.patience import PATIENCE_S
from tests.workflows.agents.tool_bench import ToolBench

SERVER = HOUSE / "tests" / "fixtures" / "mcp" / "troubled_server.py"


@pytest.fixture
def bench(tool_bench: ToolBench, monkeypatch: pytest.MonkeyPatch) -> Any:
    """With MCP servers `none`, `other` and `names`, and a workflow `Chat`."""
    monkeypatch.setattr(mcp_lists, "LIST_S", PATIENCE_S)
    for name, trouble in {"none": "none", "other": "none", "names": "names"}.items():
        put_server(tool_bench, name, trouble)
    tool_bench.write("Workflows/ana/Chat.json", '[{"type": "StaticResponse", "content": "x"}]')
    with enter_request(tool_bench.context().request):
        yield tool_bench
    mcp_doors.end_sessions()


def put_server(bench: ToolBench, name: str, trouble: str, **more: Any) -> None:
    file = {"transport": "stdio", "command": sys.executable, "args": [str(SERVER), trouble], **more}
    bench.write(f"MCPServers/{name}.json", json.dumps(file))


def names(tools: list[AgentTool]) -> list[str]:
    return [tool.name for tool in tools]


def workflow(**fields: Any) -> dict[str, Any]:
    return {"workflow": "Chat", **fields}


class TestServers:
    def test_all_tools_of_a_server_by_name(self, bench: ToolBench) -> None:
        """The list stands at the beginning of every prompt, so it is the same each time."""
        tools = bench.tools("mcp:none")
        assert names(tools) == ["alpha", "read_it", "zeta"]
        assert tools[0].parameters == {"type": "object", "properties": {}}
        assert (tools[0].kind, tools[0].server, tools[0].place) == ("mcp", "none", "none: alpha")

    @pytest.mark.parametrize(
        ("pattern", "found"),
        [
            ("read_*", ["read_it"]),
            ("*a", ["alpha", "zeta"]),
            ("a?pha", ["alpha"]),
            ("[a]lpha", []),
            ("x", []),
        ],
    )
    def test_those_whose_name_fits(self, bench: ToolBench, pattern: str, found: list[str]) -> None:
        """`*` and `?`, nothing else."""
        assert names(bench.tools(f"mcp:none/{pattern}")) == found

    def test_allowed_tools_hold(self, bench: ToolBench) -> None:
        put_server(bench, "none", "none", allowedTools=["zeta"])
        assert names(bench.tools("mcp:none")) == ["zeta"]

    def test_a_tool_named_by_two_entries_stands_once(self, bench: ToolBench) -> None:
        assert names(bench.tools("mcp:none/z*", "mcp:none")) == ["zeta", "alpha", "read_it"]

    def test_equal_names_of_two_servers_get_the_names_of_their_servers(self, bench: ToolBench) -> None:
        tools = bench.tools("mcp:none/alpha", "mcp:other")
        assert names(tools) == ["none__alpha", "other__alpha", "read_it", "zeta"]
        assert tools[1].call is not None
        assert tools[1].call({"a": 1}) == 'alpha was called with {"a": 1}'

    def test_a_name_of_the_author_stays(self, bench: ToolBench) -> None:
        """The tool of the server gives way."""
        assert names(bench.tools("mcp:none/alpha", workflow(name="alpha"))) == ["none__alpha", "alpha"]

    def test_names_that_no_model_takes_are_changed(self, bench: ToolBench) -> None:
        """The server is called by the name that it gave."""
        tools = bench.tools("mcp:names")
        assert names(tools) == ["a" * 64, "names__b_c", "names__b_c_2", "z"]
        assert tools[2].call is not None
        assert tools[2].call({}).startswith("b.c was called")

    def test_a_server_that_cannot_be_started_is_left_out(self, bench: ToolBench) -> None:
        bench.write("MCPServers/gone.json", '{"transport": "stdio", "command": "/no/such/program"}')
        assert names(bench.tools("mcp:gone", "mcp:none/zeta")) == ["zeta"]
        (warning,) = bench.engine.warnings
        assert warning.startswith("the tools of MCP server 'gone' are missing: ")

    def test_one_that_is_dead_is_not_asked_again_at_once(
        self, bench: ToolBench, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """For 30 seconds; then it is."""
        asked = []
        monkeypatch.setattr(
            mcp_lists.MCPClient, "list_tools", lambda self, name, s: asked.append(name) or _fail()
        )
        now = [0.0]
        monkeypatch.setattr(mcp_lists, "dead_servers", mcp_lists.DeadServers(lambda: now[0]))
        for moment in (0.0, 10.0, 29.9, 30.1):
            now[0] = moment
            assert bench.tools("mcp:none") == []
        assert asked == ["none", "none"]
        assert len(bench.engine.warnings) == 4

    def test_one_whose_file_was_edited_is_asked_again(
        self, bench: ToolBench, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        bench.write("MCPServers/none.json", '{"transport": "stdio", "command": "/no/such/program"}')
        assert bench.tools("mcp:none") == []
        put_server(bench, "none", "none")
        assert names(bench.tools("mcp:none/zeta")) == ["zeta"]

    def test_a_secret_that_is_not_set_leaves_its_server_out(self, bench: ToolBench) -> None:
        put_server(bench, "none", "none", env={"KEY": "${ENV:NO_SUCH_VARIABLE_HERE}"})
        assert bench.tools("mcp:none") == []
        assert "NO_SUCH_VARIABLE_HERE" in bench.engine.warnings[0]

    def test_no_tool_left_goes_on_without_or_fails(self, bench: ToolBench) -> None:
        bench.write("MCPServers/gone.json", '{"transport": "stdio", "command": "/no/such/program"}')
        assert bench.tools("mcp:gone") == []
        with pytest.raises(ConfigError, match="none of the tools"):
            bench.tools("mcp:gone", onToolError="raise")


def _fail() -> Any:
    raise mcp_lists.MCPToolCallError("no")


class TestEntries:
    @pytest.mark.parametrize(
        "entry",
        [
            "files",
            "mcp:",
            "mcp:a/",
            5,
            {},
            {"workflow": "Chat", "fetch": {}},
            {"fetch": True},
            {"memory": "files"},
        ],
    )
    def test_what_is_no_entry_is_an_error(self, bench: ToolBench, entry: Any) -> None:
        with pytest.raises(ConfigError, match="'agentTools' 2 must be"):
            bench.tools(workflow(), entry)

    @pytest.mark.parametrize(
        ("entry", "said"),
        [
            ("mcp:lost", 'no MCP server "lost"'),
            ({"workflow": "Lost"}, 'no workflow "Lost"'),
            ({"python": "Lost.py"}, "no file 'Lost.py'"),
            ({"workflow": "Chat", "name": "my tool"}, "'my tool'"),
        ],
    )
    def test_what_leads_nowhere_is_an_error(self, bench: ToolBench, entry: Any, said: str) -> None:
        with pytest.raises(ConfigError, match=said):
            bench.tools(entry)

    def test_two_tools_of_one_name_are_an_error(self, bench: ToolBench) -> None:
        with pytest.raises(ConfigError, match="'agentTools' 2: two tools are named 'Chat'"):
            bench.tools(workflow(), workflow())

    def test_the_order_is_that_of_the_list(self, bench: ToolBench) -> None:
        bench.has_discussion = True
        tools = bench.tools(workflow(name="w"), {"memory": "vector"}, "mcp:none/a*", {"fetch": {}})
        assert names(tools) == ["w", "search_memory", "alpha", "fetch_page"]
        assert [tool.kind for tool in tools] == ["workflow", "memory", "mcp", "http"]

    def test_memories_need_a_discussion(self, bench: ToolBench) -> None:
        assert bench.tools({"memory": "vector"}) == []

    def test_descriptions_and_schemas_reach_the_model_as_they_are(self, bench: ToolBench) -> None:
        schema = {"type": "object", "properties": {"q": {"description": "{agent1Output}"}}, "x-own": 1}
        tool = bench.tool(workflow(description="{user}", parameters=schema))
        assert (tool.description, tool.parameters) == ("{user}", schema)

    @pytest.mark.parametrize("schema", [None, [], "x", True])
    def test_a_schema_that_is_no_object_is_an_empty_one(self, bench: ToolBench, schema: Any) -> None:
        assert bench.tool(workflow(parameters=schema)).parameters == {"type": "object", "properties": {}}

    def test_more_than_a_model_takes_are_left_out(self, bench: ToolBench) -> None:
        tools = bench.tools(*(workflow(name=f"t{n}") for n in range(130)))
        assert len(tools) == 128
        assert "130 tools are too many" in bench.engine.warnings[0]

    def test_many_tools_are_warned_of_once(self, bench: ToolBench) -> None:
        context = bench.context(*(workflow(name=f"t{n}") for n in range(31)))
        gather_tools(context)
        gather_tools(context)
        assert ["31 tools" in warning for warning in bench.engine.warnings] == [True]

    def test_thirty_are_not_many(self, bench: ToolBench) -> None:
        gather_tools(bench.context(*(workflow(name=f"t{n}") for n in range(30))))
        assert bench.engine.warnings == []


CLIENT = {
    "type": "function",
    "function": {"name": "open", "description": "Opens", "parameters": {"type": "object"}},
}


class TestToolsOfTheClient:
    def test_they_come_last_where_the_node_allows_it(self, bench: ToolBench) -> None:
        bench.asked = {"tools": [CLIENT]}
        assert names(bench.tools(workflow())) == ["Chat"]
        tools = bench.tools(workflow(), allowTools=True)
        assert names(tools) == ["Chat", "open"]
        assert (tools[1].call, tools[1].kind) == (None, "client")

    def test_one_that_is_named_as_another_is_left_out(self, bench: ToolBench) -> None:
        bench.asked = {"tools": [CLIENT]}
        tools = bench.tools(workflow(name="open"), allowTools=True)
        assert names(tools) == ["open"] and tools[0].call is not None
        assert "'open'" in bench.engine.warnings[0]

    @pytest.mark.parametrize(
        ("choice", "offered", "demand"),
        [
            ("none", False, None),
            ("auto", True, None),
            (None, True, None),
            ("required", True, "required"),
            ({"type": "function", "function": {"name": "open"}}, True, "as it came"),
        ],
    )
    def test_the_choice_of_the_client(
        self, bench: ToolBench, choice: Any, offered: bool, demand: Any
    ) -> None:
        """`none`: they are not offered; one that demands a call goes with the first step."""
        bench.asked = {"tools": [CLIENT], "tool_choice": choice}
        assert ("open" in names(bench.tools(workflow(), allowTools=True))) is offered
        wanted = choice if demand == "as it came" else demand
        assert client_choice(bench.context(workflow(), allowTools=True)) == wanted


def test_a_private_path_is_no_tool(bench: ToolBench, tmp_path: Path) -> None:
    """Scripts lie where the user's `pythonModuleRoots` say."""
    script = bench.write("scripts/dice.py", "def Invoke(): return 4")
    assert bench.tool({"python": str(script)}).name == "dice"
    bench.user = type(bench.user)("ana", python_module_roots=(str(tmp_path / "others"),))
    with pytest.raises(ConfigError, match="pythonModuleRoots"):
        bench.tools({"python": str(script)})
