"""What names may use: buckets that fill up within a minute, and sums of days.

Neither belongs to a process, so a killed one gives nothing back. Both only ever merge one way (a bucket never
holds more, a sum is never less, than any process knows), so a store that forgot learns from those who ask it.
Source: spec keys.md 4.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import NamedTuple

FULL_S = 60.0
"""Within so long an empty bucket is full."""

DAY_LIFE_S = 48 * 3600
"""So long a store that survives its processes keeps the sums of a day."""

Sums = dict[str, int]
"""What is counted (`prompt`, `completion`, `requests`, a currency) -> how much of it."""


class Bucket(NamedTuple):
    """`level`: what is in it. `took`: whether the one that was asked for was there."""

    took: bool
    level: float


def refill(level: float, size: int, passed_s: float) -> float:
    """What is in a bucket after so long."""
    return min(float(size), level + max(0.0, passed_s) * size / FULL_S)


def take_from(level: float, wanted: int = 1) -> Bucket:
    """All that is wanted, or nothing."""
    return Bucket(True, level - wanted) if level >= wanted else Bucket(False, level)


def seconds_until(level: float, wanted: float, size: int) -> float:
    """How long it takes until so much is in the bucket."""
    return max(0.0, wanted - level) * FULL_S / size


def merge_sums(there: Sums, amounts: Mapping[str, int], known: Mapping[str, int]) -> None:
    """Add `amounts` to what is there, or known to have been there."""
    for what, total in known.items():
        there[what] = max(there.get(what, 0), total)
    for what, amount in amounts.items():
        there[what] = there.get(what, 0) + amount


class BucketLevels:
    """What a process knows of buckets: no more can be in them, as others only take."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._levels: dict[str, tuple[float, float]] = {}

    def most(self, name: str, size: int) -> float:
        """How much there can be in it now."""
        level, at = self._levels.get(name, (float(size), 0.0))
        return refill(level, size, self._clock() - at)

    def note(self, name: str, level: float) -> None:
        self._levels[name] = level, self._clock()


class DaySums:
    """What a process knows of the sums of days: what it was told last, and what it has not told yet. Days
    that are over are kept until all of them is told. Thread-safe.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._days: dict[tuple[str, str], tuple[Sums, Sums]] = {}

    def _of(self, name: str, day: str) -> tuple[Sums, Sums]:
        found = self._days.get((name, day))
        if found is None:
            found = self._days[name, day] = {}, {}
            self._drop_old(day)
        return found

    def _drop_old(self, day: str) -> None:
        old = [key for key, (_, untold) in self._days.items() if key[1] < day and not untold]
        for key in old:
            del self._days[key]

    def add(self, name: str, day: str, amounts: Mapping[str, int]) -> None:
        """To be told later."""
        with self._lock:
            merge_sums(self._of(name, day)[1], amounts, {})

    def totals(self, name: str, day: str) -> Sums:
        with self._lock:
            known, untold = self._of(name, day)
            totals = dict(known)
        merge_sums(totals, untold, {})
        return totals

    def tell(self, name: str, day: str, tell: Callable[[Sums, Sums], Mapping[str, int]]) -> None:
        """`tell(amounts, known)`: gives the totals. What it raises leaves all as it was."""
        with self._lock:
            known, untold = self._of(name, day)
            amounts, at_least = dict(untold), dict(known)
            untold.clear()
        try:
            totals = tell(amounts, at_least)
        except BaseException:
            self.add(name, day, amounts)
            raise
        with self._lock:
            merge_sums(self._of(name, day)[0], {}, totals)

    def untold(self) -> list[tuple[str, str]]:
        """Name and day of what is not told yet."""
        with self._lock:
            return [key for key, (_, untold) in self._days.items() if untold]
