"""A node's result as the text of an answer."""

from __future__ import annotations

import pytest

from Middleware.workflows.models.execution_context import is_tool_call_answer, result_text

CALL = {"content": "said", "tool_calls": [{}], "finish_reason": "tool_calls"}


@pytest.mark.parametrize(
    ("result", "text"),
    [
        (None, ""),
        ("a", "a"),
        (5, "5"),
        (CALL, "said"),
        ({**CALL, "content": None}, ""),
        ({"a": 1}, "{'a': 1}"),
    ],
)
def test_text(result, text):
    """Null is nothing, a tool call its content, other values their Python text."""
    assert result_text(result) == text


@pytest.mark.parametrize(("result", "is_call"), [(CALL, True), ({"tool_calls": None}, False), ("x", False)])
def test_tool_call_answers(result, is_call):
    """A dict with a list of calls."""
    assert is_tool_call_answer(result) is is_call
