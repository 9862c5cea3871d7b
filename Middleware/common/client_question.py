"""What a client asked, as one value: made at the edge and handed on as it is, down to the backend."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from Middleware.common.types import JsonObject, Messages


@dataclass(frozen=True, slots=True)
class ClientQuestion:
    """One question. `messages`: oldest first, shared by all runs of the request, never changed in place.
    `stream`: the client wants the answer piece by piece. `tools`, `tool_choice`: in OpenAI's form, None =
    not given. `discussion_id`: of the conversation; None = a tag in the messages may name it. `inputs`: item
    i is `agent<i>Input` of the workflow that answers.
    """

    messages: Messages = field(repr=False)
    stream: bool = False
    tools: list[JsonObject] | None = field(default=None, repr=False)
    tool_choice: Any = field(default=None, repr=False)
    discussion_id: str | None = None
    inputs: tuple[str, ...] = field(default=(), repr=False)

    def without_tools(self) -> ClientQuestion:
        """The same for a run that may call none."""
        return replace(self, tools=None, tool_choice=None)
