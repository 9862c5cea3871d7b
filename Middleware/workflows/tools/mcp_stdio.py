"""A stdio tool server: its process, and the streams of messages that the SDK's session wants.

In the SDK's own transport a byte that is no UTF-8 ends a session without telling anybody, a line may grow
without limit, and children of a server that died are left. What is no message is handed on as an exception;
a line that is too long ends the session. On Windows the SDK's transport is used: it knows its process trees.
Source: spec tools.md 5.2, 11.5; the MCP specification, "Transports: stdio" and "Lifecycle: Shutdown".
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, TextIO

import anyio
import mcp.types as types
from mcp.client.stdio import StdioServerParameters, get_default_environment, stdio_client
from mcp.shared.message import SessionMessage

from Middleware.utilities.library_internals import close_pipes
from Middleware.workflows.tools.mcp_request import McpServer

LONGEST_MESSAGE = 64 * 1024 * 1024
"""Bytes of one message of a server, on whatever transport."""
PATIENCE_S = 2.0
"""How long a server has to end after its input did, and then after SIGTERM."""
FLUSH_S = 0.5
EXIT_POLL_S = 0.2


class NotRead(Exception):
    """A server's message was left; the text says why. The session ends with it."""


def too_long() -> NotRead:
    return NotRead(f"it sent a message of more than {LONGEST_MESSAGE} bytes")


@asynccontextmanager
async def stdio_streams(server: McpServer, errors: TextIO) -> AsyncIterator[tuple[Any, Any]]:
    """(messages of the server or exceptions, messages to it). The process group ends with the block.

    Raises OSError when the process cannot be started.
    """
    if sys.platform == "win32":
        parameters = StdioServerParameters(
            command=server.command,
            args=list(server.args),
            env=dict(server.env),
            cwd=server.cwd,
            encoding_error_handler="replace",
        )
        async with stdio_client(parameters, errors) as streams:
            yield streams
        return
    process = await asyncio.create_subprocess_exec(
        server.command,
        *server.args,
        stdin=PIPE,
        stdout=PIPE,
        stderr=errors,
        env={**get_default_environment(), **server.env},
        cwd=server.cwd,
        start_new_session=True,
        limit=LONGEST_MESSAGE,
    )
    try:
        async with _talking(process) as streams:
            yield streams
    finally:
        await asyncio.shield(asyncio.create_task(_end_process(process), name=f"end of process {process.pid}"))


@asynccontextmanager
async def _talking(process: Process) -> AsyncIterator[tuple[Any, Any]]:
    heard, messages = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    outgoing, to_send = anyio.create_memory_object_stream[SessionMessage](0)
    async with anyio.create_task_group() as tasks:
        written = asyncio.Event()
        tasks.start_soon(_read_messages, process, heard)
        tasks.start_soon(_write, process, to_send, heard, written)
        tasks.start_soon(_watch, process, heard)
        try:
            yield messages, outgoing
        finally:
            messages.close()
            outgoing.close()
            with contextlib.suppress(TimeoutError), anyio.CancelScope(shield=True):
                async with asyncio.timeout(FLUSH_S):
                    await written.wait()
            tasks.cancel_scope.cancel()


async def _read_messages(process: Process, heard: Any) -> None:
    """Until the server's output ends, a message is too long, or nobody listens."""
    assert process.stdout
    async with heard:
        with contextlib.suppress(anyio.ClosedResourceError, anyio.BrokenResourceError):
            try:
                while True:
                    await heard.send(_parse_line(await process.stdout.readuntil(b"\n")))
            except (asyncio.IncompleteReadError, ConnectionError):
                return  # half a line at the end is no message
            except asyncio.LimitOverrunError:
                await heard.send(too_long())


def _parse_line(line: bytes) -> SessionMessage | Exception:
    """What is no message is an exception; a broken answer fails the call that waits for it."""
    text = line.decode("utf-8", "replace")
    try:
        return SessionMessage(types.jsonrpc_message_adapter.validate_json(text, by_name=False))
    except (ValueError, RecursionError) as error:
        number = _answered_request(text)
        if number is None:
            return error
    data = types.ErrorData(code=types.INVALID_REQUEST, message="the answer is not one of the protocol")
    return SessionMessage(types.JSONRPCError(jsonrpc="2.0", id=number, error=data))


def _answered_request(text: str) -> int | None:
    """The number of the request that a broken message is meant for."""
    try:
        message = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(message, dict) or "method" in message:
        return None
    return number if type(number := message.get("id")) is int else None


async def _watch(process: Process, heard: Any) -> None:
    """A child of a server that has ended may hold its output open: nothing more comes all the same."""
    while process.returncode is None:
        await asyncio.sleep(EXIT_POLL_S)
    await asyncio.sleep(EXIT_POLL_S)  # what it wrote at its end is still being read
    await heard.aclose()


async def _write(process: Process, to_send: Any, heard: Any, written: asyncio.Event) -> None:
    assert process.stdin
    try:
        async with to_send:
            async for item in to_send:
                line = item.message.model_dump_json(by_alias=True, exclude_unset=True)
                process.stdin.write(line.encode("utf-8", "replace") + b"\n")
                await process.stdin.drain()
    except ConnectionError:
        await heard.aclose()  # the session learns that the connection has ended
    finally:
        written.set()


async def _end_process(process: Process) -> None:
    """The server and all processes of its group are gone; the pipes are closed. Cancelled: at once."""
    assert process.stdin
    process.stdin.close()
    try:
        for sign in (None, signal.SIGTERM, signal.SIGKILL):
            if sign is not None:
                _to_group(process, sign)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(PATIENCE_S):
                    await _exit(process)
                    break
    finally:
        # Children that a dead server left hold its pipes and do nobody's work any more.
        _to_group(process, signal.SIGKILL)
        close_pipes(process)  # a child in a group of its own may hold one


async def _exit(process: Process) -> None:
    """Not `process.wait`: that one also waits for the end of pipes, which a child may hold."""
    while process.returncode is None:
        await asyncio.sleep(0.01)


def _to_group(process: Process, sign: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, sign)
