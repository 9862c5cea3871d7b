"""What a call of a user's script adds to the sum of its request, and whose call it is."""

from __future__ import annotations

import pytest

from Middleware.common.request_context import RequestContext, enter_request
from Middleware.llmapis.call.call_arguments import CallArguments
from Middleware.llmapis.llm_text import LlmText
from Middleware.llmapis.service_call import calling_node, count_answer, counted_stream
from Middleware.services.cancellation_service import cancellation_service

ASKED = CallArguments(system_prompt="Be kind", conversation=[{"role": "user", "content": "Hello world"}])
END = {"token": "", "finish_reason": "stop", "usage": {"prompt_tokens": 7, "completion_tokens": 3}}


@pytest.fixture
def request_of_the_script():
    with enter_request(RequestContext("r1", "mira", "openaichatcompletion")) as request:
        yield request
    cancellation_service.acknowledge_cancellation("r1")


def numbers(prompt, completion):
    return {"prompt_tokens": prompt, "completion_tokens": completion, "calls": 1}


def test_estimates_stand_in(request_of_the_script):
    """For a backend that reports nothing: of all that was sent."""
    assert count_answer(ASKED, LlmText("Hi there")) == "Hi there"
    assert request_of_the_script.usage.numbers() == numbers(5, 2)


def test_a_stream_is_counted_at_its_end(request_of_the_script):
    """Each chunk is handed on."""
    words = [[{"token": word, "finish_reason": None}] for word in ("Hi ", "there")]
    assert list(counted_stream(ASKED, "big", iter([*words, [], [END]]))) == [words[0][0], words[1][0], END]
    assert request_of_the_script.usage.numbers() == numbers(7, 3)


@pytest.mark.parametrize("last", [[], [{"token": "", "finish_reason": "error", "error": {"message": "x"}}]])
def test_a_stream_without_an_answer_is_not(request_of_the_script, last):
    """It was cancelled, or it failed."""
    list(counted_stream(ASKED, "big", iter([[{"token": "Hi", "finish_reason": None}], last])))
    assert request_of_the_script.usage.numbers() is None


def test_one_that_was_cancelled_is_not(request_of_the_script):
    """It gave the empty text."""
    cancellation_service.request_cancellation("r1")
    count_answer(ASKED, LlmText(""))
    assert request_of_the_script.usage.numbers() is None


def test_outside_of_a_request():
    """Nobody counts, and no node asks."""
    assert count_answer(ASKED, LlmText("Hi")) == "Hi" and calling_node() is None


def test_a_stream_that_the_script_leaves_is_closed(request_of_the_script):
    """It is held here, so that no garbage collector closes it; an answer without its end is not counted."""
    closed = []

    def batches():
        try:
            yield [{"token": "Hi ", "finish_reason": None}]
            yield [END]
        finally:
            closed.append(True)

    held = batches()
    stream = counted_stream(ASKED, "big", held)
    assert next(stream)["token"] == "Hi "
    stream.close()
    assert closed == [True] and request_of_the_script.usage.numbers() is None
