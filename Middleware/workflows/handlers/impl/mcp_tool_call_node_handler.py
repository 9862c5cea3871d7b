"""MCPToolCall: the result of one tool of an MCP server. Calls no model. Source: spec tools.md 5 and 11.5."""

from __future__ import annotations

import math
from typing import Any, ClassVar

from Middleware.common.errors import ConfigError
from Middleware.common.types import NodeConfig
from Middleware.config.keys import NOTHING, Shape
from Middleware.services.run_trace import json_text, outside_call
from Middleware.workflows.handlers.base.base_workflow_node_handler import WorkflowNodeHandler
from Middleware.workflows.handlers.base.outside_fields import fill_values
from Middleware.workflows.handlers.node_types import NODES
from Middleware.workflows.models.execution_context import ExecutionContext, NodeResult
from Middleware.workflows.models.node_keys import ANY, MAX_SECONDS, NEEDED_TEXT, Keys, one_of, read_filled
from Middleware.workflows.tools.mcp_client_tool import MCPClient, MCPToolCallError


def _read_seconds(value: Any) -> float:
    """Raises ConfigError for what is no number above 0."""
    try:
        seconds = math.nan if isinstance(value, bool) else float(value)
    except ValueError:
        seconds = math.nan
    if not 0 < seconds < math.inf:
        raise ConfigError(f"'timeout' is {value!r}; it must be a number of seconds above 0")
    return min(seconds, MAX_SECONDS)


_TIMEOUT: Shape = {
    "type": ["number", "string"],
    "exclusiveMinimum": 0,
    "pattern": r"^\s*\+?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?\s*$",
}


@NODES.register("MCPToolCall")
class MCPToolCallNode(WorkflowNodeHandler):
    """Calls the tool `tool` of the MCP server `server`, and outputs its answer as text."""

    PALETTE = "tools"

    KEYS: ClassVar[Keys] = {
        "server": NEEDED_TEXT(
            "The server, which is the name of a file in MCPServers without `.json`. Takes variables.",
            form="names:mcp_servers",
        ),
        "tool": NEEDED_TEXT("The name of the tool. Takes variables."),
        "arguments": ANY(
            "Its arguments. Strings in it take variables, at any depth.",
            must={"type": "object"},
            empty=NOTHING,
            read=read_filled,
        ),
        "timeout": ANY(
            "How many seconds the whole call can take: connecting, the handshake and the call.",
            must=_TIMEOUT,
            default=30,
            offered=True,
            read=_read_seconds,
        ),
        "onError": one_of("raise", "return")(
            "With `raise`, a failed call fails the node. With `return`, the output is the error message.",
            default="raise",
            offered=True,
        ),
    }
    MCP_SERVER_FIELD = "server"

    def handle(self, context: ExecutionContext) -> NodeResult:
        timeout_s, authored = context.value("timeout"), context.value("server")
        arguments = fill_values(context.value("arguments"), context.fill)
        server, tool = context.fill(authored), context.fill(context.value("tool"))
        try:
            whole, body = f"{server}: {tool}", json_text(arguments).encode("utf-8", "replace")
            with outside_call(context.trace, "mcp", authored, place=whole, body=body) as call:
                text = MCPClient(context.place).call_tool(server, tool, arguments, timeout_s)
                call.note_answer(text)
                return text
        except MCPToolCallError as error:
            if context.value("onError") == "return":
                return str(error)
            raise

    def writes(self, config: NodeConfig) -> str:
        return "calls a tool of an MCP server"

    def dry_notes(self, context: ExecutionContext) -> list[str]:
        server, tool = context.fill(context.value("server")), context.fill(context.value("tool"))
        return [f"would call the tool {tool!r} of the MCP server {server!r}"]
