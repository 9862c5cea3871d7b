"""The text of a whole answer, with the facts that came beside it."""

from __future__ import annotations

from typing import TypeVar

from Middleware.common.types import JsonObject
from Middleware.services.run_trace import TracedNode


class LlmText(str):
    """A `str` that also knows how the answer ended. It equals, hashes and prints as the plain text.

    `usage`: `{"prompt_tokens", "completion_tokens", "total_tokens", ...}` or None. Source: spec backends.md
    10. `cut_call`: the model called a tool, and the end of the answer cut the call."""

    finish_reason: str | None
    native_finish_reason: str | None
    thinking: str
    usage: JsonObject | None
    model: str | None
    refusal: bool
    cut_call: bool

    def __new__(
        cls,
        text: str = "",
        *,
        finish_reason: str | None = None,
        native_finish_reason: str | None = None,
        thinking: str = "",
        usage: JsonObject | None = None,
        model: str | None = None,
        refusal: bool = False,
        cut_call: bool = False,
    ) -> LlmText:
        made = super().__new__(cls, text)
        made.finish_reason, made.native_finish_reason = finish_reason, native_finish_reason
        made.thinking, made.usage, made.model = thinking, usage, model
        made.refusal, made.cut_call = refusal, cut_call
        return made

    def told_apart(self, text: str, thinking: str) -> LlmText:
        """The same answer with another text and thought."""
        made = LlmText(text)
        vars(made).update(vars(self), thinking=thinking)
        return made


Answer = TypeVar("Answer", bound="LlmText | JsonObject")
"""A whole answer; with tool calls it is a dict with `content`."""


def came(trace: TracedNode | None, answer: Answer) -> Answer:
    """The answer, once those who observe the node that asked know it. `trace`: None: nobody does."""
    if trace is not None:
        facts = answer if isinstance(answer, dict) else vars(answer) if hasattr(answer, "__dict__") else {}
        text = answer.get("content") if isinstance(answer, dict) else answer
        trace.came(text or "", facts.get("thinking") or "")
    return answer
