"""Calls of one step, side by side as far as there is room: agents.md 1 and 3.10."""

from __future__ import annotations

import threading
import time
from types import SimpleNamespace
from typing import Any

import pytest

from Middleware.common.errors import RequestCancelled
from Middleware.common.request_context import RequestContext, current_request
from Middleware.services.cancellation_service import cancellation_service
from Middleware.workflows.agents.agent_tool import AgentTool, ToolFailed, ToolTimedOut
from Middleware.workflows.agents.tool_calls import ReadCall
from Middleware.workflows.agents.tool_runner import ToolJob, ToolRunner
from tests.patience import PATIENCE_S, wait_until


class Permits:
    """Threads that a request may still take."""

    def __init__(self, free: int) -> None:
        self.free = free

    def acquire(self, blocking: bool = True) -> bool:
        assert not blocking
        if not self.free:
            return False
        self.free -= 1
        return True

    def release(self) -> None:
        self.free += 1


def context(free: int = 9) -> Any:
    request = RequestContext("r1", "ana", "openaichatcompletion")
    semaphore = Permits(free)
    return SimpleNamespace(
        request=request,
        request_id="r1",
        trace=None,
        spare_threads=lambda: semaphore,
        is_cancelled=lambda: cancellation_service.is_cancelled("r1"),
        permits=semaphore,
    )


@pytest.fixture(autouse=True)
def nothing_is_left():
    yield
    cancellation_service.acknowledge_cancellation("r1")
    wait_until(lambda: not [t for t in threading.enumerate() if t.name.startswith("tool ")])
    assert not cancellation_service._callbacks


def job(work: Any, name: str = "t") -> ToolJob:
    return ToolJob(ReadCall(AgentTool(name, "", {}, "script", call=lambda _: work()), {}, name, "{}"))


class Together:
    """How many calls are under way at once."""

    def __init__(self) -> None:
        self.now = self.most = 0
        self.order: list[int] = []
        self._guard = threading.Lock()
        self._go = threading.Event()

    def work(self, number: int) -> Any:
        def run() -> str:
            with self._guard:
                self.now += 1
                self.most = max(self.most, self.now)
                self.order.append(number)
            self._go.wait(0.05)
            with self._guard:
                self.now -= 1
            return str(number)

        return run


@pytest.mark.parametrize(("most", "free", "at_once"), [(1, 9, 1), (3, 9, 3), (4, 0, 1), (4, 1, 2)])
def test_as_many_as_there_is_room_for(most, free, at_once):
    """One always; none free: one after the other, in their order. All threads are given back."""
    together, made = Together(), context(free)
    jobs = [job(together.work(number)) for number in range(6)]
    assert all(batch == [] for batch in ToolRunner(made, most, raises=False).run(jobs, None))
    assert [one.result for one in jobs] == [str(number) for number in range(6)]
    assert together.most <= at_once and together.order[0] == 0
    assert made.permits.free == free


def test_each_has_an_id_of_its_own():
    """By which what it asks of others is cancelled alone."""
    seen = []

    def note() -> str:
        request = current_request()
        assert request is not None
        seen.append(request.request_id)
        return "ok"

    list(ToolRunner(context(), 4, raises=False).run([job(note), job(note)], None))
    assert len(set(seen)) == 2 and all(one.startswith("r1") and one != "r1" for one in seen)


@pytest.mark.parametrize(
    ("error", "outcome", "result"),
    [
        (ToolFailed("no"), "failed", "no"),
        (ToolTimedOut("late"), "timeout", "late"),
        (RequestCancelled(), "cancelled", "it was cancelled"),
        (KeyError("secret"), "failed", "KeyError"),
    ],
)
def test_how_a_call_fails(error, outcome, result, caplog):
    """In its own sentence; of what nobody expected the kind alone, in the log too."""

    def fail() -> str:
        raise error

    failed, well = job(fail), job(lambda: "ok")
    list(ToolRunner(context(), 1, raises=False).run([failed, well], None))
    assert (failed.outcome, failed.result, well.outcome) == (outcome, result, "ok")
    assert "secret" not in caplog.text


class TestGivenUp:
    def test_out_of_time(self):
        """Also those that have not begun; what comes of them later is dropped."""
        go = threading.Event()
        jobs = [job(lambda: str(go.wait(PATIENCE_S))), job(lambda: "never")]
        list(ToolRunner(context(), 1, raises=False).run(jobs, time.monotonic() + 0.05))
        assert [(one.result, one.given_up) for one in jobs] == [("out of time", True)] * 2
        go.set()

    def test_cancelled(self):
        """At once, though the tool does not listen."""
        go = threading.Event()
        stuck = job(lambda: str(go.wait(PATIENCE_S)))
        running = ToolRunner(context(), 1, raises=False).run([stuck], None)
        timer = threading.Timer(0.05, cancellation_service.request_cancellation, ("r1",))
        timer.start()
        assert list(running) in ([], [[]], [[], []])
        assert stuck.outcome == "cancelled"
        go.set()

    def test_closed(self):
        """As when the client goes between two pieces: the call's own id is cancelled."""
        begun, ended = threading.Event(), threading.Event()

        def listen() -> str:
            request = current_request()
            assert request is not None
            cancellation_service.register_abort_callback(request.request_id, ended.set)
            begun.set()
            assert ended.wait(PATIENCE_S)
            return "heard"

        running = ToolRunner(context(), 1, raises=False).run([job(listen)], None)
        assert next(running) == []
        assert begun.wait(PATIENCE_S)
        running.close()
        assert ended.wait(PATIENCE_S)

    def test_the_first_failure_ends_the_others(self):
        """Where it fails the node."""
        go = threading.Event()

        def fail() -> str:
            raise ToolFailed("no")

        jobs = [job(fail), job(lambda: str(go.wait(PATIENCE_S)))]
        list(ToolRunner(context(), 2, raises=True).run(jobs, None))
        assert [one.outcome for one in jobs] == ["failed", "cancelled"]
        go.set()
