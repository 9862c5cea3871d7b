"""The history added up: by user, key, endpoint, workflow or day, and over time in hours, days and weeks.

Only reads. Days and weeks are those of the server's zone. Source: spec operate.md 5.
"""

from __future__ import annotations

import math
import sqlite3
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, time, timedelta
from typing import NamedTuple

from Middleware.common.costs import Cost, add_costs

_DAY = "date(at, 'unixepoch', 'localtime')"
COLUMNS = {"user": "user", "key": "key", "endpoint": "endpoint", "workflow": "workflow", "day": _DAY}
"""By what runs can be added up."""
NAMES = ("user", "key", "endpoint", "workflow")

SPANS = {"hours": 48, "days": 30, "weeks": 13}
"""How many of each the series show."""


class UsageLine(NamedTuple):
    """The sum of some runs. `name`: what they have in common, empty: they have none. `first_s`, `took_s`: in
    the middle of those that had a first word, and of all; None: there is none. `held`: None: no backend
    said."""

    name: str
    runs: int
    failed: int
    cancelled: int
    prompt: int
    completion: int
    held: int | None
    first_s: float | None
    took_s: float | None
    costs: tuple[Cost, ...]


class SlotLine(NamedTuple):
    """The runs of an hour, a day or a week. `first_p50`, `first_p95`: seconds until the first word, None:
    none had one."""

    requests: int
    failed: int
    cancelled: int
    tokens: int
    first_p50: float | None
    first_p95: float | None
    costs: tuple[Cost, ...]


def usage_by(sql: sqlite3.Connection, by: str, since: float) -> list[UsageLine]:
    """A line for each value of `by` (a key of `COLUMNS`) among the runs that arrived since, in Unix seconds.

    Days in their order, everything else with the most runs first. Raises `sqlite3.Error`."""
    column = COLUMNS[by]
    costs, firsts, times = _costs_by(sql, column, since), _Values(), _Values()
    for name, first_s, took_s in sql.execute(
        f"SELECT {column}, first_s, took_s FROM runs WHERE at >= ?", (since,)
    ):
        firsts.add(name, first_s)
        times.add(name, took_s)
    order = "1" if by == "day" else "2 DESC, 1"
    sums = sql.execute(
        f"SELECT {column}, count(*), sum(state = 'failed'), sum(state = 'cancelled'), sum(prompt), "
        f"sum(completion), sum(held) FROM runs WHERE at >= ? GROUP BY 1 ORDER BY {order}",
        (since,),
    )
    lines = []
    for name, runs, failed, cancelled, prompt, completion, held in sums:
        middle = firsts.at(name, 0.5), times.at(name, 0.5)
        spent = costs.get(name, ())
        lines.append(UsageLine(name, runs, failed, cancelled, prompt, completion, held, *middle, spent))
    return lines


def lost_runs(sql: sqlite3.Connection, since: float) -> int:
    """How many runs could not be written. Raises `sqlite3.Error`."""
    [lost] = sql.execute("SELECT coalesce(sum(runs), 0) FROM lost WHERE at >= ?", (since,)).fetchone()
    return int(lost)


def cost_of_day(sql: sqlite3.Connection, key: str, now: float) -> tuple[Cost, ...]:
    """What the runs of a key have cost since midnight, a sum for each currency. Raises `sqlite3.Error`."""
    found = sql.execute(
        "SELECT currency, millionths, about FROM costs JOIN runs ON runs.id = costs.run "
        "WHERE runs.at >= ? AND runs.key = ?",
        (day_start(now), key),
    )
    return add_costs(Cost(currency, millionths, bool(about)) for currency, millionths, about in found)


def series_of(
    sql: sqlite3.Connection, starts: Sequence[float], by: str = "", name: str = ""
) -> list[SlotLine]:
    """A line for each slot that begins at one of `starts`, the oldest first; the last one ends now.

    `by`, `name`: only of the runs that have this in common (`NAMES`). Raises `sqlite3.Error`."""
    where, values = "at >= ?", [starts[0], name][: 2 if by else 1]
    if by:
        where += f" AND {COLUMNS[by]} = ?"
    ends, tokens = [Counter[str]() for _ in starts], Counter[int]()
    firsts, costs = _Values(), defaultdict[int, list[Cost]](list)
    for at, state, count, first_s in sql.execute(
        f"SELECT at, state, completion, first_s FROM runs WHERE {where}", values
    ):
        slot = bisect_right(starts, at) - 1
        ends[slot][state] += 1
        tokens[slot] += count
        firsts.add(slot, first_s)
    for at, currency, millionths, about in sql.execute(
        f"SELECT at, currency, millionths, about FROM costs JOIN runs ON runs.id = costs.run WHERE {where}",
        values,
    ):
        costs[bisect_right(starts, at) - 1].append(Cost(currency, millionths, bool(about)))
    return [
        SlotLine(
            requests=ended.total(),
            failed=ended["failed"],
            cancelled=ended["cancelled"],
            tokens=tokens[slot],
            first_p50=firsts.at(slot, 0.5),
            first_p95=firsts.at(slot, 0.95),
            costs=add_costs(costs[slot]),
        )
        for slot, ended in enumerate(ends)
    ]


def _costs_by(sql: sqlite3.Connection, column: str, since: float) -> dict[object, tuple[Cost, ...]]:
    sums = sql.execute(
        f"SELECT {column}, currency, sum(millionths), max(about) FROM costs JOIN runs ON runs.id = costs.run "
        "WHERE at >= ? GROUP BY 1, 2 ORDER BY 2",
        (since,),
    )
    costs: dict[object, tuple[Cost, ...]] = {}
    for name, currency, millionths, about in sums:
        costs[name] = (*costs.get(name, ()), Cost(currency, millionths, bool(about)))
    return costs


class _Values:
    """Lists of seconds by what they belong to."""

    def __init__(self) -> None:
        self._of: dict[object, list[float]] = {}

    def add(self, name: object, value: float | None) -> None:
        if value is not None:
            self._of.setdefault(name, []).append(value)

    def at(self, name: object, share: float) -> float | None:
        """The value under which this share of them is; None: there are none."""
        values = sorted(self._of.get(name, ()))
        return round(values[math.ceil(share * len(values)) - 1], 3) if values else None


# --------------------------------------------------------------------------
# Hours, days and weeks of the server's zone, as Unix seconds of their beginnings.


def day_start(now: float, back: int = 0) -> float:
    """The midnight before `now`, or of a day that is so many before. A day may have 23 or 25 hours."""
    day = datetime.fromtimestamp(now).date() - timedelta(days=back)
    return datetime.combine(day, time()).astimezone().timestamp()


def slot_starts(span: str, now: float) -> list[float]:
    """The beginnings of the last hours, days or weeks (`SPANS`), the oldest first. Weeks begin on Monday."""
    return list(_starts(span, now))[::-1]


def _starts(span: str, now: float) -> Iterable[float]:
    if span == "hours":
        return _hours(now)
    weekday = datetime.fromtimestamp(now).weekday() if span == "weeks" else 0
    step = 7 if span == "weeks" else 1
    return (day_start(now, weekday + step * back) for back in range(SPANS[span]))


def _hours(now: float) -> Iterator[float]:
    here = datetime.fromtimestamp(now).astimezone()
    begun = here.replace(minute=0, second=0, microsecond=0).timestamp()
    return (begun - 3600 * back for back in range(SPANS["hours"]))
