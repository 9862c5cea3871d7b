"""Every dialect of an OpenAI delta gives text, reasoning, refusal and calls."""

from __future__ import annotations

import pytest

from Middleware.llmapis.dialects.openai_messages import read_message, reasoning_of, tool_calls_of


@pytest.mark.parametrize(
    ("delta", "read"),
    [
        pytest.param({"content": "a"}, ("a", "", False), id="text"),
        pytest.param({"content": None, "role": "assistant"}, ("", "", False), id="null"),
        pytest.param({"content": 5}, ("", "", False), id="no-text"),
        pytest.param({"content": "a", "reasoning_content": "r"}, ("a", "r", False), id="both"),
        pytest.param({"refusal": "no"}, ("no", "", True), id="refusal"),
        pytest.param({"content": "a", "refusal": None}, ("a", "", False), id="no-refusal"),
        pytest.param(
            {
                "content": [
                    {"type": "thinking", "thinking": [{"type": "text", "text": "t"}]},
                    {"type": "thinking", "thinking": "u"},
                    {"type": "thinking", "thinking": None},
                    {"type": "text", "text": "a"},
                    {"type": "reference"},
                    "junk",
                ]
            },
            ("a", "tu", False),
            id="mistral-parts",
        ),
        pytest.param(
            {"content": "<thought>t</thought>", "extra_content": {"google": {"thought": True}}},
            ("", "t", False),
            id="gemini-thought",
        ),
        pytest.param({"content": "a", "extra_content": {"google": {}}}, ("a", "", False), id="gemini-text"),
        pytest.param({"content": "a", "extra_content": "x"}, ("a", "", False), id="other-extra"),
    ],
)
def test_read(delta, read):
    """`(text, reasoning, refused)`."""
    assert read_message(delta) == read


@pytest.mark.parametrize(
    ("delta", "reasoning"),
    [
        pytest.param(
            {"reasoning_content": "a", "reasoning": "b", "thinking": "c"}, "a", id="one-name-is-used"
        ),
        pytest.param({"reasoning_content": "", "reasoning": "b"}, "b", id="the-first-with-any"),
        pytest.param({"reasoning_content": None, "reasoning": None}, "", id="null"),
        pytest.param(
            {
                "reasoning_details": [
                    {"type": "reasoning.text", "text": "a"},
                    {"type": "reasoning.summary", "summary": "b"},
                    {"type": "reasoning.encrypted", "data": "x", "text": "no"},
                    {"type": "reasoning.text", "text": None},
                    7,
                ]
            },
            "ab",
            id="details",
        ),
        pytest.param({"reasoning": "a", "reasoning_details": [{"text": "a"}]}, "a", id="not-twice"),
        pytest.param({"reasoning_details": [], "thinking": "c"}, "c", id="thinking"),
        pytest.param({"thinking": {"x": 1}}, "", id="no-text"),
    ],
)
def test_reasoning(delta, reasoning):
    """From the fields of its own."""
    assert reasoning_of(delta) == reasoning


@pytest.mark.parametrize(
    ("delta", "calls"),
    [
        ({"tool_calls": [{"id": "a"}]}, [{"id": "a"}]),
        ({"tool_calls": []}, []),
        ({"tool_calls": None}, []),
        ({"tool_calls": {"index": 0}}, []),
        ({"tool_calls": [], "function_call": {"name": "f"}}, [{"index": 0, "function": {"name": "f"}}]),
        ({"function_call": {"name": "f"}}, [{"index": 0, "function": {"name": "f"}}]),
        ({"function_call": None}, []),
    ],
)
def test_calls(delta, calls):
    """The old single call counts as the first."""
    assert tool_calls_of(delta) == calls
