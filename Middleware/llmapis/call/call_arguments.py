"""The arguments of one call to a backend, as one value."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from Middleware.common.types import JsonObject, Messages
from Middleware.services.run_trace import TracedNode


@dataclass(frozen=True, slots=True)
class CallArguments:
    """What is asked. `conversation` for backends that take messages; `system_prompt` and `prompt` are the
    formatted parts for flat ones (or a conversation's substitute). `request_id`: whose cancellation ends the
    call. `parallel_tool_calls`: whether the model may call several tools at once; None: as it likes.
    `trace`: the node that calls, None: nobody observes. `backup_of`: the endpoint that failed before.
    `asks_again`: an answer that is no good is asked for once more; False: the caller does so itself.
    """

    conversation: Messages | None = None
    system_prompt: str | None = None
    prompt: str | None = None
    tools: list[JsonObject] | None = None
    tool_choice: Any = None
    schema: JsonObject | None = None
    request_id: str | None = None
    parallel_tool_calls: bool | None = None
    trace: TracedNode | None = field(default=None, repr=False, compare=False)
    backup_of: str = ""
    asks_again: bool = True
