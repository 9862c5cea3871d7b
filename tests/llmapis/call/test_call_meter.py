"""What one call costs, however it ends and whatever its backend reports."""

from __future__ import annotations

import pytest

from Middleware.common.costs import Cost
from Middleware.common.types import TextBatch
from Middleware.config.prices import Price
from Middleware.llmapis.call.call_meter import CallMeter, CallUse
from Middleware.llmapis.llm_text import LlmText
from Middleware.utilities.text_utils import estimate_tokens

PROMPT = 100
USAGE = {"prompt_tokens": 10, "completion_tokens": 4}
REPORTED = Cost("USD", 10 + 4 * 3)


@pytest.fixture
def meter():
    return CallMeter(Price.of({"input": 1, "output": 3}), lambda: PROMPT)


def text(token):
    return {"token": token, "finish_reason": None}


def finish(**facts):
    return {"token": "", "finish_reason": "stop", **facts}


def about(said):
    return Cost("USD", PROMPT + 3 * estimate_tokens(said), True)


class TestStreams:
    def test_a_batch_of_text_alone(self, meter):
        """Counts as its pieces do."""
        meter.note_batch(TextBatch([text("Hello "), text("there")], "Hello there"))
        assert meter.use_at_end(None, "closed").cost == about("Hello there")

    def test_what_is_reported(self, meter):
        """The finishing dict is told it."""
        last = finish(usage=USAGE)
        meter.note_batch([text("Hello"), last])
        assert last["cost"] == meter.use_at_end(USAGE, "stop").cost == REPORTED

    def test_what_is_not_reported(self, meter):
        """Prompt and answer are estimated, thoughts too."""
        last = finish()
        meter.note_batch([{**text(""), "thinking": "Hm. "}])
        meter.note_batch([text("Hello "), text("there"), last])
        assert last["cost"] == about("Hm. Hello there")

    def test_half_of_it(self, meter):
        """What is reported counts, the rest is estimated."""
        last = finish(usage={"prompt_tokens": 10})
        meter.note_batch([text("Hello"), last])
        assert last["cost"] == Cost("USD", 10 + 3 * estimate_tokens("Hello"), True)

    def test_an_answer_that_failed_after_words(self, meter):
        """They are paid for; the error is told nothing."""
        error = {"token": "", "finish_reason": "error", "error": {}}
        meter.note_batch([text("Hello"), error])
        assert "cost" not in error
        assert meter.use_at_end(None, "connection_lost").cost == about("Hello")

    def test_an_answer_that_was_asked_for_twice(self, meter):
        """Both are paid for; the client is told of the one that it got."""
        meter.note_batch([text("bad")])
        meter.note_lost_answer({"prompt_tokens": 10, "completion_tokens": 1})
        last = finish(usage=USAGE)
        meter.note_batch([last])
        assert last["cost"] == REPORTED
        assert meter.use_at_end(USAGE, "stop") == CallUse(20, 5, Cost("USD", 13 + REPORTED.millionths))


class TestWholeAnswers:
    def test_a_text(self, meter):
        """It is told what it cost."""
        answer = LlmText("Hello", usage=USAGE)
        meter.note_answer(answer)
        assert answer.cost == meter.use_at_end(USAGE, "stop").cost == REPORTED

    def test_tool_calls(self, meter):
        """Likewise; without usage the content is estimated."""
        answer = {"content": "Hello", "tool_calls": [{}], "finish_reason": "tool_calls"}
        meter.note_answer(answer)
        assert answer["cost"] == about("Hello")


class TestOtherEnds:
    @pytest.mark.parametrize("outcome", ["cancelled", "closed", "dropped"])
    def test_broken_off_before_a_word(self, meter, outcome):
        """Once it was sent, the prompt is paid for."""
        assert meter.use_at_end(None, outcome) is None
        meter.sent = True
        assert meter.use_at_end(None, outcome).cost == about("")

    @pytest.mark.parametrize("outcome", ["connect_error", "server_error", "ValueError"])
    def test_failed_before_a_word(self, meter, outcome):
        """Costs nothing."""
        meter.sent = True
        assert meter.use_at_end(None, outcome) is None

    def test_failed_but_reported(self, meter):
        """What the backend says it took counts."""
        assert meter.use_at_end(USAGE, "stream_error").cost == REPORTED

    def test_embeddings(self):
        """Nothing is written, so only the prompt can be unknown."""
        meter = CallMeter(Price.of({"input": 1, "output": 3}), lambda: PROMPT, generates=False)
        assert meter.settle({"prompt_tokens": 7}).cost == Cost("USD", 7)
        assert meter.settle(None).cost == Cost("USD", PROMPT, True)


class TestWithoutAPrice:
    def test_tokens_alone(self):
        """Of a call that a key pays for by its tokens; no answer is told of a cost."""
        meter, last = CallMeter(None, lambda: PROMPT), finish(usage=USAGE)
        meter.note_batch([text("Hello"), last])
        assert meter.use_at_end(USAGE, "stop") == CallUse(10, 4, None)
        assert "cost" not in last

    def test_broken_off(self):
        """The prompt, and what had come."""
        meter = CallMeter(None, lambda: PROMPT)
        meter.note_batch([text("Hello")])
        assert meter.use_at_end(None, "closed") == CallUse(PROMPT, estimate_tokens("Hello"), None)

    @pytest.mark.parametrize(
        ("told", "completion"),
        [(0, estimate_tokens("Hello there")), (1, estimate_tokens("Hello there")), (99, 99)],
    )
    def test_broken_off_behind_numbers(self, told, completion):
        """Those of a backend that tells them as it goes are of what came up to there: never less than came."""
        meter = CallMeter(None, lambda: PROMPT)
        meter.note_batch([text("Hello "), text("there")])
        usage = {"prompt_tokens": 10, "completion_tokens": told}
        assert meter.use_at_end(usage, "closed") == CallUse(10, completion, None)

    def test_cut_behind_numbers(self):
        """A stream without its end mark has told no more than one that was left."""
        meter, usage = CallMeter(None, lambda: PROMPT), {"prompt_tokens": 10, "completion_tokens": 0}
        meter.note_batch([text("Hello there"), finish(usage=usage, truncated=True)])
        assert meter.use_at_end(usage, "stop") == CallUse(10, estimate_tokens("Hello there"), None)

    def test_ended_with_few_numbers(self):
        """A backend that has ended its answer is believed."""
        meter = CallMeter(None, lambda: PROMPT)
        meter.note_batch([text("Hello there"), finish(usage={"prompt_tokens": 10, "completion_tokens": 0})])
        assert meter.use_at_end(USAGE, "stop") == CallUse(10, 0, None)


CHEAP, GUESSED = Cost("USD", 3), Cost("USD", 4, True)


@pytest.mark.parametrize(
    ("one", "other", "both"),
    [
        (None, None, None),
        (CHEAP, None, CHEAP),
        (None, CHEAP, CHEAP),
        (CHEAP, CHEAP, Cost("USD", 6)),
        (CHEAP, GUESSED, Cost("USD", 7, True)),
        (GUESSED, CHEAP, Cost("USD", 7, True)),
    ],
)
def test_two_uses_together(one, other, both):
    """A sum is a guess as soon as a part of it is; what has no price adds tokens alone."""
    assert CallUse(1, 2, one).plus(CallUse(10, 20, other)) == CallUse(11, 22, both)
