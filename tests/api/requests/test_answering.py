"""Runs become answers: whole, streamed, ended properly, used up in the background (frontend-api.md 11, 12)."""

from __future__ import annotations

import logging
import threading
import time
import uuid

import pytest

from Middleware.api.requests import answering
from Middleware.api.requests.answering import AnswerJob, AnswerStream, whole_answer
from Middleware.api.requests.request_life import RequestLife
from Middleware.common.errors import BackendError, ConfigError, EarlyTermination, RequestCancelled
from Middleware.common.request_context import RequestContext, current_request, enter_request
from Middleware.protocols.registry import WIRE_FORMATS, AnswerFacts
from Middleware.services.cancellation_service import cancellation_service
from tests.api.conftest import chunk, sse
from tests.patience import PATIENCE_S

ALIKE = sorted(name for name, wire in WIRE_FORMATS.items() if wire.chunk)
"""The streams of the two oldest protocols; one with other shapes has tests of its own."""
GONE = BackendError("Big", "connection_lost", "it broke off")


class Run:
    """A run that is scripted; remembers whether it was closed and how far it went."""

    def __init__(self, *steps, rest=()):
        self.steps, self.rest = steps, rest
        self.closed = False
        self.ended = threading.Event()
        self.user = None

    def __iter__(self):
        try:
            for step in (*self.steps, *self.rest):
                self.user = current_request().user
                if isinstance(step, BaseException):
                    raise step
                if isinstance(step, threading.Event):
                    assert step.wait(PATIENCE_S)
                    step = []
                yield step
        except GeneratorExit:
            self.closed = True
            raise
        finally:
            self.ended.set()


class Case:
    """One job and what became of its request."""

    def __init__(self, run, api_type, progress="off"):
        self.run = run
        self.request_id = str(uuid.uuid4())
        self.left = threading.Event()
        self.over = threading.Event()
        self.life = RequestLife(self.request_id)
        self.life.at_end(self.over.set)
        request = RequestContext(self.request_id, "mira", api_type, setup_done=self.left.set)
        facts = AnswerFacts(self.request_id, "mira", created=1760000000, progress=progress)
        with enter_request(request):
            self.job = AnswerJob(request, facts, WIRE_FORMATS[api_type], self.life, self.open)

    def open(self):
        if isinstance(self.run, BaseException):
            raise self.run
        return iter(self.run)


@pytest.fixture
def case(request):
    """`case(run, api_type)`; afterwards nothing of the request may be left."""
    made = []

    def make(run, api_type="openaichatcompletion", **more):
        made.append(Case(run, api_type, **more))
        return made[-1]

    yield make
    for one in made:
        one.life.release()
        assert one.over.wait(PATIENCE_S), "the request's life did not end"
        cancellation_service.acknowledge_cancellation(one.request_id)


def streamed(case):
    """The text of the whole stream, read as a server reads it."""
    body = AnswerStream(case.job)
    try:
        body.wait_for_output()
        return b"".join(body).decode()
    finally:
        body.close()


def texts(units):
    return "".join(u["choices"][0]["delta"].get("content") or "" for u in units if u not in (":", "[DONE]"))


HELLO = ([chunk("Hel")], [], [chunk("lo.")], [chunk("", "stop")])


