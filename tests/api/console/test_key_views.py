"""The table of keys on the Overview: whose rows, and how much of its limits a key has used (keys.md 6)."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from Middleware.api.console.key_views import MOST_ROWS, key_rows, keys
from Middleware.config.key_file import KeyEntry, KeyLimits
from Middleware.services.key_limits import KeyNumbers

NOW = 1_800_000_000.0


def numbers(**more):
    told = {"day": "2026-11-29", "requests": 7, "prompt_tokens": 200, "completion_tokens": 100}
    none = {"running": 0, "waiting": 0, "left_requests": None, "left_tokens": None, "costs": {}}
    return KeyNumbers(**{**told, **none, **more})


def rows_of(entries, used, seen=None):
    """What the page is told of these keys, all of which have used as much."""
    rows = key_rows(tuple(entries), seen or {}, lambda entry: used, NOW)
    hub = SimpleNamespace(keys=lambda: (len(entries), rows))
    return keys(SimpleNamespace(hub=hub, words=lambda: None))["keys"]


def share(used, **limits):
    (row,) = rows_of([KeyEntry("ann", "0" * 64, limits=KeyLimits(**limits))], used)
    return row["share"]


SHARES = {
    "none": ({}, {}, {}),
    "concurrent": ({"running": 1}, {"concurrent": 4}, {"concurrent": 0.25}),
    "minute": ({"left_requests": 20}, {"requests_per_minute": 30}, {"requestsPerMinute": 0.333}),
    "tokens": ({}, {"tokens_per_day": 1000}, {"tokensPerDay": 0.3}),
    "no cost yet": ({}, {"cost_per_day": {"USD": 2.5}}, {"costPerDay": 0.0}),
    "cost": ({"costs": {"USD": 500_000}}, {"cost_per_day": {"USD": 2.5}}, {"costPerDay": 0.2}),
    "the currency that is nearest to its limit": (
        {"costs": {"USD": 500_000, "EUR": 900_000, "CHF": 9_000_000}},
        {"cost_per_day": {"USD": 2.5, "EUR": 1}},
        {"costPerDay": 0.9},
    ),
    "over it": ({"costs": {"USD": 4_000_000}}, {"cost_per_day": {"USD": 2.5}}, {"costPerDay": 1.0}),
}


@pytest.mark.parametrize(("used", "limits", "expected"), SHARES.values(), ids=SHARES)
def test_the_share_of_each_limit(used, limits, expected):
    assert share(numbers(**used), **limits) == expected


def test_the_newest_first_and_no_more_than_fit():
    """Those that were never seen come last, by name."""
    entries = [KeyEntry(f"key-{number:03}", f"{number:064x}") for number in range(MOST_ROWS + 5)]
    rows = rows_of(entries, numbers(), {"key-101": NOW - 1, "key-102": NOW})
    assert [row["name"] for row in rows[:3]] == ["key-102", "key-101", "key-000"]
    assert len(rows) == MOST_ROWS


def test_no_row_holds_a_digest():
    assert "0" * 64 not in str(rows_of([KeyEntry("ann", "0" * 64)], numbers()))
