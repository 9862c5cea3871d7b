"""Standard dicts looked at and made from each other."""

from __future__ import annotations

import pytest

from Middleware.llmapis.call.call_log import content_taken_out, is_visible, one_chunk
from Middleware.llmapis.llm_text import LlmText


@pytest.mark.parametrize(
    ("more", "visible"),
    [({"token": "a"}, True), ({"thinking": "t"}, True), ({"tool_calls": [{}]}, True), ({"usage": {}}, False)],
    ids=["text", "thought", "call", "numbers"],
)
def test_what_is_seen_of_an_answer(more, visible):
    """After it there is no backup any more."""
    assert is_visible({"token": "", "finish_reason": None, **more}) is visible


def test_a_finish_that_held_content():
    """The content goes first, the end stays an end."""
    pending = {"token": "a", "finish_reason": "stop", "thinking": "t", "model": "m"}
    assert content_taken_out(pending) == {"token": "a", "finish_reason": None, "thinking": "t"}
    assert pending == {"token": "", "finish_reason": "stop", "model": "m"}


def test_a_whole_text():
    """With what came beside it, as far as anything did."""
    assert one_chunk(LlmText("a", thinking="t", model="m")) == {
        "token": "a",
        "finish_reason": "stop",
        "thinking": "t",
        "model": "m",
    }


def test_whole_calls():
    """They get their places."""
    answer = {"content": "a", "tool_calls": [{"id": "1"}, {"id": "2"}], "finish_reason": "tool_calls"}
    assert one_chunk(answer) == {
        "token": "a",
        "finish_reason": "tool_calls",
        "tool_calls": [{"index": 0, "id": "1"}, {"index": 1, "id": "2"}],
    }