class TestWhole:
    def test_the_body(self, case):
        """The run is pulled in the request's context, up to its finish."""
        one = case(Run(*HELLO))
        with enter_request(one.job.request):
            body = whole_answer(one.job)
        assert body["choices"][0]["message"]["content"] == "Hello."
        assert one.left.is_set() and one.life.answered
        assert one.run.ended.wait(PATIENCE_S) and not one.run.closed

    def test_a_run_without_a_finish_is_an_empty_stop(self, case):
        """An answer is always well-formed."""
        one = case(Run([]))
        with enter_request(one.job.request):
            assert whole_answer(one.job)["choices"][0]["finish_reason"] == "stop"

    @pytest.mark.parametrize(
        ("run", "expected"),
        [
            (ConfigError("x"), ConfigError),
            (Run([chunk("a")], GONE), BackendError),
            (Run(RequestCancelled()), RequestCancelled),
        ],
        ids=["opening", "running", "cancelled"],
    )
    def test_failures_are_raised(self, case, run, expected):
        """They become HTTP statuses."""
        one = case(run)
        with enter_request(one.job.request), pytest.raises(expected):
            whole_answer(one.job)
        assert one.left.is_set()

    def test_a_run_that_ends_because_it_was_cancelled(self, case):
        """Silence is no answer then."""
        one = case(Run([chunk("a")]))
        cancellation_service.request_cancellation(one.request_id)
        with enter_request(one.job.request), pytest.raises(RequestCancelled):
            whole_answer(one.job)

    def test_a_held_lock_is_an_answer(self, case):
        """With the text of the lock node, if it has one."""
        one = case(Run(EarlyTermination(locked_message="Busy.")))
        with enter_request(one.job.request):
            assert whole_answer(one.job)["choices"][0]["message"]["content"] == "Busy."

    def test_nodes_after_the_answer_run_on(self, case):
        """In the background, with the request's user; the request's life lasts as long."""
        gate = threading.Event()
        one = case(Run(*HELLO, rest=(gate,)))
        with enter_request(one.job.request):
            whole_answer(one.job)
        one.life.release()
        assert not one.over.is_set()
        gate.set()
        assert one.over.wait(PATIENCE_S)
        assert one.run.user == "mira"
        one.life.hold()


class TestStream:
    def test_units(self, case, read_sse):
        """Role, texts, finish, end mark."""
        one = case(Run(*HELLO))
        units = read_sse(streamed(one))
        assert texts(units) == "Hello." and units[-1] == "[DONE]"
        assert len(units) == 5
        assert one.left.is_set() and one.run.ended.wait(PATIENCE_S) and not one.run.closed

    @pytest.mark.parametrize(
        "run", [GONE, Run(GONE), Run([], GONE)], ids=["opening", "first", "after-a-tick"]
    )
    def test_an_early_failure_is_raised(self, case, run):
        """It becomes an HTTP status: nothing was sent yet."""
        with pytest.raises(BackendError):
            streamed(case(run))

    @pytest.mark.parametrize(
        ("step", "message"),
        [
            (GONE, "endpoint 'Big': it broke off"),
            (ValueError("secret"), "internal error (ValueError); see the server's log for details"),
        ],
        ids=["raised", "bug"],
    )
    def test_a_late_failure_is_an_error_unit(self, case, step, message, caplog):
        """18.15: text stays sent, then the error, then the end mark. It is no cancellation."""
        one = case(Run([chunk("Hel")], step))
        with caplog.at_level(logging.ERROR):
            units = sse(streamed(one))
        assert texts(units[:-2]) == "Hel"
        assert units[-2]["error"]["message"] == f"{message} (request {one.request_id})"
        assert units[-1] == "[DONE]"
        assert not cancellation_service.is_cancelled(one.request_id)
        assert one.request_id in caplog.text

    def test_a_late_failure_on_an_ollama_route(self, case, read_lines):
        """One line, no `done` object."""
        units = read_lines(streamed(case(Run([chunk("Hel")], GONE), "ollamaapichat")))
        assert list(units[-1]) == ["error"] and not any(unit.get("done") for unit in units)

    @pytest.mark.parametrize(
        ("step", "text"),
        [
            (RequestCancelled(), ""),
            (EarlyTermination(), ""),
            (EarlyTermination(locked_message="Busy."), "Busy."),
        ],
        ids=["cancelled", "lock", "lock-with-text"],
    )
    @pytest.mark.parametrize("before", [(), ([chunk("Hel")],)], ids=["first", "later"])
    def test_a_stop_is_a_proper_end(self, case, step, text, before):
        """A finish chunk and the end mark, never an error."""
        units = sse(streamed(case(Run(*before, step))))
        assert texts(units) == ("Hel" if before else "") + text
        assert units[-2]["choices"][0]["finish_reason"] == "stop" and units[-1] == "[DONE]"

    @pytest.mark.parametrize("raised", [True, False], ids=["raised", "ended"])
    def test_a_stop_in_a_call(self, case, raised):
        """Is a stop: nobody shall run half a call."""
        half = {"index": 0, "id": "a", "type": "function", "function": {"name": "tide", "arguments": "{"}}
        begun = [chunk(tool_calls=[half])]
        one = case(Run(begun, RequestCancelled()) if raised else Run(begun))
        if not raised:
            cancellation_service.request_cancellation(one.request_id)
        units = sse(streamed(one))
        cancellation_service.acknowledge_cancellation(one.request_id)
        assert units[-2]["choices"][0]["finish_reason"] == "stop" and units[-1] == "[DONE]"

    @pytest.mark.parametrize("api_type", ALIKE)
    def test_no_output_at_all_is_an_empty_answer(self, case, api_type):
        """In every protocol the stream ends once."""
        text = streamed(case(Run([]), api_type))
        assert text.count('"stop"') == 1
        assert text.endswith("data: [DONE]\n\n" if api_type.startswith("openai") else "}\n")

    def test_nodes_after_the_end_mark_run_on(self, case):
        """The stream ends before they do; what fails in them is only logged."""
        gate = threading.Event()
        one = case(Run(*HELLO, rest=(gate, [], ValueError("late"))))
        assert sse(streamed(one))[-1] == "[DONE]"
        one.life.release()
        assert not one.over.is_set()
        gate.set()
        assert one.over.wait(PATIENCE_S)
        one.life.hold()

    def test_a_stop_after_the_end_mark_is_no_error(self, case, caplog):
        """A cancellation of the rest, or a lock in it."""
        one = case(Run(*HELLO, rest=(RequestCancelled(),)))
        with caplog.at_level(logging.INFO):
            streamed(one)
            one.life.release()
            assert one.over.wait(PATIENCE_S)
        one.life.hold()
        assert "stopped after its answer" in caplog.text
        assert not [r for r in caplog.records if r.levelno >= logging.ERROR]


