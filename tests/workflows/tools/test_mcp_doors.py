"""Calls of real MCP servers from threads: by each transport, with the loop in this process and in a helper."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from concurrent.futures import CancelledError

import pytest

from Middleware.workflows.tools import mcp_doors
from Middleware.workflows.tools.mcp_connection import StandardError
from Middleware.workflows.tools.mcp_doors import HelperDoor, ThreadDoor
from Middleware.workflows.tools.mcp_request import McpRequest, McpServer, MCPToolCallError
from tests.e2e.conftest import HOUSE
from tests.patience import PATIENCE_S, growing_limits
from tests.workflows.tools.conftest import gone, seen, started, stdio


class TestCalls:
    def test_a_text(self, call, server):
        """The blocks' text, as it is."""
        assert call(server, "echo", text="näh\n{1}") == "näh\n{1}"

    def test_structured_content_is_json(self, call, server):
        """It goes before the blocks."""
        assert json.loads(call(server, "add", a=1, b=2)) == {"sum": 3}

    def test_fifty_at_once_share_one_session(self, door, server, trace):
        """None waits for another; a program is started once."""
        request = McpRequest(server, "ana", "slow", {"seconds": 0.5}, 60)
        futures = [door.submit(request) for _ in range(50)]
        assert {future.result(PATIENCE_S) for future in futures} == {"waited"}
        assert len(started(trace)) == 1

    def test_over_http_too(self, door, http_servers):
        """The server sees one session id in all fifty."""
        server = McpServer("tests", "streamable_http", url=http_servers("streamable_http").file["url"])
        request = McpRequest(server, "ana", "header", {"name": "mcp-session-id"}, 60)
        ids = {future.result(PATIENCE_S) for future in [door.submit(request) for _ in range(50)]}
        assert len(ids) == 1
        assert ids != {""}

    def test_an_error_of_the_tool(self, call, server):
        """It is told, with what of the arguments does not fit the tool's schema."""
        with pytest.raises(MCPToolCallError, match=r"tool 'add'(?s:.*)arguments/a: found") as caught:
            call(server, "add", a="x", b=1)
        assert "arguments/b" not in str(caught.value)

    def test_an_unknown_tool(self, call, server):
        """Those that there are, are named."""
        with pytest.raises(MCPToolCallError, match=r"'nope'(?s:.*)The server's tools: add, crash, echo"):
            call(server, "nope")

    def test_the_list_of_tools(self, call, server):
        tools = call(server, None)
        assert tools["echo"] == {
            "llm_schema": {
                "type": "function",
                "name": "echo",
                "description": "Gives the text back.",
                "parameters": tools["echo"]["llm_schema"]["parameters"],
            }
        }
        assert tools["pid"]["llm_schema"]["description"] == "Execute pid"
        assert tools["echo"]["llm_schema"]["parameters"]["required"] == ["text"]

    def test_a_time_limit_covers_all(self, call, server, trace):
        """The server is told that nobody waits any more; the session goes on."""
        assert call(server, "echo", text="first") == "first"
        for limit_s in growing_limits():
            with pytest.raises(MCPToolCallError, match=f"'slow': timed out after {limit_s:g} seconds"):
                call(server, "slow", timeout_s=limit_s, seconds=2 * PATIENCE_S)
            if "slow began" in trace.read_text():
                break
        assert seen(trace, "slow cancelled")
        assert call(server, "echo", text="still here") == "still here"
        assert len(started(trace)) == 1

    def test_a_cancelled_call_is_cancelled_at_the_server(self, door, call, server, trace):
        """The shared session goes on."""
        future = door.submit(McpRequest(server, "ana", "slow", {"seconds": 100}, 60))
        assert seen(trace, "slow began")
        assert future.cancel()
        assert seen(trace, "slow cancelled")
        with pytest.raises(CancelledError):
            future.result()
        assert call(server, "echo", text="x") == "x"
        assert len(started(trace)) == 1


class TestLongAnswers:
    """Two million characters."""

    def test_are_taken(self, call, trace, http_servers):
        """By both transports that are in use."""
        web = McpServer("web", "streamable_http", url=http_servers("streamable_http").file["url"])
        for server in (stdio(trace), web):
            assert len(call(server, "echo", text="x" * 2_000_000)) == 2_000_000

    def test_the_older_transport_has_a_limit(self, call, http_servers):
        """The call fails with that reason, the next one is answered."""
        server = McpServer("old", "sse", url=http_servers("sse").file["url"])
        with pytest.raises(MCPToolCallError, match=r"(?s)Connection closed.*exceeded the 1048576 byte limit"):
            call(server, "echo", text="x" * 2_000_000)
        assert call(server, "echo", text="x") == "x"


