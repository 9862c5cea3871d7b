"""MCPToolCall: the result of one tool of an MCP server. Calls no model. Source: spec tools.md 5 and 11.5."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, ClassVar

from Middleware.common.errors import ConfigError
from Middleware.services.run_trace import json_text, outside_call
from Middleware.workflows.handlers.base.base_workflow_node_handler import Schema, WorkflowNodeHandler
from Middleware.workflows.handlers.base.outside_fields import fill_values, place
from Middleware.workflows.handlers.node_types import NODES
from Middleware.workflows.models.execution_context import ExecutionContext, NodeResult
from Middleware.workflows.tools.mcp_client_tool import MCPClient, MCPToolCallError

DEFAULT_TIMEOUT_S = 30.0


@NODES.register("MCPToolCall")
class MCPToolCallNode(WorkflowNodeHandler):
    """Calls the tool `tool` of the MCP server `server`, and outputs its answer as text."""

    FIELDS: ClassVar[Mapping[str, str]] = {
        "server": "The server, which is the name of a file in MCPServers without `.json`. Takes variables.",
        "tool": "The name of the tool. Takes variables.",
        "arguments": "Its arguments. Strings in it take variables, at any depth.",
        "timeout": "How many seconds the whole call can take: connecting, the handshake and the call.",
        "onError": "With `raise`, a failed call fails the node. With `return`, the output is the error "
        "message.",
    }
    SCHEMA: ClassVar[Schema] = {
        "properties": {
            "server": {"type": "string", "minLength": 1},
            "tool": {"type": "string", "minLength": 1},
            "arguments": {"type": "object"},
            "timeout": {
                "type": ["number", "string"],
                "exclusiveMinimum": 0,
                "pattern": r"^\s*\+?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?\s*$",
                "default": 30,
            },
            "onError": {"enum": ["raise", "return"], "default": "raise"},
        },
        "required": ["server", "tool"],
    }
    MCP_SERVER_FIELD = "server"

    def handle(self, context: ExecutionContext) -> NodeResult:
        config = context.config
        timeout_s = _seconds(config.get("timeout"))
        arguments = fill_values(config.get("arguments") or {}, context.fill)
        server, tool = context.fill(config["server"]), context.fill(config["tool"])
        try:
            whole, body = f"{server}: {tool}", json_text(arguments).encode("utf-8", "replace")
            with outside_call(context.trace, "mcp", config["server"], place=whole, body=body) as call:
                text = MCPClient(place(context)).call_tool(server, tool, arguments, timeout_s)
                call.note_answer(text)
                return text
        except MCPToolCallError as error:
            if config.get("onError") == "return":
                return str(error)
            raise

    def dry_notes(self, context: ExecutionContext) -> list[str]:
        server, tool = context.fill(context.config["server"]), context.fill(context.config["tool"])
        return [f"would call the tool {tool!r} of the MCP server {server!r}"]


def _seconds(value: Any) -> float:
    """Raises ConfigError for what is no number above 0."""
    if value is None:
        return DEFAULT_TIMEOUT_S
    try:
        seconds = math.nan if isinstance(value, bool) else float(value)
    except ValueError:
        seconds = math.nan
    if not 0 < seconds < math.inf:
        raise ConfigError(f"'timeout' is {value!r}; it must be a number of seconds above 0")
    return seconds
