"""The two forms of a whole answer: a text that knows how it ended, or a dict with tool calls. Pure."""

from __future__ import annotations

from typing import Any

from Middleware.common.types import JsonObject
from Middleware.llmapis.dialects.event_mapping import finish_fields, text_of, whole_tool_calls
from Middleware.llmapis.llm_text import LlmText
from Middleware.services.answers import finished_calls


def answer_form(
    content: str,
    *,
    thinking: str = "",
    tool_calls: Any = None,
    finish: Any = None,
    facts: JsonObject | None = None,
) -> LlmText | JsonObject:
    """The result for a whole body. `finish`: the backend's word; null = `stop`, or `tool_calls` with calls.

    `facts`: `usage`, `model`, `refusal`, `native_finish_reason`, `cut_call`, as far as they are known. Of
    calls that the end of the answer cut none may be left: then the text knows it (`cut_call`).
    """
    told = {key: value for key, value in (facts or {}).items() if value}
    if not text_of(told.get("model")):
        told.pop("model", None)
    ending = finish_fields(finish)
    native = told.pop("native_finish_reason", None) or ending.get("native_finish_reason")
    calls = whole_tool_calls(tool_calls) if isinstance(tool_calls, list) else []
    reason = ending["finish_reason"] or ("tool_calls" if calls else "stop")
    called = told.pop("cut_call", False) or bool(calls)
    calls = finished_calls(calls, reason)
    if native and native != reason:
        told["native_finish_reason"] = native
    if not calls:
        return LlmText(content, finish_reason=reason, thinking=thinking, cut_call=called, **told)
    if thinking:
        told["thinking"] = thinking
    return {"content": content, "tool_calls": calls, "finish_reason": reason, **told}
