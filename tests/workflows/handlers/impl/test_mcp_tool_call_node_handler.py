"""MCPToolCall: its fields; the call itself is tested with the client."""

from __future__ import annotations

import json

import pytest

from Middleware.common.errors import ConfigError
from Middleware.common.request_context import RequestContext, enter_request
from Middleware.config.loader import ConfigTree
from Middleware.workflows.tools import mcp_doors
from Middleware.workflows.tools.mcp_client_tool import MCPClient, MCPToolCallError
from tests.patience import PATIENCE_S
from tests.workflows.tools.conftest import stdio_file


@pytest.fixture(autouse=True)
def registry(tmp_path):
    """`tests`: the tests' own server; the node runs inside a request that sees its file."""
    file = tmp_path / "Configs" / "MCPServers" / "tests.json"
    file.parent.mkdir(parents=True)
    file.write_text(json.dumps(stdio_file(tmp_path / "trace.txt")))
    snapshot = ConfigTree(tmp_path / "Configs").snapshot()
    with enter_request(RequestContext("r1", "ana", "openai", snapshot=snapshot)):
        yield
    mcp_doors.end_sessions()


class TestCall:
    def test_server_tool_and_texts_in_arguments_take_variables(self, bench):
        """At any depth; keys and other values stay."""
        bench.engine.values |= {"which": "tests", "what": "kinds", "x": "X"}
        arguments = {"value": {"{x}": ["{x}", 1, {"deep": "{x}"}, True, None]}}
        text = bench("MCPToolCall", server="{which}", tool="{what}", arguments=arguments)
        assert json.loads(text) == {"{x}": ["X", 1, {"deep": "X"}, True, None]}

    def test_without_arguments(self, bench):
        assert bench("MCPToolCall", server="tests", tool="pid").isdigit()

    def test_a_time_limit_may_be_a_text(self, bench):
        with pytest.raises(MCPToolCallError, match=r"timed out after 0\.5 seconds"):
            bench("MCPToolCall", server="tests", tool="slow", arguments={"seconds": 100}, timeout=" 0.5 ")

    @pytest.mark.parametrize(
        ("fields", "seconds"), [({}, 30.0), ({"timeout": "2.5"}, 2.5), ({"timeout": 1e12}, 2_000_000.0)]
    )
    def test_how_long_a_call_may_take(self, bench, monkeypatch, fields, seconds):
        """Half a minute by default."""
        limits, call = [], MCPClient.call_tool

        def calling(client, server, tool, arguments, timeout_s):
            limits.append(timeout_s)
            return call(client, server, tool, arguments, timeout_s + PATIENCE_S)

        monkeypatch.setattr(MCPClient, "call_tool", calling)
        assert bench("MCPToolCall", server="tests", tool="pid", **fields).isdigit()
        assert limits == [seconds]


class TestFailure:
    def test_fails_the_node(self, bench):
        with pytest.raises(MCPToolCallError, match='no MCP server "none"'):
            bench("MCPToolCall", server="none", tool="echo")

    @pytest.mark.parametrize("server", ["none", "{empty}", "a/b"])
    def test_or_is_its_output(self, bench, server):
        """Also a name that is empty once it is filled."""
        bench.engine.values["empty"] = ""
        assert "MCP server" in bench("MCPToolCall", server=server, tool="echo", onError="return")

    @pytest.mark.parametrize("timeout", [0, -1, "soon", True, "nan", "inf", float("inf")])
    def test_a_time_limit_that_is_none(self, bench, timeout):
        """Whatever `onError` says."""
        with pytest.raises(ConfigError, match=r"'timeout' is .*above 0"):
            bench("MCPToolCall", server="tests", tool="echo", timeout=timeout, onError="return")


@pytest.mark.parametrize(
    ("fields", "found"),
    [
        ({"server": "s", "tool": "t"}, []),
        ({"server": "s", "tool": "t", "arguments": {}, "timeout": "30", "onError": "return"}, []),
        ({"server": "", "tool": "t"}, ["/server"]),
        ({"server": "s"}, [""]),
        ({"server": "s", "tool": "t", "arguments": []}, ["/arguments"]),
        ({"server": "s", "tool": "t", "timeout": 0}, ["/timeout"]),
        ({"server": "s", "tool": "t", "timeout": "0x"}, ["/timeout"]),
        ({"server": "s", "tool": "t", "onError": "ignore"}, ["/onError"]),
    ],
)
def test_the_schema(bench, fields, found):
    assert bench.findings("MCPToolCall", **fields)[0] == found


def test_a_dry_run_tells_what_it_would_call(bench):
    assert bench.notes("MCPToolCall", server="tests", tool="echo") == [
        "would call the tool 'echo' of the MCP server 'tests'"
    ]