class TestBackendThatIsNotThere:
    """The window for an HTTP error stays open while nothing was reached (11.1)."""

    @pytest.fixture(autouse=True)
    def _quick(self, monkeypatch):
        monkeypatch.setattr(answering, "HEARTBEAT_S", 0.02)
        monkeypatch.setattr(answering, "_STEP_S", 0.01)

    def test_a_failure_after_more_than_a_heartbeat_is_raised(self, case):
        """Between its tries nobody is told anything."""
        gate = threading.Event()
        one = case(Run(gate, GONE))
        one.job.request.reach.note_failure()
        threading.Timer(0.2, gate.set).start()
        body = AnswerStream(one.job)
        with pytest.raises(BackendError):
            body.wait_for_output()
        body.close()

    def test_it_closes_when_something_was_reached(self, case):
        """A backup, or the backend itself that has come up: the stream begins with a heartbeat."""
        gate = threading.Event()
        one = case(Run(gate, *HELLO))
        one.job.request.reach.note_failure()
        threading.Timer(0.1, one.job.request.reach.note_success).start()
        body = AnswerStream(one.job)
        body.wait_for_output()
        assert next(iter(body)) == b":\n\n"
        gate.set()
        body.close()

    def test_it_closes_after_some_seconds(self, case, monkeypatch):
        """Nobody waits for ever."""
        monkeypatch.setattr(answering, "UNREACHED_S", 0.1)
        gate = threading.Event()
        one = case(Run(gate, *HELLO))
        one.job.request.reach.note_failure()
        body = AnswerStream(one.job)
        body.wait_for_output()
        gate.set()
        body.close()


class _SlowEvent(threading.Event):
    """The thread that sets it is stopped by the system right behind that."""

    def set(self):
        super().set()
        time.sleep(0.05)