class TestCrashes:
    def test_a_stdio_server_is_started_again(self, call, trace):
        """The call that it crashed in fails with its last words; the next has a new one."""
        server = stdio(trace)
        with pytest.raises(MCPToolCallError, match=r"'crash'(?s:.*)about to crash"):
            call(server, "crash")
        assert call(server, "echo", text="x") == "x"
        assert len(started(trace)) == 2

    def test_between_two_calls(self, call, trace):
        """Nobody notices."""
        server = stdio(trace)
        os.kill(int(call(server, "pid")), signal.SIGKILL)
        assert gone(started(trace))
        assert call(server, "echo", text="x") == "x"

    @pytest.mark.parametrize("transport", ["sse", "streamable_http"])
    def test_a_restarted_http_server(self, call, http_servers, transport):
        """It does not know the session any more: a new one is opened inside the call."""
        process = http_servers(transport)
        server = McpServer("tests", transport, url=process.file["url"])
        assert call(server, "echo", text="1") == "1"
        process.kill()
        process.start()
        assert call(server, "echo", text="2") == "2"

    @pytest.mark.parametrize("transport", ["sse", "streamable_http"])
    def test_an_http_server_that_is_gone(self, call, http_servers, transport):
        process = http_servers(transport)
        server = McpServer("tests", transport, url=process.file["url"])
        call(server, "echo", text="1")
        process.kill()
        with pytest.raises(
            MCPToolCallError, match=r"MCP server 'tests'(,.* Connection closed| cannot be reached)"
        ):
            call(server, "echo", text="2")

    @pytest.mark.parametrize("transport", ["sse", "streamable_http"])
    def test_in_mid_call(self, call, http_servers, transport):
        """The call fails; it is not sent a second time."""
        process = http_servers(transport)
        with pytest.raises(MCPToolCallError, match="'crash'"):
            call(McpServer("tests", transport, url=process.file["url"]), "crash")


class TestBadServers:
    @pytest.mark.parametrize(
        ("server", "told"),
        [
            (McpServer("x", "stdio", "/no/such/program"), "there is no program or folder '/no/such/program'"),
            (McpServer("x", "stdio", sys.executable, ("-c", "import sys; sys.exit('no licence')")), "no licence"),
            (McpServer("x", "sse", url="http://127.0.0.1:9/sse"), "cannot be reached"),
            (McpServer("x", "streamable_http", url="http://127.0.0.1:9/mcp"), "cannot be reached"),
            (McpServer("x", "streamable_http", url="ftp://127.0.0.1/"), "cannot be reached"),
        ],
        ids=["program", "dies", "sse", "http", "scheme"],
    )  # fmt: skip
    def test_one_that_does_not_start(self, call, server, told, monkeypatch):
        """Its words are told, also where they are read after the server has ended."""
        hear = StandardError.hear
        monkeypatch.setattr(StandardError, "hear", lambda errors, line: (time.sleep(0.2), hear(errors, line)))
        with pytest.raises(MCPToolCallError, match=told):
            call(server, "echo")

    def test_one_that_never_answers_the_handshake(self, call):
        """The time limit counts; the process is ended."""
        silent = McpServer("x", "stdio", sys.executable, ("-c", "import sys; sys.stdin.read()"))
        with pytest.raises(MCPToolCallError, match="timed out after 1 seconds"):
            call(silent, "echo", timeout_s=1)

    @pytest.mark.parametrize("transport", ["sse", "streamable_http"])
    def test_a_web_server_that_never_answers_the_handshake(self, call, site, transport):
        """The same limit."""
        site.pages["/mcp"] = lambda handler: site.leaving.wait(PATIENCE_S)
        for limit_s in growing_limits():
            with pytest.raises(MCPToolCallError, match=f"timed out after {limit_s:g} seconds"):
                call(McpServer("x", transport, url=site.url("/mcp")), "echo", timeout_s=limit_s)
            if site.seen:
                break
        assert site.seen

    def test_one_that_talks_before_it_speaks_the_protocol(self, call, trace):
        """What is no message is passed over."""
        noisy = stdio(trace)
        code = f"print('Welcome!', flush=True); import runpy, sys; sys.argv[1:] = ['stdio']; runpy.run_path({noisy.args[0]!r}, run_name='__main__')"
        server = stdio(trace, args=("-c", code))
        assert call(server, "echo", text="x") == "x"


