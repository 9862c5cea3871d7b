"""What one call adds to the sum of its request (more-fronts.md 9)."""

from __future__ import annotations

import pytest

from Middleware.common.request_context import RequestContext
from Middleware.llmapis.llm_text import LlmText, count_call

REPORTED = {"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120}
CALL = {"content": "Hello", "thinking": "world", "tool_calls": [], "finish_reason": "tool_calls"}


@pytest.mark.parametrize(
    ("result", "prompt", "completion"),
    [
        (LlmText("Hi", usage=REPORTED), 100, 20),
        (LlmText("Hello world"), 40, 3),
        (LlmText("Hello ", thinking="world"), 40, 3),
        (LlmText("", usage={"prompt_tokens": 7}), 7, 0),
        ({**CALL, "usage": REPORTED}, 100, 20),
        (CALL, 40, 3),
        ({**CALL, "content": None, "thinking": ""}, 40, 0),
    ],
    ids=["reported", "estimated", "thoughts-count", "half", "tool-call", "tool-call-estimated", "no-text"],
)
def test_a_call(result, prompt, completion):
    """The backend's numbers, estimates in place of those that it did not give."""
    request = RequestContext("r1", "mira", "openaichatcompletion")
    count_call(request, result, lambda: 40)
    assert request.usage.numbers() == {"prompt_tokens": prompt, "completion_tokens": completion, "calls": 1}
