"""The pool by itself: when sessions are asked for a sign of life, end, and are left alone."""

from __future__ import annotations

import asyncio
import json

import pytest

from Middleware.workflows.tools import mcp_sessions
from Middleware.workflows.tools.mcp_request import McpRequest, McpServer, MCPToolCallError, request_from
from Middleware.workflows.tools.mcp_sessions import Sessions
from tests.workflows.tools.conftest import gone, started, stdio


def nobody(server, user, line):
    """Hears what servers say."""


def pid(server):
    return McpRequest(server, "ana", "pid", {}, 60)


def test_a_session_that_nobody_uses_ends(trace):
    """With the server that was started for it."""

    async def run():
        sessions = Sessions(nobody, idle_s=0.0)
        await sessions.perform(pid(stdio(trace)))
        await asyncio.to_thread(gone, started(trace))
        first = started(trace)
        await sessions.perform(pid(stdio(trace)))
        await sessions.aclose()
        return first

    first = asyncio.run(run())
    assert len(first) == 1 and len(started(trace)) == 2


def test_a_session_that_was_idle_is_pinged_and_kept(trace):
    async def run():
        sessions = Sessions(nobody, ping_after_s=-1.0)
        answers = [await sessions.perform(pid(stdio(trace))) for _ in range(3)]
        await sessions.aclose()
        return answers

    assert len(set(asyncio.run(run()))) == 1


def test_one_that_does_not_answer_the_ping_is_replaced(trace, monkeypatch):
    """Before the call is sent."""
    monkeypatch.setattr("Middleware.workflows.tools.mcp_connection.PING_S", 0.0)

    async def run():
        sessions = Sessions(nobody, ping_after_s=-1.0)
        answers = [await sessions.perform(pid(stdio(trace))) for _ in range(2)]
        await sessions.aclose()
        return answers

    assert len(set(asyncio.run(run()))) == 2


def test_a_server_that_fails_again_and_again_is_left_alone(monkeypatch):
    """The first retry is at once; the next waits, within the call's time."""
    monkeypatch.setattr(mcp_sessions, "PAUSES_S", (0.0, 1000.0))
    request = McpRequest(McpServer("x", "stdio", "/no/such/program"), "ana", "echo", {}, 1)

    async def run():
        sessions = Sessions(nobody)
        messages = []
        for _ in range(3):
            with pytest.raises(MCPToolCallError) as caught:
                await sessions.perform(request)
            messages.append(str(caught.value))
        return messages

    first, second, third = asyncio.run(run())
    assert first == second and "/no/such/program" in first
    assert "timed out" in third


def test_a_closed_pool_opens_nothing(trace):
    async def run():
        sessions = Sessions(nobody)
        await sessions.aclose()
        with pytest.raises(MCPToolCallError, match="stopping"):
            await sessions.perform(pid(stdio(trace)))

    asyncio.run(run())
    assert started(trace) == []


def test_a_request_survives_the_way_to_the_helper(trace):
    """And has the same session there."""
    request = McpRequest(
        stdio(trace, allowed_tools=("pid",), max_result_bytes=5), "ana", "pid", {"a": [1]}, 2.5
    )
    other = request_from(json.loads(request.to_json()))
    assert other == request and other.key == request.key
