"""Text, reasoning, refusal and calls of an OpenAI delta or message, in every dialect that is spoken. Pure.

Source: spec backends.md 9.1, 12.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from Middleware.common.types import JsonObject
from Middleware.llmapis.dialects.event_mapping import finish_fields, text_of, whole_tool_calls
from Middleware.llmapis.llm_text import LlmText, Pieces, pieces_of
from Middleware.services.answers import finished_calls


def tool_calls_of(message: Mapping[str, Any]) -> list[JsonObject]:
    """The calls of a delta or message; an old `function_call` counts as the call with index 0."""
    calls = message.get("tool_calls")
    if isinstance(calls, list) and calls:
        return calls
    old = message.get("function_call")
    return [{"index": 0, "function": old}] if isinstance(old, dict) and old else []


def read_message(message: Mapping[str, Any]) -> tuple[str, str, bool]:
    """`(text, reasoning, refused)` of a delta or a whole message, in any dialect."""
    content = message.get("content")
    thinking = reasoning_of(message)
    if isinstance(content, list):
        token, extra = _split_parts(content)
        thinking += extra
    else:
        token = content if isinstance(content, str) else ""
    if token and _is_thought(message):
        token, thinking = "", thinking + token.replace("<thought>", "").replace("</thought>", "")
    refusal = message.get("refusal")
    if isinstance(refusal, str) and refusal and not token:
        return refusal, thinking, True
    return token, thinking, False


def pieces_in(message: Mapping[str, Any]) -> Pieces | None:
    """The order of text and thoughts in a whole message's content array; None: thoughts come first, or it is
    no array."""
    content = message.get("content")
    if not isinstance(content, list) or _is_thought(message):
        return None
    return pieces_of([(reasoning_of(message), ""), *(_split_parts([part])[::-1] for part in content)])


def reasoning_of(message: Mapping[str, Any]) -> str:
    """The reasoning that stands in a field of its own; the first name that has any is used."""
    for name in ("reasoning_content", "reasoning"):
        value = message.get(name)
        if isinstance(value, str) and value:
            return value
    details = message.get("reasoning_details")
    if isinstance(details, list) and (text := _text_of_details(details)):
        return text
    value = message.get("thinking")
    return value if isinstance(value, str) else ""


def _text_of_details(details: list[Any]) -> str:
    """OpenRouter's `reasoning_details`: texts and summaries; encrypted details give nothing."""
    texts = (
        part.get("text") or part.get("summary")
        for part in details
        if isinstance(part, dict) and part.get("type") != "reasoning.encrypted"
    )
    return "".join(text for text in texts if isinstance(text, str))


def _split_parts(parts: list[Any]) -> tuple[str, str]:
    """Mistral's content array: `(text, thinking)`."""
    token, thinking = "", ""
    for part in parts:
        if not isinstance(part, dict):
            continue
        if part.get("type") == "thinking":
            thoughts = part.get("thinking")
            thinking += thoughts if isinstance(thoughts, str) else _split_parts(thoughts or [])[0]
        elif isinstance(part.get("text"), str):
            token += part["text"]
    return token, thinking


def _is_thought(message: Mapping[str, Any]) -> bool:
    """Gemini's mark on a chunk whose content is reasoning."""
    extra = message.get("extra_content")
    google = extra.get("google") if isinstance(extra, dict) else None
    return isinstance(google, dict) and google.get("thought") is True


# --------------------------------------------------------------------------
# The two forms of a whole answer: a text that knows how it ended, or a dict with tool calls. Pure.


def answer_form(
    content: str,
    *,
    thinking: str = "",
    tool_calls: Any = None,
    finish: Any = None,
    facts: JsonObject | None = None,
) -> LlmText | JsonObject:
    """The result for a whole body. `finish`: the backend's word; null = `stop`, or `tool_calls` with calls.

    `facts`: `usage`, `model`, `refusal`, `native_finish_reason`, `cut_call`, `cut_calls`, `beside`, `pieces`,
    as far as they are known. Of calls that the end of the answer cut none may be left: then the text knows it
    (`cut_call`).
    """
    told = {key: value for key, value in (facts or {}).items() if value}
    if not text_of(told.get("model")):
        told.pop("model", None)
    ending = finish_fields(finish)
    native = told.pop("native_finish_reason", None) or ending.get("native_finish_reason")
    calls = whole_tool_calls(tool_calls) if isinstance(tool_calls, list) else []
    reason = ending["finish_reason"] or ("tool_calls" if calls else "stop")
    called = told.pop("cut_call", False) or bool(calls)
    came, calls = calls, finished_calls(calls, reason)
    if cut := [call for call in came if call not in calls]:
        told["cut_calls"] = [*cut, *told.get("cut_calls", ())]
    if native and native != reason:
        told["native_finish_reason"] = native
    if not calls:
        return LlmText(content, finish_reason=reason, thinking=thinking, cut_call=called, **told)
    if thinking:
        told["thinking"] = thinking
    return {"content": content, "tool_calls": calls, "finish_reason": reason, **told}
