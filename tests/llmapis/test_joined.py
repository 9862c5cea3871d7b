"""A stream as a whole answer."""

from __future__ import annotations

import pytest

from Middleware.common.errors import BackendError
from Middleware.llmapis.llm_text import join_batches


def chunk(token="", finish=None, **more):
    return {"token": token, "finish_reason": finish, **more}


def test_text_and_facts():
    """All that the dicts say."""
    usage = {"prompt_tokens": 1}
    answer = join_batches(
        "E",
        [
            [chunk("a", thinking="t", model="m")],
            [],
            [chunk("b", refusal=True), chunk("c", "length", usage=usage)],
        ],
    )
    assert (answer, answer.thinking, answer.model, answer.usage) == ("abc", "t", "m", usage)
    assert (answer.finish_reason, answer.refusal) == ("length", True)


def test_tool_calls():
    """Fragments become calls."""
    first = {"index": 0, "id": "c", "type": "function", "function": {"name": "f", "arguments": "{"}}
    rest = {"index": 0, "function": {"arguments": "}"}}
    answer = join_batches(
        "E", [[chunk(tool_calls=[first])], [chunk(tool_calls=[rest], thinking="t"), chunk("", "tool_calls")]]
    )
    call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    assert answer == {"content": "", "tool_calls": [call], "finish_reason": "tool_calls", "thinking": "t"}


def test_a_call_that_the_end_cut():
    """It is left out, and the text knows it."""
    cut = {"index": 0, "id": "c", "type": "function", "function": {"name": "f", "arguments": '{"a'}}
    answer = join_batches("E", [[chunk("Hi", tool_calls=[cut])], [chunk("", "length")]])
    assert (answer, answer.cut_call) == ("Hi", True)
    assert join_batches("E", [[chunk("Hi", "length")]]).cut_call is False


def test_without_an_end_it_was_cancelled():
    """The empty text."""
    assert join_batches("E", [[chunk("a")]]) == ""


def test_an_error_is_raised():
    """Half an answer is none."""
    with pytest.raises(BackendError, match="endpoint 'E' answered with an error: m"):
        join_batches(
            "E",
            [[chunk("a"), chunk("", "error", error={"kind": "stream_error", "message": "m", "status": 200})]],
        )
