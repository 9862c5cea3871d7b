"""What each user and each model name used today, as far as this process has seen it: counted when a run ends.

No part of it is on the way of an answer, and no text is kept. Source: spec console.md 11, operate.md 5.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from typing import NamedTuple

from Middleware.api.console.run_sums import RunUsage
from Middleware.services.run_trace import RunTrace

MOST_NAMES = 1_000
"""Pairs of a user and a model name that are told apart."""


class DayLine(NamedTuple):
    """Runs that arrived today and have ended. Tokens are those of every call."""

    name: str
    requests: int = 0
    failed: int = 0
    prompt: int = 0
    completion: int = 0

    def plus(self, more: DayLine) -> DayLine:
        return DayLine(
            self.name,
            self.requests + more.requests,
            self.failed + more.failed,
            self.prompt + more.prompt,
            self.completion + more.completion,
        )


class Today:
    """`clock`: Unix seconds. `started`: when it began to count."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock, self.started = clock, clock()
        self._lock = threading.Lock()
        self._day = _day_of(self.started)
        self._lines: dict[tuple[str, str], DayLine] = {}

    def count(self, run: RunTrace, usage: RunUsage) -> None:
        """A run has ended. One that was refused ran under no model name."""
        prompt, completion, _ = usage.whole
        line = DayLine("", 1, int(run.state == "failed"), prompt or 0, completion or 0)
        place = (run.user, "" if run.state == "refused" else run.model or run.user)
        with self._lock:
            if self._turn_day() != _day_of(run.wall):
                return
            if place not in self._lines and len(self._lines) >= MOST_NAMES:
                place = (run.user, "")
            self._lines[place] = line.plus(self._lines.get(place, DayLine("")))

    def by_user(self) -> list[DayLine]:
        """The one with the most requests first."""
        return self._sums(0)

    def by_name(self, user: str = "") -> list[DayLine]:
        """By model names, as they were asked for. `user`: by this one alone; "": by all."""
        return self._sums(1, user)

    def _sums(self, at: int, user: str = "") -> list[DayLine]:
        with self._lock:
            self._turn_day()
            lines = [
                line._replace(name=place[at])
                for place, line in self._lines.items()
                if not user or place[0] == user
            ]
        return sums_by_name(lines)

    def _turn_day(self) -> tuple[int, ...]:
        """The day of now; what was counted on another one is over. The lock is held."""
        day = _day_of(self._clock())
        if day != self._day:
            self._day = day
            self._lines.clear()
        return day


def sums_by_name(lines: Iterable[DayLine]) -> list[DayLine]:
    """One line a name, the one with the most requests first."""
    sums: dict[str, DayLine] = {}
    for line in lines:
        sums[line.name] = line.plus(sums.get(line.name, DayLine(line.name)))
    return sorted(sums.values(), key=lambda line: (-line.requests, line.name))


def _day_of(unix: float) -> tuple[int, ...]:
    """Year, month, day in the server's zone."""
    return time.localtime(unix)[:3]
