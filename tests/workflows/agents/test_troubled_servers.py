"""MCP servers that hang or flood: every chat gets its answer, and none but the first waits for them.

Source: spec agents.md 11, row 8.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from Middleware.common.request_context import enter_request
from Middleware.workflows.agents import mcp_lists
from Middleware.workflows.agents.mcp_lists import DEAD_S, LIST_S, dead_servers
from Middleware.workflows.tools import mcp_doors
from tests.e2e.conftest import HOUSE
from tests.patience import PATIENCE_S
from tests.workflows.agents.conftest import Bench, asks, call

SERVER = HOUSE / "tests" / "fixtures" / "mcp" / "troubled_server.py"


@pytest.fixture
def served(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """`served(trouble, *replies)`: the answer of an agent that has the tools of that server, and a workflow."""
    dead_servers.clear()
    own = bench.node["agentTools"][0]

    def ask(trouble: str, *replies: Any, list_s: float = PATIENCE_S, **fields: Any) -> Any:
        monkeypatch.setattr(mcp_lists, "LIST_S", list_s)
        file = {"transport": "stdio", "command": sys.executable, "args": [str(SERVER), trouble]}
        bench.house.write(f"MCPServers/{trouble}", file)
        with enter_request(bench.house.manager().request):
            return bench.ask(*replies, agentTools=[f"mcp:{trouble}", own], **fields)

    yield ask
    mcp_doors.end_sessions()
    dead_servers.clear()


def test_how_long_a_server_may_keep_a_chat() -> None:
    """Ten seconds, once in thirty."""
    assert (LIST_S, DEAD_S) == (10.0, 30.0)


@pytest.mark.parametrize("trouble", ["start", "list"])
def test_one_that_says_nothing_costs_the_first_chat_alone(
    served: Any, bench: Bench, trouble: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The chats go on with the other tools; the later ones do not ask the server."""
    asked = []
    list_tools = mcp_lists.MCPClient.list_tools

    def count(self: Any, name: str, timeout: float) -> Any:
        asked.append(name)
        return list_tools(self, name, timeout)

    monkeypatch.setattr(mcp_lists.MCPClient, "list_tools", count)
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            assert served(trouble, "Hello.", list_s=0.2).text == "Hello."
    assert asked == [trouble]
    assert [tool["function"]["name"] for tool in bench.model.calls[0].tools] == ["read_file"]
    lines = [line for line in caplog.messages if f"the tools of MCP server {trouble!r} are missing" in line]
    assert len(lines) == 3
    assert "timed out" in lines[0] and "did not answer a moment ago" in lines[1]


def test_a_call_that_hangs_is_a_result(served: Any, bench: Bench) -> None:
    """The model is told, and answers."""
    answer = served("call", asks(call("zeta")), "It hangs.", toolTimeout=0.2)
    assert answer.text == "It hangs."
    assert bench.results() == ["error: timed out after 0.2 seconds"]


def test_a_flood_is_cut(served: Any, bench: Bench) -> None:
    """Of ten megabytes the model gets the limit of a result."""
    assert served("flood", asks(call("zeta")), "Much.").text == "Much."
    (result,) = bench.results()
    assert len(result) < 8000
    assert "characters left out ...]" in result


def test_a_session_outlives_the_call_that_hung(served: Any, bench: Bench) -> None:
    """The next chat has the server's tools, without another start."""
    served("call", asks(call("zeta")), "It hangs.", toolTimeout=0.2)
    served("call", "Hello.")
    assert "zeta" in [tool["function"]["name"] for tool in bench.model.calls[0].tools]
