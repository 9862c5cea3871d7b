"""A call that gave an answer, added to what its request took. Source: spec more-fronts.md 9."""

from __future__ import annotations

from collections.abc import Callable

from Middleware.common.request_context import RequestContext
from Middleware.common.types import JsonObject
from Middleware.llmapis.llm_text import LlmText
from Middleware.services.answers import full_usage


def count_call(
    request: RequestContext, result: LlmText | JsonObject, prompt_tokens: Callable[[], int] | None
) -> None:
    """`result`: a whole answer, or a dict with `content` and `tool_calls`. `prompt_tokens()`: the estimate
    that stands in for a number that the backend did not report.
    """
    if isinstance(result, dict):
        facts, text = result, result.get("content")
    else:
        facts, text = getattr(result, "__dict__", {}), result

    def written_text() -> str:
        return f"{facts.get('thinking') or ''}{text or ''}"

    request.usage.add(full_usage(facts.get("usage"), written_text, prompt_tokens))
