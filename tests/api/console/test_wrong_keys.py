"""Who tried too many wrong keys at the console (workbench.md 16.7)."""

from __future__ import annotations

import pytest

from Middleware.api.console.console_door import MOST_WRONG, WITHIN_S, WrongKeys
from Middleware.api.requests.wrong_keys import MOST_ADDRESSES


@pytest.fixture
def clock():
    return [1000.0]


@pytest.fixture
def wrong(clock):
    return WrongKeys(lambda: clock[0])


def test_the_eleventh_within_a_minute_is_one_too_many(wrong):
    """Of one address, not of another."""
    assert [wrong.add("10.0.0.1") for _ in range(MOST_WRONG + 1)] == [False] * MOST_WRONG + [True]
    assert not wrong.add("10.0.0.2")


def test_only_those_of_the_last_minute_count(wrong, clock):
    """Who stops for as long begins anew."""
    for _ in range(MOST_WRONG):
        wrong.add("10.0.0.1")
    clock[0] += WITHIN_S - 0.1
    assert wrong.add("10.0.0.1")
    clock[0] += WITHIN_S
    assert not wrong.add("10.0.0.1")


def test_slow_mistakes_do_not_add_up(wrong, clock):
    """One each seven seconds never is too much."""
    for _ in range(50):
        assert not wrong.add("10.0.0.1")
        clock[0] += 7


def test_nobody_fills_the_memory(wrong):
    """The oldest addresses are forgotten; each has few times."""
    for number in range(MOST_ADDRESSES + 50):
        for _ in range(MOST_WRONG + 5):
            wrong.add(f"address {number}")
    assert len(wrong._times) == MOST_ADDRESSES
    assert {len(times) for times in wrong._times.values()} == {MOST_WRONG + 1}
    assert wrong.add(f"address {MOST_ADDRESSES + 49}") and not wrong.add("address 0")
