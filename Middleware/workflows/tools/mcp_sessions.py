"""The pool of MCP sessions of one process: one for each server file and user, shared by all calls.

A session is kept while it is used and for some minutes after, is asked for a sign of life when it was idle,
and is opened again after it has ended. Source: spec tools.md 11.5.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from mcp.shared.exceptions import MCPError

from Middleware.config.validation import check
from Middleware.workflows.tools.mcp_connection import McpConnection, NotSent, describe_error, flatten_result
from Middleware.workflows.tools.mcp_request import McpRequest, MCPToolCallError

# --------------------------------------------------------------------------
# What of a call's arguments does not fit the schema that a tool server gives for them, for a message.


MOST_FAULTS = 5
DEEPEST = 16
_TYPES = frozenset(["object", "array", "string", "integer", "number", "boolean", "null"])


def faults_of(arguments: Mapping[str, Any], schema: Any) -> str:
    """A line for each of the first faults; empty when there is none."""
    found = check(dict(arguments), _quick(schema, DEEPEST), "arguments", level="error")
    return "".join(f"\narguments{fault.pointer}: {fault.message}" for fault in found[:MOST_FAULTS])


def _quick(schema: Any, depth: int) -> dict[str, Any]:
    """The part of a schema that is looked at."""
    if not isinstance(schema, Mapping) or not depth:
        return {}
    kept = {
        word: schema[word] for word, is_sound in _SOUND.items() if word in schema and is_sound(schema[word])
    }
    if isinstance(named := schema.get("properties"), Mapping):
        kept["properties"] = {str(name): _quick(inner, depth - 1) for name, inner in named.items()}
    if isinstance(schema.get("items"), Mapping):
        kept["items"] = _quick(schema["items"], depth - 1)
    return kept


def _is_type(value: Any) -> bool:
    names = [value] if isinstance(value, str) else value
    return isinstance(names, list) and bool(names) and all(isinstance(n, str) and n in _TYPES for n in names)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _are_names(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(name, str) for name in value)


_SOUND: Mapping[str, Callable[[Any], bool]] = {
    "type": _is_type,
    "enum": lambda value: isinstance(value, list) and bool(value),
    "required": _are_names,
    "additionalProperties": lambda value: isinstance(value, bool),
    "minimum": _is_number,
    "maximum": _is_number,
    "minLength": _is_count,
    "maxLength": _is_count,
    "minItems": _is_count,
    "maxItems": _is_count,
}


# --------------------------------------------------------------------------

IDLE_S = 300.0
PING_AFTER_S = 30.0
PAUSES_S = (0.0, 0.5, 1.0, 2.0, 4.0)
"""How long after the first, second ... failure in a row a server is left alone."""
CUT = "\n[cut: the result is longer than maxResultBytes]"
FAULTS_S = 2.0
MOST_TOOLS = 100


class Sessions:
    """All methods are called on the loop.

    `say(server, user, line)`: where a line of a stdio server's standard error goes.
    """

    def __init__(
        self,
        say: Callable[[str, str, str], None],
        *,
        idle_s: float = IDLE_S,
        ping_after_s: float = PING_AFTER_S,
    ) -> None:
        self._say = say
        self._idle_s, self._ping_after_s = idle_s, ping_after_s
        self._kept: dict[str, McpConnection] = {}
        self._ending: set[asyncio.Task[None]] = set()
        self._failures: dict[str, tuple[int, float]] = {}
        self._closed = False

    async def perform(self, request: McpRequest) -> Any:
        """The result's text, or the tools as `list_tools` gives them. Raises MCPToolCallError."""
        try:
            async with asyncio.timeout(request.timeout_s - request.waited_s) as limit:
                return await self._perform_request(request)
        except MCPToolCallError:
            raise
        except Exception as error:
            what = f"tool {request.tool!r}" if request.tool else "the list of tools"
            reason = describe_error(error, request.server)
            if isinstance(error, TimeoutError) and limit.expired():
                reason = f"timed out after {request.timeout_s:g} seconds"
            raise MCPToolCallError(f"MCP server {request.server.name!r}, {what}: {reason}") from error

    async def aclose(self) -> None:
        """End every session, and with it the servers that were started for them."""
        self._closed = True
        for connection in self._kept.values():
            connection.stop()
        tasks = [*self._ending, *(connection.task for connection in self._kept.values())]
        if tasks:
            await asyncio.wait(tasks)

    async def _perform_request(self, request: McpRequest) -> Any:
        if request.tool is not None and not request.server.allows(request.tool):
            raise MCPToolCallError(
                f"MCP server {request.server.name!r}: tool {request.tool!r} is not in 'allowedTools'"
            )
        try:
            return await self._once(request)
        except NotSent:
            return await self._once(request)

    async def _once(self, request: McpRequest) -> Any:
        connection = await self._ready_connection(request)
        connection.calls += 1
        try:
            outcome = await self._ask_connection(connection, request)
            self._failures.pop(request.key, None)
            return outcome
        except NotSent:
            connection.stop()
            raise
        finally:
            connection.calls -= 1
            self._rest(connection)

    async def _ask_connection(self, connection: McpConnection, request: McpRequest) -> Any:
        if request.private:
            connection.serve_a_private_request()
        if request.tool is None:
            return _tools_by_name(
                [tool for tool in await connection.tools() if request.server.allows(tool.name)]
            )
        try:
            result = await connection.call(request.tool, dict(request.arguments))
        except MCPError as error:
            reason = describe_error(error, request.server)
            raise await self._failure(connection, request, reason) from error
        text = flatten_result(result, brief_media=request.brief_media)
        if result.is_error:
            raise await self._failure(connection, request, text or "the tool did not give a reason")
        return _cut_text(text, request.server.max_result_bytes)

    async def _failure(self, connection: McpConnection, request: McpRequest, reason: str) -> MCPToolCallError:
        if connection.has_ended:
            faults = await connection.last_words()
        else:
            faults = await _faults(connection, request)
        return MCPToolCallError(
            f"MCP server {request.server.name!r}, tool {request.tool!r}: {reason}{faults}"
        )

    async def _ready_connection(self, request: McpRequest) -> McpConnection:
        """A session that is ready. Raises MCPToolCallError."""
        key, loop = request.key, asyncio.get_running_loop()
        while True:
            connection = self._kept.get(key)
            if connection is None or connection.has_ended:
                not_before = self._failures.get(key, (0, 0.0))[1]
                if (pause := not_before - loop.time()) > 0:
                    await asyncio.sleep(pause)
                    continue
                connection = self._open_connection(request)
            elif await self._is_dead(connection, request.timeout_s / 2):
                connection.stop()
                continue
            await connection.ready()
            return connection

    async def _is_dead(self, connection: McpConnection, limit_s: float) -> bool:
        """Whether a session that was idle for a while, or left a call without answer, answers nothing."""
        idle_s = asyncio.get_running_loop().time() - connection.last_used
        is_doubtful = connection.is_doubtful or idle_s > self._ping_after_s
        return not connection.calls and is_doubtful and not await connection.answers(limit_s)

    def _open_connection(self, request: McpRequest) -> McpConnection:
        if self._closed:
            raise MCPToolCallError("the server is stopping")
        key = request.key

        def note_end(connection: McpConnection, on_purpose: bool) -> None:
            self._ending.discard(connection.task)
            if self._kept.get(key) is connection:
                del self._kept[key]
            if not on_purpose:
                count = self._failures.get(key, (0, 0.0))[0] + 1
                pause = PAUSES_S[min(count, len(PAUSES_S)) - 1]
                self._failures[key] = (count, asyncio.get_running_loop().time() + pause)

        connection = McpConnection(
            request.server, note_end, partial(self._say, request.server.name, request.user)
        )
        if (old := self._kept.get(key)) is not None:
            self._ending.add(old.task)
        self._kept[key] = connection
        return connection

    def _rest(self, connection: McpConnection) -> None:
        """It may be closed when nothing has used it for a while."""
        loop = asyncio.get_running_loop()
        connection.last_used = loop.time()
        if connection.timer is not None:
            connection.timer.cancel()
        connection.timer = loop.call_later(self._idle_s, _stop_if_idle, connection)


