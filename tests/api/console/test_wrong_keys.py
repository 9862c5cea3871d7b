"""Who tried too many wrong keys (console.md 2.4)."""

from __future__ import annotations

import pytest

from Middleware.api.console.console_door import MOST_ADDRESSES, MOST_LOOKS, MOST_WRONG, WrongKeys


@pytest.fixture
def clock():
    return [1000.0]


@pytest.fixture
def wrong(clock):
    return WrongKeys(lambda: clock[0])


def test_ten_within_a_minute_shut_out(wrong):
    """The one address, not another."""
    for _ in range(MOST_WRONG - 1):
        wrong.add("10.0.0.1")
    assert not wrong.shuts_out("10.0.0.1")
    wrong.add("10.0.0.1")
    assert wrong.shuts_out("10.0.0.1") and not wrong.shuts_out("10.0.0.2")


def test_for_a_minute(wrong, clock):
    """Then it may try again, ten times."""
    for _ in range(MOST_WRONG):
        wrong.add("10.0.0.1")
    clock[0] += 59.9
    assert wrong.shuts_out("10.0.0.1")
    clock[0] += 0.1
    assert not wrong.shuts_out("10.0.0.1")
    wrong.add("10.0.0.1")
    assert not wrong.shuts_out("10.0.0.1")


def test_its_keys_are_still_looked_at(wrong, clock):
    """The owner may have this address, too; but nobody guesses at full speed."""
    for _ in range(MOST_LOOKS - 1):
        wrong.add("10.0.0.1")
    assert wrong.shuts_out("10.0.0.1") and wrong.looks_at("10.0.0.1")
    wrong.add("10.0.0.1")
    assert not wrong.looks_at("10.0.0.1") and wrong.looks_at("10.0.0.2")
    clock[0] += 1.0
    assert wrong.looks_at("10.0.0.1")
    wrong.add("10.0.0.1")
    assert wrong.looks_at("10.0.0.1")


def test_slow_mistakes_do_not_add_up(wrong, clock):
    """Only those of the last minute count."""
    for _ in range(50):
        wrong.add("10.0.0.1")
        clock[0] += 7
    assert not wrong.shuts_out("10.0.0.1")


def test_nobody_fills_the_memory(wrong):
    """The oldest addresses are forgotten; each has few times."""
    for number in range(MOST_ADDRESSES + 50):
        for _ in range(MOST_LOOKS + 5):
            wrong.add(f"address {number}")
    assert len(wrong._times) == MOST_ADDRESSES
    assert {len(times) for times in wrong._times.values()} == {MOST_LOOKS}
    assert wrong.shuts_out(f"address {MOST_ADDRESSES + 49}") and not wrong.shuts_out("address 0")
