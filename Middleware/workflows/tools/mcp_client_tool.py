"""Tools of MCP servers, called from threads: by the node MCPToolCall and by users' scripts.

Scripts import `MCPClient` and `MCPToolCallError` from here. Calls wait in their own thread; the sessions live
elsewhere (`mcp_doors`). Source: spec tools.md 5.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from concurrent.futures import CancelledError, Future
from dataclasses import replace
from typing import Any

from Middleware.common.errors import RequestCancelled
from Middleware.common.instance_global_variables import launch_facts
from Middleware.common.request_context import current_request
from Middleware.config.loader import default_snapshot
from Middleware.services.cancellation_service import cancellation_service
from Middleware.workflows.tools.mcp_doors import door_soon
from Middleware.workflows.tools.mcp_request import McpRequest, MCPToolCallError, read_server
from Middleware.workflows.tools.web import log_outside_call

__all__ = ["MCPClient", "MCPToolCallError"]

GRACE_S = 15.0
"""How much longer than the call's own limit its thread waits: the limit is kept where the session is."""


class MCPClient:
    """For the current request's user; a request that is cancelled cancels its calls.

    `caller`: the node that log lines name. `brief_media`: pictures and other bytes of a result stand as
    `[image/png, 123 KB]`.
    """

    def __init__(self, caller: str = "", *, brief_media: bool = False) -> None:
        self._caller, self._brief_media = caller, brief_media

    def call_tool(
        self,
        server_name: str,
        tool_name: str,
        arguments: Mapping[str, Any] | None = None,
        timeout: float = 30.0,
    ) -> str:
        """The result as text. Raises MCPToolCallError, RequestCancelled."""
        if not isinstance(tool_name, str) or not tool_name.strip():
            raise MCPToolCallError(f"MCP server {server_name!r}: the name of the tool is empty")
        text: str = self._ask_server(server_name, tool_name, arguments or {}, timeout)
        return text

    def list_tools(self, server_name: str, timeout: float = 30.0) -> dict[str, Any]:
        """Tool name -> `{"llm_schema": {"type", "name", "description", "parameters"}}`."""
        tools: dict[str, Any] = self._ask_server(server_name, None, {}, timeout)
        return tools

    def _ask_server(
        self, server_name: str, tool: str | None, arguments: Mapping[str, Any], timeout: float
    ) -> Any:
        if not isinstance(server_name, str) or not server_name.strip():
            raise MCPToolCallError("the name of the MCP server is empty")
        request = current_request()
        user = request.user if request else ",".join(launch_facts().users)
        server = read_server(default_snapshot(), server_name)
        asked = _sendable(server_name, {"tool": tool, "arguments": dict(arguments)})
        private = request is None or request.privacy
        question = McpRequest(
            server,
            user,
            asked["tool"],
            asked["arguments"],
            timeout,
            private,
            brief_media=self._brief_media,
        )
        with log_outside_call("MCP", server_name, self._caller) as outcome:
            outcome.status = "failed"
            result = _wait_for_answer(question, request.request_id if request else "")
            outcome.status, outcome.length = "ok", len(result if isinstance(result, str) else "")
            return result


def _sendable(server_name: str, asked: dict[str, Any]) -> dict[str, Any]:
    """What is asked, as JSON can say it: halves of characters, which would end a session that all share, are
    replaced. Raises MCPToolCallError.
    """
    try:
        text = json.dumps(asked, ensure_ascii=False, allow_nan=False)
        sendable: dict[str, Any] = json.loads(text.encode("utf-8", "replace"))
    except (TypeError, ValueError, RecursionError) as error:
        raise MCPToolCallError(f"MCP server {server_name!r}: the arguments are not JSON: {error}") from error
    return sendable


def _wait_for_answer(request: McpRequest, request_id: str) -> Any:
    """The time limit counts from here, the first call's import of the package included."""
    begun = time.monotonic()
    opened = _result(request, request_id, door_soon(), request.timeout_s)
    late = replace(request, waited_s=time.monotonic() - begun)
    return _result(late, request_id, opened.submit(late), request.timeout_s - late.waited_s + GRACE_S)


def _result(request: McpRequest, request_id: str, future: Future[Any], limit_s: float) -> Any:
    cancellation_service.register_abort_callback(request_id, future.cancel)
    try:
        return future.result(limit_s)
    except CancelledError:
        if cancellation_service.is_cancelled(request_id):
            raise RequestCancelled from None
        raise MCPToolCallError(f"MCP server {request.server.name!r}: the server is stopping") from None
    except TimeoutError:
        future.cancel()
        raise MCPToolCallError(
            f"MCP server {request.server.name!r}: timed out after {request.timeout_s:g} seconds"
        ) from None
    finally:
        cancellation_service.unregister_abort_callback(request_id, future.cancel)
