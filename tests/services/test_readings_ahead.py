"""What is read ahead gives way to calls, at once and for good."""

from __future__ import annotations

import threading
from contextlib import ExitStack, contextmanager

import pytest

from Middleware.services.cancellation_service import CancellationService
from Middleware.services.readings_ahead import Reading, Readings
from tests.patience import PATIENCE_S

HOME = "http://home:8080"


@pytest.fixture
def cancellation():
    return CancellationService()


@pytest.fixture
def readings():
    return Readings()


@pytest.fixture
def reading(cancellation):
    return Reading("r1.ahead2", cancellation)


def slots(freed):
    """Slots that tell when they are given back."""
    taken = ExitStack()
    taken.callback(freed.append, "free")
    return taken


@contextmanager
def a_call(readings, *places):
    """Inside the block one is under way there."""
    names = readings.begin_call(places)
    yield
    readings.end_call(names)


class TestBeginning:
    def test_where_nothing_is_under_way(self, readings, reading):
        """An address is one with and without a slash at its end."""
        assert readings.begin(reading, HOME) and reading.address == HOME
        assert readings.count_at(f"{HOME}/") == 1
        readings.end(reading)
        assert readings.count_at(HOME) == 0 and reading.ended.is_set()

    def test_not_while_a_call_is_there(self, readings, reading):
        """It waits there for its slot, or has it. Calls elsewhere do not matter."""
        with a_call(readings, f"{HOME}/"), a_call(readings, HOME):
            assert not readings.begin(reading, HOME)
        with a_call(readings, "http://other:1"):
            assert readings.begin(reading, HOME)

    def test_one_at_a_time_at_an_address(self, readings, reading, cancellation):
        """Two would take the slot from each other."""
        assert readings.begin(reading, HOME)
        assert not readings.begin(Reading("r2.ahead2", cancellation), HOME)
        assert readings.begin(Reading("r3.ahead2", cancellation), "http://other:1")


class TestGivingWay:
    @pytest.mark.parametrize("place", [HOME, f"{HOME}/", "machine desk"])
    def test_a_call_stops_it(self, readings, reading, cancellation, place):
        """Its slots are free before the call looks for one, and its own call is aborted."""
        freed, aborted = [], []
        assert readings.begin(reading, HOME, ["machine desk"]) and reading.hold(slots(freed))
        cancellation.register_abort_callback(reading.id, lambda: aborted.append(freed[:]))
        with a_call(readings, place):
            assert freed == ["free"] and aborted == [["free"]]
            assert cancellation.is_cancelled(reading.id) and readings.count_at(HOME) == 0
            assert cancellation.reason(reading.id) == "a call came"
        readings.end(reading)
        assert freed == ["free"] and not cancellation.is_cancelled(reading.id)

    def test_a_call_elsewhere_does_not(self, readings, reading, cancellation):
        """Other addresses, other machines."""
        assert readings.begin(reading, HOME, ["machine desk"])
        with a_call(readings, "http://other:1", "machine attic"):
            assert not cancellation.is_cancelled(reading.id) and readings.count_at(HOME) == 1

    def test_one_that_was_stopped_gets_no_slots(self, readings, reading):
        """They are given back at once."""
        freed = []
        assert readings.begin(reading, HOME)
        readings.make_way([HOME])
        assert not reading.hold(slots(freed)) and freed == ["free"]

    def test_a_stop_of_the_process_ends_all(self, readings, reading, cancellation):
        """At whatever address."""
        other = Reading("r2.ahead1", cancellation)
        assert readings.begin(reading, HOME) and readings.begin(other, "http://other:1")
        readings.stop_all()
        assert cancellation.is_cancelled(reading.id) and cancellation.is_cancelled(other.id)

    def test_one_that_has_ended_cannot_be_stopped(self, readings, reading, cancellation):
        """No mark stays behind."""
        assert readings.begin(reading, HOME)
        readings.end(reading)
        reading.stop()
        assert not cancellation.is_cancelled(reading.id)


def test_calls_and_readings_of_many_threads_leave_nothing_behind(readings, cancellation):
    """Each slot that was taken is given back once, and the address is free in the end."""
    taken, freed = [], []

    def call():
        for _ in range(200):
            with a_call(readings, HOME):
                assert readings.count_at(HOME) == 0

    def read():
        for turn in range(200):
            reading = Reading(f"a.{turn}", cancellation)
            if readings.begin(reading, HOME):
                taken.append("free")
                reading.hold(slots(freed))
            readings.end(reading)

    threads = [threading.Thread(target=work, daemon=True) for work in (call, call, read)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE_S)
    assert freed == taken and readings.count_at(HOME) == 0
    assert cancellation.get_all_cancelled_requests() == set()
    assert readings.begin(Reading("last", cancellation), HOME)
