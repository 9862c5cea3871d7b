"""The history for Overview: today, hours, days and weeks, and by whom. Source: spec operate.md 5."""

from __future__ import annotations

import sqlite3
import time
from contextlib import suppress

from Middleware.api.console.history_rows import PRIVATE
from Middleware.api.console.today import DayLine
from Middleware.api.console.view_contract import ApiRoute, Ask, ViewRefused
from Middleware.common.costs import MILLION, costs_json
from Middleware.common.types import JsonObject
from Middleware.config.validation import describe_value
from Middleware.services.history import read_history
from Middleware.services.history_sums import (
    NAMES,
    SPANS,
    SlotLine,
    UsageLine,
    day_start,
    lost_runs,
    series_of,
    slot_starts,
    usage_by,
)

NO_HISTORY = "this server keeps no history: start it with --history DIR to see more than the last hour"
_SERIES = ("requests", "failed", "cancelled", "tokens", "first_p50", "first_p95")


def history(ask: Ask) -> JsonObject:
    """GET `history?span=&by=&name=`: `{"span", "starts", "end", "series", "costs", "groups", "lost"}`.

    `span`: `hours`, `days`, `weeks`; `by`: of what `groups` are; `name`: the series are of this one of them
    alone. `starts`: Unix seconds of each slot. `costs`: currency -> a value a slot. 404: none is kept."""
    words = ask.words("span", "by", "name")
    span, by = _word("span", words["span"] or "hours", SPANS), _word("by", words["by"] or "user", NAMES)
    if ask.hub.history is None:
        raise ViewRefused(404, NO_HISTORY)
    now = time.time()
    starts = slot_starts(span, now)
    one_name = by if "name" in ask.query else ""
    try:
        with read_history(ask.hub.history) as sql:
            slots = series_of(sql, starts, one_name, words["name"])
            groups, lost = usage_by(sql, by, starts[0]), lost_runs(sql, starts[0])
    except (OSError, sqlite3.Error) as error:
        raise ViewRefused(503, f"the history cannot be read now: {error}") from error
    return {
        "span": span,
        "starts": starts,
        "end": round(now, 3),
        "series": {name: [getattr(slot, name) for slot in slots] for name in _SERIES},
        "costs": _costs(slots),
        "groups": [_group(line) for line in groups],
        "lost": lost,
    }


def _word(name: str, found: str, allowed: object) -> str:
    known = list(allowed)  # type: ignore[call-overload]
    if found not in known:
        raise ViewRefused(400, f"{name}: found {describe_value(found)}, allowed: {', '.join(known)}")
    return found


def _costs(slots: list[SlotLine]) -> JsonObject:
    currencies = sorted({cost.currency for slot in slots for cost in slot.costs})
    by_slot = [{cost.currency: cost.millionths / MILLION for cost in slot.costs} for slot in slots]
    return {currency: [spent.get(currency, 0.0) for spent in by_slot] for currency in currencies}


def _group(line: UsageLine) -> JsonObject:
    return {
        "name": line.name,
        "requests": line.runs,
        "failed": line.failed,
        "cancelled": line.cancelled,
        "prompt_tokens": line.prompt,
        "completion_tokens": line.completion,
        "held": line.held,
        "first_s": line.first_s,
        "took_s": line.took_s,
        "cost": costs_json(line.costs),
    }


MOST_LINES = 100
"""Of users or of model names."""


def today(ask: Ask) -> JsonObject:
    """GET `today?user=`: `{"user", "model name"}`, what each used today, each `{"since", "whole", "lines"}`.

    `user`: model names count what this user asked alone. `since`: Unix seconds. `whole`: that is midnight.
    Else it is when this process began to count: without a history, and of model names, which a history does
    not know."""
    user = ask.words("user")["user"]
    midnight, counts = day_start(time.time()), ask.hub.hour.today
    since = max(midnight, counts.started)
    users = {"since": round(since), "whole": since == midnight, "lines": _day_lines(counts.by_user())}
    names = {**users, "lines": _day_lines(counts.by_name(user))}
    if ask.hub.history is not None:
        with suppress(OSError, sqlite3.Error), read_history(ask.hub.history) as sql:
            kept = [
                DayLine(
                    "private users" if line.name == PRIVATE else line.name,
                    line.runs,
                    line.failed,
                    line.prompt,
                    line.completion,
                )
                for line in usage_by(sql, "user", midnight)
            ]
            users = {"since": round(midnight), "whole": True, "lines": _day_lines(kept)}
    return {"user": users, "model name": names}


def _day_lines(lines: list[DayLine]) -> list[JsonObject]:
    return [
        {
            "name": line.name,
            "requests": line.requests,
            "failed": line.failed,
            "prompt_tokens": line.prompt,
            "completion_tokens": line.completion,
        }
        for line in lines[:MOST_LINES]
    ]


HISTORY_ROUTES = (ApiRoute("GET", "history", "look", history), ApiRoute("GET", "today", "look", today))
