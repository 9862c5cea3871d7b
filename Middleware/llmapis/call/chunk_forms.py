"""Standard dicts looked at and made from each other. Pure."""

from __future__ import annotations

from typing import Any, cast

from Middleware.common.types import Chunk, JsonObject
from Middleware.llmapis.llm_text import LlmText

_CONTENT = ("thinking", "tool_calls", "refusal")
_FACTS = ("native_finish_reason", "thinking", "usage", "model", "refusal", "cut_call")


def is_visible(chunk: Chunk) -> bool:
    """Whether it says anything of the answer: text, a thought, a call."""
    return bool(chunk["token"]) or "thinking" in chunk or "tool_calls" in chunk


def is_more_than_space(chunk: Chunk) -> bool:
    """Whether it says anything of the answer but white space."""
    return bool(chunk["token"].strip() or chunk.get("thinking") or chunk.get("tool_calls"))


def content_taken_out(pending: Chunk) -> Chunk:
    """Take the content out of a finishing dict, because more content came behind it."""
    content: dict[str, Any] = {"token": pending["token"], "finish_reason": None}
    for key in _CONTENT:
        if key in pending:
            content[key] = cast(dict[str, Any], pending).pop(key)
    pending["token"] = ""
    return cast(Chunk, content)


def set_split(chunk: Chunk, thinking: str, text: str) -> None:
    """Text and the rest of a thought that were held until the end, put into the finishing dict."""
    chunk["token"] = text
    if thinking:
        chunk["thinking"] = chunk.get("thinking", "") + thinking


def one_chunk(answer: LlmText | JsonObject) -> Chunk:
    """A whole answer as the only dict of a stream."""
    if isinstance(answer, dict):
        chunk: dict[str, Any] = {"token": answer["content"], **answer}
        del chunk["content"]
        chunk["tool_calls"] = [{"index": at, **call} for at, call in enumerate(answer["tool_calls"])]
        return cast(Chunk, chunk)
    chunk = {"token": str(answer), "finish_reason": answer.finish_reason or "stop"}
    chunk.update((key, getattr(answer, key)) for key in _FACTS if getattr(answer, key))
    return cast(Chunk, chunk)
