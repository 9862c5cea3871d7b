"""The history added up: by user, key, endpoint, workflow or day, and over time in hours, days and weeks.

Only reads. Days and weeks are those of the server's zone. Source: spec operate.md 5.
"""

from __future__ import annotations

import math
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from datetime import date, datetime, time, timedelta
from typing import NamedTuple

from Middleware.common.costs import Cost

_DAY = "date(at, 'unixepoch', 'localtime')"
COLUMNS = {"user": "user", "key": "key", "endpoint": "endpoint", "workflow": "workflow", "day": _DAY}
"""By what runs can be added up."""
NAMES = ("user", "key", "endpoint", "workflow")

SPANS = {"hours": 48, "days": 30, "weeks": 13}
"""How many of each the series show."""
_FIRST_DAY = date(1970, 1, 2)
"""Systems know no zone of days before 1970."""


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
    costs = _costs_by(sql, column, since)
    firsts, times = (_medians_by(sql, column, value, since) for value in ("first_s", "took_s"))
    order = "1" if by == "day" else "2 DESC, 1"
    sums = sql.execute(
        f"SELECT {column}, count(*), sum(state = 'failed'), sum(state = 'cancelled'), sum(prompt), "
        f"sum(completion), sum(held) FROM runs WHERE at >= ? GROUP BY 1 ORDER BY {order}",
        (since,),
    )
    lines = []
    for name, runs, failed, cancelled, prompt, completion, held in sums:
        middle = firsts.get(name), times.get(name)
        lines.append(
            UsageLine(name, runs, failed, cancelled, prompt, completion, held, *middle, costs.get(name, ()))
        )
    return lines


def lost_runs(sql: sqlite3.Connection, since: float) -> int:
    """How many runs could not be written. Raises `sqlite3.Error`."""
    [lost] = sql.execute("SELECT coalesce(sum(runs), 0) FROM lost WHERE at >= ?", (since,)).fetchone()
    return int(lost)


def series_of(
    sql: sqlite3.Connection, starts: Sequence[float], by: str = "", name: str = ""
) -> list[SlotLine]:
    """A line for each slot that begins at one of `starts`, the oldest first; the last one ends now.

    `by`, `name`: only of the runs that have this in common (`NAMES`). Raises `sqlite3.Error`."""
    where, more = ("", ()) if not by else (f" AND {COLUMNS[by]} = ?", (name,))
    ends = [*starts[1:], math.inf]
    return [
        _slot_line(sql, f"at >= ? AND at < ?{where}", (begin, end, *more))
        for begin, end in zip(starts, ends, strict=True)
    ]


def _slot_line(sql: sqlite3.Connection, where: str, values: tuple[float | str, ...]) -> SlotLine:
    """The database does the work: other threads go on meanwhile."""
    requests, failed, cancelled, tokens, with_words = sql.execute(
        "SELECT count(*), coalesce(sum(state = 'failed'), 0), coalesce(sum(state = 'cancelled'), 0), "
        f"coalesce(sum(completion), 0), count(first_s) FROM runs WHERE {where}",
        values,
    ).fetchone()

    def first(share: float) -> float | None:
        """The seconds within which this share of them had its first word."""
        found = sql.execute(
            f"SELECT first_s FROM runs WHERE {where} AND first_s IS NOT NULL ORDER BY 1 LIMIT 1 OFFSET ?",
            (*values, math.ceil(share * with_words) - 1),
        ).fetchone()
        return round(found[0], 3) if found else None

    costs = sql.execute(
        "SELECT currency, sum(millionths), max(about) FROM runs JOIN costs ON costs.run = runs.id "
        f"WHERE {where} GROUP BY 1 ORDER BY 1",
        values,
    )
    return SlotLine(
        requests=requests,
        failed=failed,
        cancelled=cancelled,
        tokens=tokens,
        first_p50=first(0.5) if with_words else None,
        first_p95=first(0.95) if with_words else None,
        costs=tuple(Cost(currency, spent, bool(about)) for currency, spent, about in costs),
    )


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


def _medians_by(sql: sqlite3.Connection, column: str, value: str, since: float) -> dict[object, float]:
    found = sql.execute(
        f"SELECT name, value FROM (SELECT {column} AS name, {value} AS value, "
        f"row_number() OVER (PARTITION BY {column} ORDER BY {value}) AS place, "
        f"count(*) OVER (PARTITION BY {column}) AS many "
        f"FROM runs WHERE at >= ? AND {value} IS NOT NULL) WHERE place = (many + 1) / 2",
        (since,),
    )
    return {name: round(middle, 3) for name, middle in found}


# --------------------------------------------------------------------------
# Hours, days and weeks of the server's zone, as Unix seconds of their beginnings.


def day_start(now: float, back: int = 0) -> float:
    """The midnight before `now`, or of a day that is so many before. A day may have 23 or 25 hours."""
    day = max(datetime.fromtimestamp(now).date() - timedelta(days=back), _FIRST_DAY)
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