class TestEnd:
    @pytest.mark.parametrize("kind", [ThreadDoor, HelperDoor])
    def test_no_server_outlives_the_door(self, kind, trace):
        """A call that runs fails; the servers are gone when the end is done."""
        door = kind()
        future = door.submit(McpRequest(stdio(trace), "ana", "slow", {"seconds": 100}, 60))
        assert seen(trace, "slow began")
        door.close()
        with pytest.raises((MCPToolCallError, CancelledError)):
            future.result(PATIENCE_S)
        assert gone(started(trace))

    def test_a_call_ends_although_its_server_does_not_end_in_time(self, trace, monkeypatch):
        """Else whoever waits for it would wait for ever."""
        monkeypatch.setattr(mcp_doors, "END_S", 0.0)
        door = ThreadDoor()
        future = door.submit(McpRequest(stdio(trace), "ana", "slow", {"seconds": 2 * PATIENCE_S}, PATIENCE_S))
        assert seen(trace, "slow began")
        door.close()
        with pytest.raises((MCPToolCallError, CancelledError)):
            future.result(PATIENCE_S)

    def test_nor_the_death_of_the_process(self, trace):
        """Killed hard, nothing of it can run: the helper sees the end of its input."""
        code = (
            "from Middleware.workflows.tools.mcp_doors import HelperDoor\n"
            "from Middleware.workflows.tools.mcp_request import McpRequest\n"
            "from tests.workflows.tools.conftest import stdio\n"
            "import os, pathlib, signal, sys\n"
            "server = stdio(pathlib.Path(sys.argv[1]))\n"
            "HelperDoor().submit(McpRequest(server, 'ana', 'echo', {'text': 'x'}, 600)).result(600)\n"
            "os.kill(os.getpid(), signal.SIGKILL)\n"
        )
        done = subprocess.run(
            [sys.executable, "-c", code, str(trace)], cwd=HOUSE, timeout=PATIENCE_S, check=False
        )
        assert done.returncode == -signal.SIGKILL
        assert started(trace) and gone(started(trace))

    def test_a_helper_that_dies_fails_its_calls(self, trace):
        """The next call has a new one."""
        door = HelperDoor()
        future = door.submit(McpRequest(stdio(trace), "ana", "slow", {"seconds": 100}, 60))
        assert seen(trace, "slow began")
        door._process.kill()
        with pytest.raises(MCPToolCallError, match="helper process has ended"):
            future.result(PATIENCE_S)
        door.close()
        assert not door.is_open and gone(started(trace))


class TestTheDoorOfTheProcess:
    def test_is_opened_once_and_again_after_its_end(self):
        first = mcp_doors.door()
        assert mcp_doors.door() is first
        mcp_doors.end_sessions()
        mcp_doors.end_sessions()
        second = mcp_doors.door()
        mcp_doors.end_sessions()
        assert second is not first and isinstance(second, ThreadDoor)

    def test_under_gevent_it_is_a_helper(self, trace):
        """Fifty greenlets call at once, a crash is survived, and the loop of gevent goes on meanwhile."""
        code = (
            "from gevent import monkey; monkey.patch_all()\n"
            "import gevent, pathlib, sys, time\n"
            "from Middleware.workflows.tools import mcp_doors\n"
            "from Middleware.workflows.tools.mcp_request import McpRequest, MCPToolCallError\n"
            "from tests.workflows.tools.conftest import stdio\n"
            "server = stdio(pathlib.Path(sys.argv[1]))\n"
            "def call(tool, **arguments):\n"
            "    return mcp_doors.door().submit(McpRequest(server, 'ana', tool, arguments, 600, False)).result(600)\n"
            "beats = []\n"
            "beat = gevent.spawn(lambda: [beats.append(gevent.sleep(0.01)) for _ in range(9999)])\n"
            "jobs = [gevent.spawn(call, 'slow', seconds=0.5) for _ in range(50)]\n"
            "gevent.joinall(jobs)\n"
            "print(type(mcp_doors.door()).__name__, {job.value for job in jobs}, len(beats) > 5)\n"
            "try: call('crash')\n"
            "except MCPToolCallError as error: print('about to crash' in str(error))\n"
            "print(call('echo', text='again'))\n"
            "mcp_doors.end_sessions()\n"
        )
        words = [sys.executable, "-c", code, str(trace)]
        done = subprocess.run(
            words, cwd=HOUSE, capture_output=True, text=True, timeout=PATIENCE_S, check=False
        )
        assert done.stdout.splitlines() == ["HelperDoor {'waited'} True", "True", "again"], done.stderr
        assert gone(started(trace))

    def test_without_the_sdk(self, monkeypatch):
        """The message names the extra."""
        monkeypatch.setitem(sys.modules, "mcp", None)
        monkeypatch.delitem(sys.modules, "Middleware.workflows.tools.mcp_sessions", raising=False)
        monkeypatch.delitem(sys.modules, "Middleware.workflows.tools.mcp_connection", raising=False)
        with pytest.raises(
            MCPToolCallError, match=r'needs? the package .mcp.(?s:.*)pip install -e "\.\[mcp\]"'
        ):
            ThreadDoor()
