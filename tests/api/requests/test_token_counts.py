"""Vectors of more-fronts.md 11.5, and what else counts (1.4)."""

from __future__ import annotations

import pytest

from Middleware.api.requests.request_fields import count_tokens

USER = {"role": "user", "content": "Hello world"}
TOOL = {"type": "function", "function": {"name": "tide", "parameters": {"type": "object"}}}
CALL = {"id": "c", "type": "function", "function": {"name": "tide", "arguments": "{}"}}


@pytest.mark.parametrize(
    ("messages", "expected"),
    [
        ([USER], 11),
        ([{"role": "system", "content": "Hello world"}, USER], 22),
        ([{"role": "user", "content": "", "images": ["data:image/png;base64,AAAA"]}], 1608),
        ([], 0),
    ],
    ids=["user", "with-system", "image", "nothing"],
)
def test_messages(messages, expected):
    """The text of each, 8 more for each, 1,600 for an image."""
    assert count_tokens(messages) == expected


def test_tools_and_calls():
    """Their compact JSON, the tools once."""
    calls = '[{"id":"c","type":"function","function":{"name":"tide","arguments":"{}"}}]'
    tools = '[{"type":"function","function":{"name":"tide","parameters":{"type":"object"}}}]'
    assert count_tokens([{**USER, "tool_calls": [CALL]}], [TOOL]) == 11 + len(calls) // 4 + len(tools) // 4
    assert count_tokens([USER], []) == 11
