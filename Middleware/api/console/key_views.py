"""Who holds a key of the keys file, in numbers of today: the table of the Overview.

No answer holds a key or a digest. Source: spec keys.md 6, console.md 2.6, 11.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from Middleware.api.console.view_contract import ApiRoute, Ask, KeyRow
from Middleware.common.costs import MILLION
from Middleware.common.types import JsonObject
from Middleware.config.key_file import KeyEntry, limits_json
from Middleware.services.key_limits import KeyNumbers

MOST_ROWS = 100
"""So many keys are shown, those that were seen last: each asks the shared state for its numbers."""


def key_rows(
    entries: tuple[KeyEntry, ...],
    seen: Mapping[str, float],
    numbers_of: Callable[[KeyEntry], KeyNumbers],
    now: float,
) -> list[KeyRow]:
    """The newest first, then those that were never seen, by name. `seen`: name -> Unix seconds of its last
    request to this process. `now`: Unix seconds.
    """
    newest = sorted(entries, key=lambda entry: (-seen.get(entry.name, 0.0), entry.name.casefold()))
    return [
        KeyRow(entry, numbers_of(entry), seen.get(entry.name), entry.has_expired(now))
        for entry in newest[:MOST_ROWS]
    ]


def keys(ask: Ask) -> JsonObject:
    """GET `keys`: `{"keys": [...], "count"}`; both null without a keys file. `share`: how much of each limit
    is used, 0 to 1.
    """
    ask.words()
    told = ask.hub.keys()
    if told is None:
        return {"keys": None, "count": None}
    count, rows = told
    return {"keys": [_row_json(row) for row in rows], "count": count}


def _row_json(row: KeyRow) -> JsonObject:
    entry, numbers = row.entry, row.numbers
    return {
        "name": entry.name,
        "users": list(entry.users),
        "priority": entry.priority,
        "requests": numbers.requests,
        "tokens": numbers.prompt_tokens + numbers.completion_tokens,
        "running": numbers.running,
        "waiting": numbers.waiting,
        "limits": limits_json(entry.limits),
        "share": _shares(entry, numbers),
        "seen": None if row.seen is None else round(row.seen),
        "expired": row.expired,
    }


def _shares(entry: KeyEntry, numbers: KeyNumbers) -> JsonObject:
    limits = entry.limits
    used = {
        "concurrent": (numbers.running, limits.concurrent),
        "requestsPerMinute": (
            _taken(limits.requests_per_minute, numbers.left_requests),
            limits.requests_per_minute,
        ),
        "tokensPerDay": (numbers.prompt_tokens + numbers.completion_tokens, limits.tokens_per_day),
    }
    shares = {name: taken / most for name, (taken, most) in used.items() if most}
    spent = [
        numbers.costs.get(currency, 0) / (amount * MILLION)
        for currency, amount in limits.cost_per_day.items()
    ]
    if spent:  # the currency that is nearest to its limit
        shares["costPerDay"] = max(spent)
    return {name: round(min(1.0, share), 3) for name, share in shares.items()}


def _taken(most: int | None, left: int | None) -> int:
    return 0 if most is None or left is None else max(0, most - left)


KEY_ROUTES = (ApiRoute("GET", "keys", "look", keys),)
