"""AgentTool: one tool of an Agent as a value, and how a call of it fails."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any


class ToolFailed(Exception):
    """A call of a tool failed. The text is a sentence for the model: no secrets, no `error: ` in front."""

    is_timeout = False


class ToolTimedOut(ToolFailed):
    """A call of a tool took longer than its limit."""

    is_timeout = True


@dataclass(frozen=True, slots=True)
class AgentTool:
    """One tool, as the model is offered it.

    `parameters`: JSON Schema of an object. `kind`: `mcp`, `http`, `script`, `workflow`, `memory` or `client`.
    `timeout_s`: seconds that `call` takes at most, from when it is sent; it keeps to them by itself.
    `call(arguments)`: the result as text (secrets masked, not cut); raises ToolFailed, RequestCancelled. It
    tells no trace of itself. None: a client's own tool. `server`: of an MCP tool. `place`: what a trace shows
    beside the name (`files: read_file`, the script's path). `max_tokens`: the limit of its result; None: the
    node's.
    """

    name: str
    description: str
    parameters: dict[str, Any] = field(repr=False)
    kind: str
    timeout_s: float | None = None
    call: Callable[[dict[str, Any]], str] | None = field(default=None, repr=False)
    server: str = ""
    place: str = ""
    max_tokens: int | None = None
