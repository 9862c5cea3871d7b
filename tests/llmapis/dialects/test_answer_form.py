"""A whole answer is a text that knows how it ended, or a dict when there are calls."""

from __future__ import annotations

from Middleware.llmapis.dialects.openai_messages import answer_form

CALL = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}


def test_a_text():
    """It equals the plain text."""
    answer = answer_form("Hi", thinking="hm", finish="end_turn", facts={"model": "m", "usage": None})
    assert answer == "Hi"
    assert (answer.thinking, answer.finish_reason, answer.native_finish_reason) == ("hm", "stop", "end_turn")
    assert (answer.model, answer.usage, answer.refusal) == ("m", None, False)


def test_no_reason_is_stop():
    """As at the end of a stream."""
    assert answer_form("Hi", finish="null").finish_reason == "stop"


def test_calls_make_a_dict():
    """With what is known beside."""
    answer = answer_form("", thinking="hm", tool_calls=[CALL], facts={"model": "m", "refusal": False})
    assert answer == {
        "content": "",
        "tool_calls": [CALL],
        "finish_reason": "tool_calls",
        "model": "m",
        "thinking": "hm",
    }


def test_the_choices_own_reason_counts():
    """Even beside calls."""
    assert answer_form("", tool_calls=[CALL], finish="length")["finish_reason"] == "length"


def test_no_calls_is_a_text():
    """An empty list, or junk."""
    assert (
        answer_form("Hi", tool_calls=[]) == answer_form("Hi", tool_calls=["x"]) == answer_form("Hi") == "Hi"
    )


def test_a_native_word_that_is_the_same_is_not_told_twice():
    """OpenRouter always sends it."""
    facts = {"native_finish_reason": "stop"}
    assert answer_form("Hi", finish="stop", facts=facts).native_finish_reason is None
    assert (
        answer_form("Hi", finish="stop", facts={"native_finish_reason": "eos"}).native_finish_reason == "eos"
    )


def test_a_call_that_the_end_cut_is_left_out_and_known():
    """A text knows that there was one; what came of it an agent can tell the model."""
    cut = {"id": "d", "type": "function", "function": {"name": "f", "arguments": '{"a": '}}
    answer = answer_form("Hi", tool_calls=[cut], finish="length")
    assert (answer, answer.cut_call, answer.finish_reason) == ("Hi", True, "length")
    assert answer.cut_calls == [cut]
    assert answer_form("Hi", finish="length").cut_call is False
    both = answer_form("Hi", tool_calls=[CALL, cut], finish="length")
    assert both == {"content": "Hi", "tool_calls": [CALL], "finish_reason": "length", "cut_calls": [cut]}
