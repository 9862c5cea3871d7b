"""First come, first served; a waiter whose request is cancelled leaves (frontend-api.md 15.3)."""

from __future__ import annotations

import threading
import time

import pytest

from Middleware.common.errors import RequestCancelled, ServerBusy
from Middleware.common.instance_global_variables import LaunchFacts, launch_facts, set_launch_facts
from Middleware.services.cancellation_service import CancellationService
from Middleware.services.fair_gate import FairGate, outgoing_gate


@pytest.fixture
def cancellation():
    return CancellationService()


@pytest.fixture
def gate(cancellation):
    return FairGate(1, cancellation=cancellation)


def waiting(gate, count):
    """Wait until so many stand in the queue."""
    end = time.monotonic() + 5
    while gate.waiting != count:
        assert time.monotonic() < end
        time.sleep(0.001)


def test_slots_are_counted():
    """Two may hold a gate of two, a third may not."""
    gate = FairGate(2)
    assert gate.acquire() and gate.acquire(blocking=False)
    assert not gate.acquire(blocking=False)
    assert not gate.acquire(timeout=0.01)
    gate.release()
    assert gate.acquire(blocking=False)


def test_releasing_too_often_is_an_error(gate):
    """It would let in one more than the limit."""
    with pytest.raises(ValueError, match="more often"):
        gate.release()


def test_waiters_are_served_in_order(gate):
    """Whoever came first goes first."""
    gate.acquire()
    served = []

    def wait(name):
        gate.acquire(timeout=5)
        served.append(name)
        gate.release()

    threads = []
    for number in range(5):
        threads.append(threading.Thread(target=wait, args=(number,)))
        threads[-1].start()
        waiting(gate, number + 1)
    gate.release()
    for thread in threads:
        thread.join(5)
    assert served == [0, 1, 2, 3, 4]


def test_a_newcomer_does_not_overtake_the_queue(gate):
    """Also in the moment in which a slot changes hands."""
    gate.acquire()
    thread = threading.Thread(target=gate.acquire, kwargs={"timeout": 5})
    thread.start()
    waiting(gate, 1)
    gate.release()
    thread.join(5)
    assert not gate.acquire(blocking=False)


def test_one_who_gave_up_is_out_of_the_queue(gate):
    """The next slot is not lost to somebody who has gone."""
    gate.acquire()
    assert not gate.acquire(timeout=0.01)
    assert gate.waiting == 0
    gate.release()
    assert gate.acquire(blocking=False)


def test_a_cancelled_waiter_leaves_at_once(gate, cancellation):
    """Without waiting for its turn, and without taking a slot."""
    gate.acquire()
    outcome = []

    def wait():
        try:
            gate.acquire(timeout=30, request_id="r")
        except RequestCancelled as error:
            outcome.append(error)

    thread = threading.Thread(target=wait)
    thread.start()
    waiting(gate, 1)
    cancellation.request_cancellation("r")
    thread.join(5)
    assert len(outcome) == 1 and gate.waiting == 0


def test_a_cancellation_after_admission_changes_nothing(gate, cancellation):
    """The abort callback went with the wait."""
    assert gate.acquire(request_id="r")
    cancellation.request_cancellation("r")
    gate.release()


def test_a_full_queue_turns_away(cancellation):
    """At once: the client may try elsewhere."""
    gate = FairGate(1, max_waiting=1, cancellation=cancellation)
    gate.acquire()
    thread = threading.Thread(target=gate.acquire, kwargs={"timeout": 5})
    thread.start()
    waiting(gate, 1)
    with pytest.raises(ServerBusy, match="waiting already"):
        gate.acquire(timeout=5)
    gate.release()
    thread.join(5)


@pytest.mark.parametrize(
    ("level", "limit", "is_there"),
    [("endpoint", 2, True), ("endpoint", 0, False), ("wilmer", 2, False)],
)
def test_the_gate_of_outgoing_calls(level, limit, is_there):
    """There is one for the process at level `endpoint` with a limit."""
    before = launch_facts()
    set_launch_facts(LaunchFacts(concurrency=limit, concurrency_level=level))
    try:
        gate = outgoing_gate()
        assert (gate is not None) is is_there
        assert gate is outgoing_gate()
    finally:
        set_launch_facts(before)