class TestHandOver:
    """The run goes from the thread that began it to the server's own, however late the first one goes on."""

    @pytest.fixture(autouse=True)
    def _slow(self, monkeypatch):
        monkeypatch.setattr(answering.threading, "Event", _SlowEvent)

    def test_to_the_servers_thread(self, case, read_sse):
        """The server's thread enters the request's context at once, and nobody is in it any more."""
        run = Run([chunk("a")], [chunk("b")], [chunk("", "stop")])
        assert read_sse(streamed(case(run)))[-1] == "[DONE]"
        assert run.ended.wait(PATIENCE_S)

    def test_to_the_one_who_gives_up(self, case):
        """A client that leaves at that moment: the run is closed in its context, in one thread."""
        run = Run([chunk("a")], [chunk("b")])
        body = AnswerStream(case(run).job)
        body.wait_for_output()
        body.close()
        assert run.ended.wait(PATIENCE_S)
        assert run.closed

    def test_of_what_no_handler_expects(self, case):
        """Even an exit inside the run reaches the one who waits."""
        body = AnswerStream(case(Run(SystemExit("odd"))).job)
        with pytest.raises(SystemExit):
            body.wait_for_output()
        body.close()


class TestHeartbeats:
    @pytest.fixture(autouse=True)
    def _quick(self, monkeypatch):
        monkeypatch.setattr(answering, "HEARTBEAT_S", 0.02)
        monkeypatch.setattr(answering, "_NEARLY_S", 0.0)

    @pytest.mark.parametrize("api_type", ALIKE)
    def test_before_the_first_output(self, case, api_type):
        """While nodes work and nothing has been said."""
        gate = threading.Event()
        one = case(Run(gate, *HELLO), api_type)
        body = AnswerStream(one.job)
        body.wait_for_output()
        pieces = iter(body)
        beats = [next(pieces), next(pieces)]
        gate.set()
        rest = b"".join(pieces).decode()
        body.close()
        assert all(beat.decode() == ":\n\n" or b'"done":false' in beat for beat in beats)
        assert "Hel" in rest and "lo." in rest

    def test_while_the_backend_is_silent(self, case):
        """At each tick; never after the end mark."""
        units = sse(streamed(case(Run([chunk("Hel")], [], [], [chunk("lo.")], [chunk("", "stop")], []))))
        assert units.count(":") >= 2 and units[-1] == "[DONE]"

    def test_text_that_is_held_is_silence_too(self, case):
        """Chunks that say nothing do not keep the client waiting."""
        units = sse(streamed(case(Run([chunk("Hel")], [chunk("")], [chunk("", "stop")]))))
        assert units.count(":") >= 1

    def test_a_failure_after_the_first_heartbeat_is_an_error_unit(self, case):
        """The status is 200 by then."""
        gate = threading.Event()
        body = AnswerStream(case(Run(gate, GONE)).job)
        body.wait_for_output()
        pieces = iter(body)
        assert next(pieces) == b":\n\n"
        gate.set()
        rest = sse(b"".join(pieces).decode())
        body.close()
        assert "error" in next(u for u in rest if u != ":")


def step(number):
    return [chunk(progress={"number": number, "of": 3, "title": f"n{number}", "depth": 0})]


def lines_of(piece):
    """The progress in one piece of a stream; `:` for a heartbeat."""
    units = sse(piece.decode())
    return [u if u == ":" else u["choices"][0]["delta"].get("reasoning_content") for u in units]