def _stop_if_idle(connection: McpConnection) -> None:
    if not connection.calls:
        connection.stop()


def _cut_text(text: str, limit: int | None) -> str:
    data = text.encode("utf-8", "surrogatepass")
    if limit is None or len(data) <= limit:
        return text
    return data[:limit].decode("utf-8", "ignore") + CUT


def _tools_by_name(tools: list[Any]) -> dict[str, Any]:
    return {
        tool.name: {
            "llm_schema": {
                "type": "function",
                "name": tool.name,
                "description": tool.description or f"Execute {tool.name}",
                "parameters": tool.input_schema or {"type": "object", "properties": {}},
            }
        }
        for tool in tools
        if tool.name
    }


async def _faults(connection: McpConnection, request: McpRequest) -> str:
    """What of the arguments does not fit the tool's own schema, for the message of a call that failed.

    A server that does not give its tools must not hide why the call failed.
    """
    try:
        async with asyncio.timeout(FAULTS_S):
            tools = await connection.tools()
    except (MCPError, NotSent, TimeoutError, ValueError):
        return ""
    schema = next((tool.input_schema for tool in tools if tool.name == request.tool), None)
    if schema is None:
        return f"\nThe server's tools: {', '.join(sorted(tool.name for tool in tools)[:MOST_TOOLS])}"
    return faults_of(request.arguments, schema)
