"""What a model's call of a tool means, what its result may hold, and when it is one repeat too many.

Pure: calls nothing, logs nothing. Source: spec agents.md 1, 3.5, 3.6 and 3.9.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from Middleware.workflows.agents.tools import AgentTool


@dataclass(frozen=True, slots=True)
class ReadCall:
    """A call that can be made. `name`, `arguments_text`: as they go into the assistant's turn."""

    tool: AgentTool
    arguments: dict[str, Any]
    name: str
    arguments_text: str


@dataclass(frozen=True, slots=True)
class RefusedCall:
    """A call that is not made. `sentence`: its result, with `error: ` in front."""

    sentence: str
    name: str
    arguments_text: str


def read_call(
    tools: Sequence[AgentTool], name: str, arguments: str, *, cut_off_at: int | None = None
) -> ReadCall | RefusedCall:
    """The call that a model means. `arguments`: JSON text as the model wrote it.

    `cut_off_at`: the limit in tokens, of the last call of an answer whose finish reason is `length`.
    """
    raise NotImplementedError


def cut_result(text: str, max_tokens: int) -> str:
    """`text`, or its first three quarters and last quarter when its estimate is over `max_tokens`."""
    raise NotImplementedError


class Repeats:
    """The calls that a loop has made. Not for several threads at once."""

    def refusal(self, name: str, arguments: Mapping[str, Any]) -> str | None:
        """The result that stands for a call which would only repeat itself; None: it may be made."""
        raise NotImplementedError

    def note(self, name: str, arguments: Mapping[str, Any], result: str) -> None:
        """A call was made and gave `result` (failures too), in the order of the calls."""
        raise NotImplementedError


def fit_results(steps: Sequence[Sequence[str]], other_tokens: int, budget: int) -> list[list[str]] | None:
    """The results of all steps, oldest first, so that they fit; None: they do, nothing changes.

    `other_tokens`: estimate of the prompt without results.
    """
    raise NotImplementedError
