"""The tools of an Agent: what `agentTools` names, as values that can be listed, described and called.

Gathered once a run of the node. Knows no loop and no model. What a tool gives is data: it is masked here and
never filled, never logged. Source: spec agents.md 2.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from Middleware.workflows.models.execution_context import ExecutionContext


class ToolFailed(Exception):
    """A call of a tool failed. The text is a sentence for the model, without secrets and without `error: `."""

    is_timeout = False


class ToolTimedOut(ToolFailed):
    """A call of a tool took longer than its limit."""

    is_timeout = True


@dataclass(frozen=True, slots=True)
class AgentTool:
    """One tool, as the model is offered it.

    `parameters`: JSON Schema of an object. `kind`: `mcp`, `http`, `script`, `workflow`, `memory` or `client`.
    `timeout_s`: what `call` keeps by itself, from when the call is sent. `call(arguments)`: the result as text
    (secrets masked, not cut); raises ToolFailed, RequestCancelled. None: a client's own tool. `server`: of an
    MCP tool. `place`: what a trace shows beside the name.
    """

    name: str
    description: str
    parameters: dict[str, Any] = field(repr=False)
    kind: str
    timeout_s: float | None = None
    call: Callable[[dict[str, Any]], str] | None = field(default=None, repr=False)
    server: str = ""
    place: str = ""


def gather_tools(context: ExecutionContext) -> list[AgentTool]:
    """The tools of the node, in the order of `agentTools`, then the client's own where `allowTools` is on.

    Raises ConfigError for an entry that leads nowhere, for two tools of one name and for a name that does not
    fit; WorkflowError where `onToolError` is `raise` and no tool is left.
    """
    raise NotImplementedError
