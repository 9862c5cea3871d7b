"""What a node gives back to the loop."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeGuard

from Middleware.common.types import Batches, JsonObject

NodeValue: TypeAlias = str | JsonObject | list[Any] | int | float | None
"""What a node's output can be: text (also `LlmText`, `CleanText`), a tool-call answer, nothing, or another
JSON value (a script's)."""


@dataclass(frozen=True, slots=True)
class NodeStream:
    """A responder's answer that is still to be pulled.

    `cleaned`: made by the responder of a child run; passes through the calling node untouched, ends with one
    chunk that has a `finish_reason`, and goes on (ticks) while the rest of the child runs.
    `prompt_tokens()`: estimate of the prompt that was sent; None: no model was called.
    `running`: of a call whose numbers come at its end; whoever pulls it counts it then (the others are
    counted).
    `value()`: the child's value, from its finish chunk on (cleaned streams only).
    """

    batches: Batches
    cleaned: bool = False
    prompt_tokens: Callable[[], int] | None = None
    value: Callable[[], NodeValue] | None = None
    running: bool = False


NodeResult: TypeAlias = NodeValue | NodeStream
"""A value, or the answer of a responder that is still to be pulled."""


class CleanText(str):
    """A node's text that was cleaned already: the rules see it no second time (one that drops an answer
    without
    an end tag would drop it).
    """

    __slots__ = ()


def is_tool_call_answer(result: NodeResult) -> TypeGuard[JsonObject]:
    """Whether `result` is a tool-call answer (backends.md 10): `{"content", "tool_calls",
    "finish_reason"}`."""
    return isinstance(result, dict) and isinstance(result.get("tool_calls"), list)


def result_text(result: NodeResult) -> str:
    """The text of an answer: null is nothing, a tool call its content, other values their Python text."""
    if result is None:
        return ""
    if isinstance(result, str):
        return result
    if is_tool_call_answer(result):
        content = result.get("content")
        return content if isinstance(content, str) else ""
    return str(result)
