"""Tools for a model that cannot call them: described in its prompt, called by a JSON object in its reply.

Pure. Source: spec agents.md 4, `json`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from Middleware.workflows.agents.text_calls import TextCall
from Middleware.workflows.agents.tools import AgentTool


@dataclass(frozen=True, slots=True)
class JsonReply:
    """What a reply came to. `rest`: text that was held and may be shown now.

    `call`: None without one. `is_null`: the model wants no tool (the last call follows). Neither: the reply
    was the answer.
    """

    rest: str = ""
    call: TextCall | None = None
    is_null: bool = False


def describe_tools(tools: Sequence[AgentTool]) -> str:
    """What stands at the end of the system prompt."""
    raise NotImplementedError


def reply_schema(tools: Sequence[AgentTool]) -> dict[str, Any]:
    """JSON Schema of a step's reply: a call of one of the tools, or `{"tool": null}`."""
    raise NotImplementedError


def result_turn(name: str, result: str) -> str:
    """The text of the user's message that gives a result."""
    raise NotImplementedError


def results_prompt(results: Sequence[tuple[str, str]], question: str) -> str:
    """The text of the newest user message in the last call: each result (name, text), then the question."""
    raise NotImplementedError


class JsonReplyReader:
    """Reads one reply as it comes; any cut of it gives the same."""

    def feed(self, text: str) -> str:
        """What of the text so far may be shown now."""
        raise NotImplementedError

    def finish(self) -> JsonReply:
        """What the reply came to."""
        raise NotImplementedError
