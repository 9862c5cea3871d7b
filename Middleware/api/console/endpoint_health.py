"""How an endpoint is, seen from its latest calls. Pure. Source: spec console.md 10."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from Middleware.api.console.hour import Call


class Health(NamedTuple):
    """`state`: `well`, `failing`, `quiet`. `since`: the first of the unbroken row of such calls, None without
    one. `failure`: the newest that failed."""

    state: str
    since: float | None
    failure: Call | None


def health_of(calls: Sequence[Call]) -> Health:
    """Of calls, oldest first; one that was broken off says nothing of its endpoint."""
    telling = [call for call in calls if call.ok is not None]
    failure = next((call for call in reversed(telling) if not call.ok), None)
    if not telling:
        return Health("quiet", None, failure)
    newest = since = telling[-1]
    for call in reversed(telling):
        if call.ok != newest.ok:
            break
        since = call
    return Health("well" if newest.ok else "failing", since.unix, failure)
