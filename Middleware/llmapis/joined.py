"""A stream as one whole answer. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from Middleware.common.types import Batch, JsonObject
from Middleware.llmapis.backend_errors import told_error
from Middleware.llmapis.llm_text import LlmText
from Middleware.services.answers import ToolCallCollector

_FACTS = ("native_finish_reason", "usage", "model")


def joined(endpoint: str, batches: Iterable[Batch]) -> LlmText | JsonObject:
    """The same value as a call without streaming gives. Raises BackendError for a stream that ends in an
    error.

    A stream without a finishing dict was cancelled: the empty text.
    """
    texts: list[str] = []
    thoughts: list[str] = []
    calls = ToolCallCollector()
    facts: dict[str, Any] = {}
    finish = None
    for batch in batches:
        for chunk in batch:
            texts.append(chunk["token"])
            thoughts.append(chunk.get("thinking", ""))
            calls.add(chunk.get("tool_calls", ()))
            facts.update((key, chunk.get(key)) for key in _FACTS if key in chunk)
            if chunk.get("refusal"):
                facts["refusal"] = True
            finish = chunk["finish_reason"] or finish
            if "error" in chunk:
                raise told_error(endpoint, chunk["error"])
    if finish is None:
        return LlmText("")
    text, thinking = "".join(texts), "".join(thoughts)
    whole_calls = calls.complete(finish)
    if not whole_calls:
        return LlmText(text, finish_reason=finish, thinking=thinking, cut_call=bool(calls), **facts)
    extras = {"thinking": thinking} if thinking else {}
    return {"content": text, "tool_calls": whole_calls, "finish_reason": finish, **extras, **facts}
