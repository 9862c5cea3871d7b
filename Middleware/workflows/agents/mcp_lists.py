"""What MCP servers offer an Agent: their lists are asked for side by side, and a server that is dead is left
alone for a while.

Source: spec agents.md 2.
"""

from __future__ import annotations

import contextvars
import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from Middleware.config.named_files import load_mcp_server
from Middleware.workflows.models.execution_context import ExecutionContext
from Middleware.workflows.tools.mcp_client_tool import MCPClient, MCPToolCallError
from Middleware.workflows.tools.mcp_request import McpRequest, read_server

LIST_S = 10.0
"""How long a server has to say what it offers."""
DEAD_S = 30.0
"""How long a server that did not is not asked again."""


class DeadServers:
    """Servers that gave no list, by what their session is known by, for `DEAD_S`. Called from any thread."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock, self._guard = clock, threading.Lock()
        self._until: dict[str, float] = {}

    def is_dead(self, key: str) -> bool:
        return self._until.get(key, 0.0) > self._clock()

    def note(self, key: str) -> None:
        with self._guard:
            now = self._clock()
            self._until = {k: until for k, until in self._until.items() if until > now}
            self._until[key] = now + DEAD_S

    def clear(self) -> None:
        with self._guard:
            self._until.clear()


dead_servers = DeadServers()
"""Those of this process."""


def list_servers(context: ExecutionContext, names: Iterable[str]) -> dict[str, list[dict[str, Any]]]:
    """Server -> its tools, each `{"name", "description", "parameters"}`; a server without a list has none.

    Raises ConfigError for a server whose file is not there or has faults, RequestCancelled.
    """
    wanted = list(dict.fromkeys(names))
    for name in wanted:
        load_mcp_server(context.snapshot, name)
    if len(wanted) < 2:
        return {name: _list_of(context, name) for name in wanted}
    with ThreadPoolExecutor(len(wanted), "mcp-lists") as pool:
        asked = [pool.submit(contextvars.copy_context().run, _list_of, context, name) for name in wanted]
        return {name: future.result() for name, future in zip(wanted, asked, strict=True)}


def _list_of(context: ExecutionContext, name: str) -> list[dict[str, Any]]:
    """What one server offers, empty when it does not say."""
    missing = f"the tools of MCP server {name!r} are missing"
    try:
        key = McpRequest(read_server(context.snapshot, name), context.request.user, None).key
    except MCPToolCallError as error:
        context.warn(f"{missing}: {error}")
        return []
    if dead_servers.is_dead(key):
        context.warn(f"{missing}: it did not answer a moment ago")
        return []
    try:
        offered = MCPClient(context.place).list_tools(name, LIST_S)
    except MCPToolCallError as error:
        context.warn(f"{missing}: {error}")
        dead_servers.note(key)
        return []
    return [tool["llm_schema"] for tool in offered.values()]
