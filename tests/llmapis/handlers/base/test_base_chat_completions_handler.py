"""Addresses are joined without doubling anything, and what is common to all chat payloads."""

from __future__ import annotations

import pytest

from Middleware.llmapis.handlers.base.base_chat_completions_handler import joined_url
from Middleware.llmapis.handlers.base.outgoing_call import encoded


@pytest.mark.parametrize(
    ("base", "path", "url"),
    [
        ("http://h", "/v1/messages", "http://h/v1/messages"),
        ("http://h/", "/v1/messages", "http://h/v1/messages"),
        ("http://h/x/v1", "/v1/messages", "http://h/x/v1/messages"),
        ("http://h/x/messages", "/v1/messages", "http://h/x/messages"),
        ("http://h/v1/?k=/v1", "/v1/completions", "http://h/v1/completions?k=/v1"),
        ("http://h/v12", "/v1/completions", "http://h/v12/v1/completions"),
    ],
)
def test_joined_url(base, path, url):
    """Version, last steps, or all of the path; a query stays behind."""
    assert joined_url(base, path) == url


def test_the_order_of_a_payload(make_handler):
    """Model, messages, samplers, structure, tools, choice, schema."""
    handler = make_handler("openAIChatCompletion", samplers={"top_p": 1})
    body = handler._prepare_payload(
        None, "S", "P", tools=[{"type": "function"}], tool_choice="auto", schema={"type": "object"}
    )
    assert list(body) == [
        "model",
        "messages",
        "top_p",
        "stream",
        "max_tokens",
        "tools",
        "tool_choice",
        "response_format",
    ]


def test_lone_surrogates_are_no_obstacle(make_handler):
    """Half a pair in a text is sent as U+FFFD."""
    body = make_handler("openAIChatCompletion")._prepare_payload(None, None, "a\ud83db")
    assert "a\ufffdb" in encoded(body).decode()