class TestProgress:
    """Nodes that start, shown while nothing has been said (more-fronts.md 8)."""

    def test_it_goes_right_before_the_first_output(self, case):
        """In one unit, when the answer is quicker than a heartbeat; and never ends the wait for it."""
        units = sse(streamed(case(Run(step(1), step(2), *HELLO), progress="reasoning")))
        told = [u["choices"][0]["delta"] for u in units[:-1]]
        assert told[:3] == [
            {"role": "assistant", "content": ""},
            {"reasoning_content": "[1/3] n1\n[2/3] n2\n"},
            {"content": "Hel"},
        ]

    @pytest.mark.parametrize("how", ["off", "reasoning", "status"])
    def test_a_failure_of_the_first_second_is_raised(self, case, how):
        """It becomes an HTTP status, whatever has started."""
        with pytest.raises(BackendError):
            streamed(case(Run(step(1), step(2), GONE), progress=how))

    def test_in_place_of_the_first_heartbeat_and_then_at_once(self, case, monkeypatch):
        """Each line is a sign of life: the next beat is far away when it comes."""
        monkeypatch.setattr(answering, "HEARTBEAT_S", 0.02)
        gates = [threading.Event() for _ in range(3)]
        run = Run(step(1), gates[0], step(2), gates[1], step(3), gates[2], *HELLO)
        body = AnswerStream(case(run, progress="reasoning").job)
        body.wait_for_output()
        pieces = iter(body)
        assert [lines_of(next(pieces)) for _ in range(2)] == [[None], ["[1/3] n1\n"]]
        monkeypatch.setattr(answering, "HEARTBEAT_S", 3600.0)
        got = []
        for gate in gates[:2]:
            gate.set()
            while (lines := lines_of(next(pieces))) == [":"]:
                continue
            got += lines
        gates[2].set()
        rest = sse(b"".join(pieces).decode())
        body.close()
        assert got == ["[2/3] n2\n", "[3/3] n3\n"]
        assert texts(rest) == "Hello." and rest[-1] == "[DONE]"

    def test_a_protocol_without_a_place_beats_on(self, case, monkeypatch):
        """Its client is not left without a sign of life."""
        monkeypatch.setattr(answering, "HEARTBEAT_S", 0.02)
        gate = threading.Event()
        body = AnswerStream(case(Run(step(1), gate, *HELLO), "ollamaapichat", progress="status").job)
        body.wait_for_output()
        pieces = iter(body)
        assert b'"content":""' in next(pieces)
        gate.set()
        assert b"n1" not in b"".join(pieces)
        body.close()


class TestHangUp:
    def test_while_it_streams(self, case):
        """The request is cancelled, the run closed."""
        one = case(Run(*HELLO))
        body = AnswerStream(one.job)
        body.wait_for_output()
        next(iter(body))
        body.close()
        body.close()
        assert cancellation_service.is_cancelled(one.request_id)
        assert one.run.ended.wait(PATIENCE_S) and one.run.closed

    def test_before_the_first_output(self, case):
        """The background thread closes the run when it may."""
        gate = threading.Event()
        one = case(Run(gate, *HELLO))
        body = AnswerStream(one.job)
        body.close()
        assert cancellation_service.is_cancelled(one.request_id)
        one.life.release()
        assert not one.over.is_set()
        gate.set()
        assert one.over.wait(PATIENCE_S) and one.run.closed
        one.life.hold()

    def test_before_anything_of_a_complete_answer_is_written(self, case):
        """That the node is done does not help a client that has nothing of it."""
        one = case(Run([chunk("Hi"), chunk("", "stop")]))
        one.job.request.answer.complete = True  # as the engine tells it
        body = AnswerStream(one.job)
        body.wait_for_output()
        body.close()
        assert cancellation_service.is_cancelled(one.request_id)
        assert one.run.ended.wait(PATIENCE_S) and one.run.closed

    def test_after_the_finish(self, case):
        """The client that leaves with its answer cancels nothing."""
        gate = threading.Event()
        one = case(Run(*HELLO, rest=(gate,)))
        body = AnswerStream(one.job)
        body.wait_for_output()
        for piece in body:
            if b'"stop"' in piece:
                break
        body.close()
        gate.set()
        assert one.run.ended.wait(PATIENCE_S) and not one.run.closed
        assert not cancellation_service.is_cancelled(one.request_id)


class StillClock:
    """`time`, as far as it is used here."""

    def __init__(self):
        self.now, self.slept = 0.0, []

    def monotonic(self):
        return self.now

    def sleep(self, seconds):
        self.slept.append(seconds)
        self.now += seconds


def test_ollama_units_keep_their_distance(case, monkeypatch):
    """Two writes back to back would reach the reader as one. By a clock that only goes on while somebody sleeps."""
    clock = StillClock()
    monkeypatch.setattr(answering, "time", clock)
    one = case(Run([chunk("a")], [chunk("b")], [chunk("", "stop")]), "ollamagenerate")
    body = AnswerStream(one.job)
    body.wait_for_output()
    assert len(list(body)) == 3
    body.close()
    assert clock.slept == pytest.approx([one.job.wire.pause_s] * 2) and one.job.wire.pause_s >= 0.005
