"""What is noted of a call while its answer comes."""

from __future__ import annotations

import logging
from types import SimpleNamespace

import pytest

from Middleware.common.errors import BackendError
from Middleware.config.endpoints import EndpointConfig
from Middleware.llmapis.call import call_log
from Middleware.llmapis.call.call_log import CallLog
from Middleware.services.node_trace import NOT_YET, CallTrace, NodeTrace
from Middleware.services.run_trace import Observers
from tests.clock import Clock

ENDPOINT = EndpointConfig("Big", {"modelNameToSendToAPI": "m"}, "Open-AI-API", {})


class Told:
    """Of a run: the first thoughts, and which of its calls had ended when that was told."""

    keeps_text = False

    def __init__(self):
        self.thoughts, self.ended = 0, []

    def note_change(self, run, what, node):
        self.thoughts += what == "first_thought"
        if what == "call_ended":
            self.ended.append(node.calls[-1].ended)


@pytest.fixture
def told():
    return Told()


@pytest.fixture
def log(told):
    """Of a call that `told` observes."""
    observers = Observers()
    observers.observe(told)
    node = observers.begin("r1", "/api/chat").node(NodeTrace("w", 1, "Standard"))
    made = CallLog(ENDPOINT, stream=True)
    made.trace = node.call(CallTrace("model", "Big", "x", "m"))
    return made


def text(token):
    return {"token": token, "finish_reason": None}


def thought(text):
    return {"token": "", "finish_reason": None, "thinking": text}


CALL = {"token": "", "finish_reason": None, "tool_calls": [{"index": 0}]}


class TestWhatComesFirst:
    def test_its_time(self, log):
        """Of the first batch; every piece counts."""
        log.note_batch([text("a")])
        first = log.first
        log.note_batch([text("b"), text("c")])
        assert (log.first, log.trace.call.first, log.pieces) == (first, first, 3) and first >= log.started

    @pytest.mark.parametrize(
        ("batches", "thoughts"),
        [
            ([[thought("hm")], [thought("hm")], [text("a")]], 1),
            ([[thought("hm"), text("a")]], 1),
            ([[text("\n")], [text(" "), thought("hm")]], 1),
            ([[text("a")]], 0),
            ([[text("a"), thought("hm")]], 0),
            ([[text("a")], [thought("hm")]], 0),
            ([[CALL], [thought("hm")]], 0),
            ([[thought("")], [text("a")]], 0),
            ([[thought("")], [thought("hm")]], 1),
        ],
        ids=[
            "thoughts", "with-its-text", "behind-white-space", "text", "behind-a-text-at-once", "behind-a-text",
            "behind-a-call", "an-empty-one", "behind-an-empty-one",
        ],
    )  # fmt: skip
    def test_whether_it_is_a_thought(self, log, told, batches, thoughts):
        """Told once; what comes behind a text is no wait for one."""
        for batch in batches:
            log.note_batch(batch)
        assert (told.thoughts, bool(log.trace.call.thought)) == (thoughts, bool(thoughts))

    def test_nobody_observes(self):
        """Then it is noted for the log's line alone."""
        log = CallLog(ENDPOINT, stream=True)
        log.note_batch([thought("hm")])
        assert log.first is not None and log.pieces == 1


@pytest.mark.parametrize(
    ("failure", "told"),
    [("it broke", "it broke"), (BackendError("E", "timeout", "too slow"), "too slow")],
    ids=["words", "error"],
)
def test_a_failure_is_told_to_those_who_observe(log, failure, told):
    """Nobody else keeps it."""
    log.note_failure(failure)
    assert told in log.trace.call.error
    log.trace = None
    log.note_failure(failure)


@pytest.mark.parametrize(("outcome", "reason"), [("length", "length"), ("closed", None), ("timeout", None)])
def test_its_end(log, told, outcome, reason):
    """When it was, and how: told once it is noted. A finish reason is the model's word alone."""
    log.tries, log.usage, log.truncated = 2, {"completion_tokens": 7}, True
    call = log.trace.call
    assert call.ended == NOT_YET
    log.write(outcome)
    assert call.ended >= call.begun > 0 and told.ended == [call.ended]
    assert (call.outcome, call.finish_reason) == (outcome, reason)
    assert (call.tries, call.usage, call.truncated) == (2, {"completion_tokens": 7}, True)


class TestTheLine:
    """What the log says of a call that has ended."""

    @pytest.fixture
    def line(self, caplog, monkeypatch):
        """The line of a call that took 4 s, whose answer began after 2."""
        caplog.set_level(logging.INFO)
        clock = Clock(100.0)
        monkeypatch.setattr(call_log, "time", SimpleNamespace(monotonic=lambda: clock.now))

        def written(stream=True, usage=None, pieces=3, outcome="stop"):
            log = CallLog(ENDPOINT, stream=stream, started=clock.now, tries=1)
            clock.now += 2
            log.note_batch([text("a")] * pieces) if pieces else None
            clock.now += 2
            log.usage = usage
            log.write(outcome)
            return caplog.records[-1].getMessage()

        return written

    def test_of_a_stream(self, line):
        """The rate is that from the first text on, and of the server's count."""
        usage = {"completion_tokens": 8}
        assert line(usage=usage) == (
            "endpoint 'Big' (Open-AI-API, model 'm', stream on, tries 1): first token 2.00 s, tokens 4.0/s, "
            f"took 4.00 s, ended stop, usage {usage}"
        )

    def test_of_one_without_numbers(self, line):
        """Pieces are counted."""
        said = line()
        assert "tokens 1.5/s" in said and said.endswith("ended stop, usage -")

    def test_of_a_whole_answer(self, line):
        """The rate is that of all its time."""
        said = line(stream=False, usage={"completion_tokens": 8})
        assert "stream off" in said and "tokens 2.0/s" in said

    def test_of_an_answer_that_never_began(self, line):
        said = line(pieces=0, outcome="timeout")
        assert "first token -, tokens -, took 4.00 s, ended timeout" in said
