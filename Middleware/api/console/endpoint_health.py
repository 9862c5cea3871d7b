"""How an endpoint is, seen from its latest calls. Pure. Source: spec console.md 10."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

CANCELLED = frozenset({"cancelled", "closed", "dropped"})
"""How a call ends that says nothing of its endpoint: somebody did not want it any more."""


class Call(NamedTuple):
    """One call. `at`: Unix seconds. `first_s`: to its first output, None without one. `rate`: tokens a
    second, None where it cannot be told. `kind`, `text`: of a failure."""

    at: float
    first_s: float | None
    rate: float | None
    ok: bool
    kind: str = ""
    text: str = ""

    @property
    def tells(self) -> bool:
        return self.kind not in CANCELLED


class Health(NamedTuple):
    """`state`: `well`, `failing`, `quiet`. `since`: the first of the unbroken row of such calls, None without
    one. `failure`: the newest that failed."""

    state: str
    since: float | None
    failure: Call | None
    first_s: float | None
    rate: float | None


def calls_of(rows: Iterable[Sequence[Any]]) -> list[Call]:
    """Oldest first."""
    return sorted((Call(*row) for row in rows), key=lambda call: call.at)


def health_of(calls: Sequence[Call]) -> Health:
    """Of calls, oldest first; those that were cancelled say nothing."""
    telling = [call for call in calls if call.tells]
    failure = next((call for call in reversed(telling) if not call.ok), None)
    first_s = _median(call.first_s for call in telling)
    rate = _median(call.rate for call in telling)
    if not telling:
        return Health("quiet", None, failure, first_s, rate)
    newest = since = telling[-1]
    for call in reversed(telling):
        if call.ok != newest.ok:
            break
        since = call
    return Health("well" if newest.ok else "failing", since.at, failure, first_s, rate)


def _median(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return round(statistics.median(known), 3) if known else None
