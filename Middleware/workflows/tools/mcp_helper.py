"""The helper process: the MCP sessions of a server process that cannot hold them itself.

Reads requests from standard input, writes results to standard output (`mcp_doors.HelperDoor`), and ends with
all its servers when its standard input ends, which it does however the server process dies.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import sys
import threading
from functools import partial
from typing import IO, Any

from Middleware.workflows.tools.mcp_doors import new_sessions
from Middleware.workflows.tools.mcp_request import MCPToolCallError, request_from


class _Wire:
    """Whole lines, from any thread."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream, self._lock = stream, threading.Lock()

    def send(self, message: dict[str, Any]) -> None:
        with self._lock:
            try:
                self._stream.write(json.dumps(message).encode() + b"\n")
                self._stream.flush()
            except BrokenPipeError:  # the server process is gone: standard input has ended, too
                return


class _LogLines(logging.Handler):
    """Log lines go to the server process, whose handlers mask and write them."""

    def __init__(self, wire: _Wire) -> None:
        super().__init__()
        self.setFormatter(logging.Formatter("%(message)s"))
        self._wire = wire

    def emit(self, record: logging.LogRecord) -> None:
        self._wire.send({"level": record.levelno, "log": self.format(record)})


async def serve(lines: IO[bytes], wire: _Wire) -> None:
    """Until `lines` ends; then all sessions are ended."""
    sessions = new_sessions(lambda server, user, line: wire.send({"said": [server, user, line]}))
    wire.send({"ready": True})
    loop = asyncio.get_running_loop()
    arrived: asyncio.Queue[bytes] = asyncio.Queue()

    def read_requests() -> None:
        for line in iter(lines.readline, b""):
            loop.call_soon_threadsafe(arrived.put_nowait, line)
        loop.call_soon_threadsafe(arrived.put_nowait, b"")

    threading.Thread(target=read_requests, name="requests", daemon=True).start()
    calls: dict[int, asyncio.Task[None]] = {}
    while line := await arrived.get():
        message = json.loads(line)
        if "cancel" in message:
            if call := calls.get(message["cancel"]):
                call.cancel()
            continue
        number = message["id"]
        calls[number] = asyncio.create_task(_answer(sessions, message, wire))
        calls[number].add_done_callback(partial(_forget, calls, number))
    for call in list(calls.values()):
        call.cancel()
    await sessions.aclose()


def _forget(calls: dict[int, asyncio.Task[None]], number: int, _: object) -> None:
    del calls[number]


async def _answer(sessions: Any, message: dict[str, Any], wire: _Wire) -> None:
    try:
        result = await sessions.perform(request_from(message["request"]))
    except MCPToolCallError as error:
        wire.send({"id": message["id"], "error": str(error)})
    else:
        wire.send({"id": message["id"], "result": result})


def main() -> int:
    wire = _Wire(os.fdopen(os.dup(1), "wb"))
    os.dup2(2, 1)  # whatever prints must not disturb the lines
    logging.basicConfig(level=logging.DEBUG, handlers=[_LogLines(wire)], force=True)
    logging.getLogger("asyncio").setLevel(logging.WARNING)
    asyncio.run(serve(sys.stdin.buffer, wire))
    return 0


if __name__ == "__main__":
    sys.exit(main())
