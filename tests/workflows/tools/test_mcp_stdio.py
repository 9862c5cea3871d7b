"""Stdio servers that break the protocol: a call fails with a reason, and the session, or its follower, goes on."""

from __future__ import annotations

import asyncio
import signal
import sys
from asyncio.subprocess import PIPE

import pytest

from Middleware.workflows.tools import mcp_stdio
from Middleware.workflows.tools.mcp_connection import McpConnection
from Middleware.workflows.tools.mcp_doors import ThreadDoor
from Middleware.workflows.tools.mcp_request import McpRequest, McpServer, MCPToolCallError
from tests.patience import PATIENCE_S
from tests.workflows.tools.conftest import bad, gone, seen, started


@pytest.fixture
def call(trace):
    """`call(tool)`: the text, or the message of its failure; the server is always the same one."""
    door = ThreadDoor()

    def called(tool, timeout_s=PATIENCE_S):
        try:
            return door.submit(McpRequest(bad(trace), "ana", tool, {}, timeout_s, False)).result(PATIENCE_S)
        except MCPToolCallError as error:
            return str(error)

    yield called
    door.close()


class TestGarbage:
    """On the standard output; the same session goes on."""

    @pytest.mark.parametrize(
        ("tool", "said"),
        [
            ("bytes_that_are_no_text", "after bytes"),
            ("lines_that_are_no_messages", "after lines"),
            ("answers_that_nobody_asked_for", "right"),
            ("a_result_of_another_shape", "the answer is not one of the protocol"),
            ("an_error_of_another_shape", "the answer is not one of the protocol"),
            ("requests_of_its_own", "after requests"),
            ("a_flood_of_notifications", "after flood"),
            ("a_line_of_errors_without_end", "after errors"),
        ],
    )
    def test_a_call_has_its_answer(self, call, trace, tool, said):
        assert call(tool).endswith(said)
        assert call("fine") == "fine"
        assert len(started(trace)) == 1

    def test_it_is_reported_once(self, call, caplog):
        """Not what it says."""
        call("lines_that_are_no_messages")
        told = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
        assert told == [
            "MCP server 'bad' sent something that is not a message of the protocol; it is ignored"
        ]

    def test_a_large_answer_is_taken(self, call):
        assert len(call("a_large_answer")) == 3_000_000


class TestMessagesThatAreTooLong:
    def test_the_session_ends_and_the_next_has_a_new_one(self, call, trace, monkeypatch):
        """A line without end would take all memory."""
        monkeypatch.setattr(mcp_stdio, "LONGEST_MESSAGE", 100_000)
        assert "it sent a message of more than 100000 bytes" in call("a_line_without_end")
        assert call("fine") == "fine"
        assert len(started(trace)) == 2 and gone(started(trace)[:1])


class TestDeath:
    def test_in_the_middle_of_an_answer(self, call):
        assert "Connection closed" in call("half_an_answer")
        assert call("fine") == "fine"

    def test_children_die_with_the_server(self, call, trace):
        """One that holds the pipes does not hold the call either."""
        assert "Connection closed" in call("a_child_left_behind")
        (child,) = [
            int(line.split()[1]) for line in trace.read_text().splitlines() if line.startswith("child ")
        ]
        assert gone([child])

    @pytest.mark.parametrize("tool", ["silence", "deaf"])
    def test_one_that_answers_no_more_is_replaced(self, call, trace, tool):
        """Its call runs out of time; before the next it is asked for a sign of life, and ended."""
        assert "timed out after 0.5 seconds" in call(tool, timeout_s=0.5)
        assert call("fine") == "fine"
        assert len(started(trace)) == 2 and gone(started(trace)[:1])

    def test_a_short_time_limit_is_enough_for_that(self, call, trace):
        """The sign of life is waited for no longer than half of it."""
        assert "timed out" in call("silence", timeout_s=0.5)
        assert call("fine", timeout_s=3.0) == "fine"

    def test_no_zombie_is_left(self, call, trace):
        for tool in ("half_an_answer", "fine", "half_an_answer", "fine"):
            call(tool)
        assert gone(started(trace)[:2])  # a zombie would still have its process id
        assert len(started(trace)) == 3


SLOW_START = """
import os, time
with open(os.environ["TRACE"], "a") as file:
    file.write(f"start {os.getpid()}\\nwaiting\\n")
time.sleep(1000)
"""


def test_a_server_that_starts_slowly_is_ended_when_nobody_waits(trace):
    """In the middle of its handshake."""
    server = McpServer("x", "stdio", sys.executable, ("-c", SLOW_START), {"TRACE": str(trace)})

    async def run():
        connection = McpConnection(server, lambda *_: None, lambda line: None)
        waiting = asyncio.create_task(connection.ready())
        assert await asyncio.to_thread(seen, trace, "waiting")
        waiting.cancel()
        await asyncio.wait([waiting, connection.task])

    asyncio.run(run())
    assert started(trace) and gone(started(trace))


DEAF = """
import signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("ready", flush=True)
time.sleep(1000)
"""


def test_an_end_that_is_cut_short_ends_the_server_at_once():
    """As when the program stops and its patience with its servers is over."""

    async def run() -> tuple[int | None, bool]:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-c", DEAF, stdin=PIPE, stdout=PIPE, start_new_session=True
        )
        assert await process.stdout.readline() == b"ready\n"
        end = asyncio.create_task(mcp_stdio._end_process(process))
        await asyncio.sleep(0)
        end.cancel()
        await asyncio.wait([end])
        async with asyncio.timeout(PATIENCE_S):
            await mcp_stdio._exit(process)
        return process.returncode, process._transport.is_closing()

    assert asyncio.run(run()) == (-signal.SIGKILL, True)
