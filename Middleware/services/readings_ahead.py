"""Prompts that servers are given to read ahead (`readAhead`), and the calls for which they give way.

Nobody waits for a reading: as soon as a call of any chat comes for its address, or for anything else that it
holds (the turn of a machine), the reading is stopped and its slots are free, before the call looks for one.
Knows ids and slots: no prompt, no backend. Source: spec prompt-reuse.md 6.
"""

from __future__ import annotations

import threading
from collections.abc import Collection
from contextlib import ExitStack
from functools import lru_cache

from Middleware.services.cancellation_service import CancellationService, cancellation_service


class Reading:
    """One prompt that is read ahead. `id`: of its call, as requests have one; cancelling it ends the call.

    `address`: the server that reads, empty until it is known. `ended`: it is over, whatever became of it.
    """

    def __init__(self, reading_id: str, cancellation: CancellationService = cancellation_service) -> None:
        self.id = reading_id
        self.address = ""
        self.ended = threading.Event()
        self._cancellation = cancellation
        self._guard = threading.Lock()
        self._slots: ExitStack | None = None
        self._is_stopped = False

    def hold(self, slots: ExitStack) -> bool:
        """It has these slots until it ends. False: it was stopped meanwhile, and they are closed."""
        with self._guard:
            if not self._is_stopped:
                self._slots = slots
                return True
        slots.close()
        return False

    def stop(self) -> None:
        """End it from any thread: its slots are free when this returns, its call ends at once."""
        self._free(stopped=True)
        if not self.ended.is_set():
            self._cancellation.request_cancellation(self.id, "a call came")

    def end(self) -> None:
        """It is over: by itself, or because it was stopped."""
        self._free(stopped=True)
        self.ended.set()
        self._cancellation.acknowledge_cancellation(self.id)

    def _free(self, *, stopped: bool) -> None:
        with self._guard:
            self._is_stopped = self._is_stopped or stopped
            slots, self._slots = self._slots, None
        if slots is not None:
            slots.close()


class Readings:
    """The readings and the calls of one process. Places are addresses of servers, and names of other things
    that a reading can hold while somebody wants them. May be used by several threads."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._calls: dict[str, int] = {}
        self._readings: dict[Reading, frozenset[str]] = {}

    def begin_call(self, places: Collection[str]) -> frozenset[str]:
        """A call waits for these places or is under way there, and no reading is, until `end_call` of what
        this gives.
        """
        names = frozenset(map(_place, places))
        with self._guard:
            for name in names:
                self._calls[name] = self._calls.get(name, 0) + 1
            met = self._take_out(names)
        for reading in met:
            reading.stop()
        return names

    def end_call(self, names: frozenset[str]) -> None:
        """That call is over."""
        with self._guard:
            for name in names:
                self._calls[name] -= 1
                if not self._calls[name]:
                    del self._calls[name]

    def make_way(self, places: Collection[str]) -> None:
        """Stop the readings at these places."""
        with self._guard:
            met = self._take_out(frozenset(map(_place, places)))
        for reading in met:
            reading.stop()

    def _take_out(self, names: frozenset[str]) -> list[Reading]:
        """Those there. The guard is held."""
        met = [reading for reading, held in self._readings.items() if held & names]
        for reading in met:
            del self._readings[reading]
        return met

    def begin(self, reading: Reading, address: str, others: Collection[str] = ()) -> bool:
        """The reading begins at an address, if no call and no other reading of this process is there; to be
        ended by `end`. `others`: places besides that it may hold."""
        name = _place(address)
        with self._guard:
            if name in self._calls or any(name in held for held in self._readings.values()):
                return False
            reading.address = address
            self._readings[reading] = frozenset((name, *map(_place, others)))
        return True

    def end(self, reading: Reading) -> None:
        """It is over."""
        with self._guard:
            self._readings.pop(reading, None)
        reading.end()

    def count_at(self, address: str) -> int:
        """How many prompts are read ahead there."""
        name = _place(address)
        with self._guard:
            return sum(name in held for held in self._readings.values())

    def stop_all(self) -> None:
        """The process stops."""
        with self._guard:
            readings = list(self._readings)
            self._readings.clear()
        for reading in readings:
            reading.stop()


def _place(place: str) -> str:
    """An address is one with and without a slash at its end."""
    return place.rstrip("/")


@lru_cache(maxsize=1)
def readings_ahead() -> Readings:
    """Those of this process."""
    return Readings()
