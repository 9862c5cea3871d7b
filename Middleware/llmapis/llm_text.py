"""The text of a whole answer, with the facts that came beside it."""

from __future__ import annotations

from Middleware.common.types import JsonObject


class LlmText(str):
    """A `str` that also knows how the answer ended. It equals, hashes and prints as the plain text.

    `usage`: `{"prompt_tokens", "completion_tokens", "total_tokens", ...}` or None. Source: spec backends.md
    10."""

    finish_reason: str | None
    native_finish_reason: str | None
    thinking: str
    usage: JsonObject | None
    model: str | None
    refusal: bool

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
    ) -> LlmText:
        made = super().__new__(cls, text)
        made.finish_reason, made.native_finish_reason = finish_reason, native_finish_reason
        made.thinking, made.usage, made.model, made.refusal = thinking, usage, model, refusal
        return made

    def told_apart(self, text: str, thinking: str) -> LlmText:
        """The same answer with another text and thought."""
        made = LlmText(text)
        vars(made).update(vars(self), thinking=thinking)
        return made
