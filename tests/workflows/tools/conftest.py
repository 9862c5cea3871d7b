"""Real MCP servers, and the ways to them."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import time
from dataclasses import replace

import pytest

from Middleware.workflows.tools.mcp_doors import HelperDoor, ThreadDoor
from Middleware.workflows.tools.mcp_request import McpRequest, McpServer
from tests.e2e.conftest import HOUSE, free_port
from tests.patience import PATIENCE_S

TOOL_SERVER = HOUSE / "tests" / "fixtures" / "mcp" / "tool_server.py"
BAD_SERVER = HOUSE / "tests" / "fixtures" / "mcp" / "bad_server.py"
LIMIT_S = PATIENCE_S


class HttpToolServer:
    """The tests' server behind HTTP; `kill` and `start` again on the same port."""

    def __init__(self, transport, trace):
        self.transport, self.port, self._trace = transport, free_port(), trace
        self.start()

    def start(self):
        words = [sys.executable, str(TOOL_SERVER), self.transport, str(self.port)]
        self.process = subprocess.Popen(
            words, stderr=subprocess.DEVNULL, env={**os.environ, "TRACE": str(self._trace)}
        )
        end = time.monotonic() + LIMIT_S
        while time.monotonic() < end:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port), 1):
                return
            assert self.process.poll() is None
            time.sleep(0.05)
        raise AssertionError("the tool server did not start")

    def kill(self):
        self.process.kill()
        self.process.wait()

    @property
    def file(self):
        """Its registry file."""
        if self.transport == "sse":
            return {"transport": "sse", "url": f"http://127.0.0.1:{self.port}/sse"}
        return {"transport": "streamable_http", "url": f"http://127.0.0.1:{self.port}/mcp"}


def stdio_file(trace):
    return {
        "transport": "stdio",
        "command": sys.executable,
        "args": [str(TOOL_SERVER), "stdio"],
        "env": {"TRACE": str(trace)},
    }


@pytest.fixture
def trace(tmp_path):
    """The file that the servers write to."""
    path = tmp_path / "trace.txt"
    path.touch()
    return path


@pytest.fixture
def http_servers(trace):
    """`http_servers(transport)`: started, and ended after the test."""
    started = []

    def start(transport):
        started.append(HttpToolServer(transport.replace("_", "-"), trace))
        return started[-1]

    yield start
    for server in started:
        server.kill()


@pytest.fixture(params=["stdio", "sse", "streamable_http"])
def server(request, trace, http_servers):
    """The tests' server by each transport."""
    if request.param == "stdio":
        return stdio(trace)
    file = http_servers(request.param).file
    return McpServer("tests", file["transport"], url=file["url"])


def stdio(trace, **more):
    file = stdio_file(trace)
    server = McpServer("tests", "stdio", file["command"], tuple(file["args"]), file["env"])
    return replace(server, **more)


def bad(trace, **more):
    """A server that breaks the protocol: `tests/fixtures/mcp/bad_server.py` names its tools."""
    return McpServer("bad", "stdio", sys.executable, (str(BAD_SERVER),), {"TRACE": str(trace), **more})


@pytest.fixture(params=[ThreadDoor, HelperDoor], ids=["thread", "helper"])
def door(request):
    """The loop in this process, and in one of its own."""
    door = request.param()
    yield door
    door.close()


@pytest.fixture
def call(door):
    """`call(server, tool, **arguments)`: the result's text."""

    def called(server, tool, timeout_s=LIMIT_S, private=False, **arguments):
        return door.submit(McpRequest(server, "ana", tool, arguments, timeout_s, private)).result(LIMIT_S)

    return called


def seen(trace, line, count=1):
    """Whether the servers wrote a line so often, now or soon."""
    end = time.monotonic() + LIMIT_S
    while time.monotonic() < end:
        if trace.read_text().splitlines().count(line) >= count:
            return True
        time.sleep(0.02)
    return False


def seen_in(file, text):
    """Whether the file holds the text, now or soon."""
    end = time.monotonic() + LIMIT_S
    while time.monotonic() < end:
        if file.exists() and text in file.read_text():
            return True
        time.sleep(0.02)
    return False


def started(trace):
    """The process ids of the servers that were started."""
    return [int(line.split()[1]) for line in trace.read_text().splitlines() if line.startswith("start ")]


def lives(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def gone(pids):
    """Whether all processes end soon."""
    end = time.monotonic() + LIMIT_S
    while time.monotonic() < end:
        if not any(lives(pid) for pid in pids):
            return True
        time.sleep(0.05)
    return False
