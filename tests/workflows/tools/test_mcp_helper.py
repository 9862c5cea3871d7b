"""The helper process's loop, run in this process: lines in, lines out, the end at the end of the input."""

from __future__ import annotations

import asyncio
import io
import json
import logging
import os

from Middleware.workflows.tools.mcp_helper import _LogLines, _Wire, serve
from Middleware.workflows.tools.mcp_request import McpRequest, McpServer
from tests.workflows.tools.conftest import gone, started, stdio


class Answers(io.BytesIO):
    """What the helper writes; its input ends after `count` answers."""

    def __init__(self, writing, count):
        super().__init__()
        self._writing, self._left = writing, count

    def flush(self):
        self._left -= b'{"id"' in self.getvalue().splitlines()[-1]
        if self._left == 0:
            self._left = -1
            os.close(self._writing)


def answers(*messages, count):
    reading, writing = os.pipe()
    os.write(writing, b"".join(json.dumps(message).encode() + b"\n" for message in messages))
    out = Answers(writing, count)
    with os.fdopen(reading, "rb") as lines:
        asyncio.run(serve(lines, _Wire(out)))
    written = [json.loads(line) for line in out.getvalue().splitlines()]
    return sorted((line for line in written if "id" in line), key=lambda answer: answer["id"])


def asked(number, server, tool, **arguments):
    request = McpRequest(server, "ana", tool, arguments, 60)
    return {"id": number, "request": json.loads(request.to_json())}


def test_results_and_errors(trace):
    """Each under its number; the servers end with the input."""
    server = stdio(trace)
    bad = McpServer("x", "stdio", "/no/such/program")
    first, second = answers(asked(1, server, "echo", text="a"), asked(2, bad, "echo"), count=2)
    assert first == {"id": 1, "result": "a"}
    assert second["id"] == 2 and "/no/such/program" in second["error"]
    assert started(trace) and gone(started(trace))


def test_a_cancelled_call_has_no_answer(trace):
    """A number that nobody knows is passed over."""
    server = stdio(trace)
    slow = asked(1, server, "slow", seconds=100)
    assert answers(slow, {"cancel": 1}, {"cancel": 9}, asked(2, server, "echo", text="b"), count=1) == [
        {"id": 2, "result": "b"}
    ]


def test_log_lines_are_handed_on():
    """With their level."""
    out = io.BytesIO()
    record = logging.LogRecord("n", logging.WARNING, "f", 1, "%s went", ("it",), None)
    _LogLines(_Wire(out)).emit(record)
    assert json.loads(out.getvalue()) == {"level": logging.WARNING, "log": "it went"}
