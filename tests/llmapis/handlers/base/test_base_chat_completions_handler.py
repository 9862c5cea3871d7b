"""What is common to all chat payloads."""

from __future__ import annotations

from Middleware.utilities.json_bytes import encode_json


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
        "stream_options",
        "tools",
        "tool_choice",
        "response_format",
    ]


def test_lone_surrogates_are_no_obstacle(make_handler):
    """Half a pair in a text is sent as U+FFFD."""
    body = make_handler("openAIChatCompletion")._prepare_payload(None, None, "a\ud83db")
    assert "a\ufffdb" in encode_json(body).decode()
