"""Who tried too many wrong keys (workbench.md 16.7)."""

from __future__ import annotations

import pytest

from Middleware.api.console.console_door import MOST_ADDRESSES, MOST_WRONG, WITHIN_S, WrongKeys


@pytest.fixture
def clock():
    return [1000.0]


@pytest.fixture
def wrong(clock):
    return WrongKeys(lambda: clock[0])


def _is_over(wrong: WrongKeys, address: str = "10.0.0.1") -> bool:
    return wrong.add(address)[0]


def test_the_eleventh_within_a_minute_is_one_too_many(wrong):
    """Of one address, not of another."""
    assert [_is_over(wrong) for _ in range(MOST_WRONG + 1)] == [False] * MOST_WRONG + [True]
    assert not _is_over(wrong, "10.0.0.2")


def test_only_those_of_the_last_minute_count(wrong, clock):
    """Who stops for as long begins anew."""
    for _ in range(MOST_WRONG):
        wrong.add("10.0.0.1")
    clock[0] += WITHIN_S - 0.1
    assert _is_over(wrong)
    clock[0] += 0.1
    assert not _is_over(wrong)


def test_slow_mistakes_do_not_add_up(wrong, clock):
    """One each seven seconds never is too much."""
    for _ in range(50):
        assert not _is_over(wrong)
        clock[0] += 7


def test_the_log_tells_once_a_minute(wrong, clock):
    """With their number since its last line, for each address."""
    assert [wrong.add("10.0.0.1")[1] for _ in range(5)] == [1, 0, 0, 0, 0]
    assert wrong.add("10.0.0.2")[1] == 1
    clock[0] += WITHIN_S
    assert [wrong.add("10.0.0.1")[1] for _ in range(2)] == [5, 0]


def test_nobody_fills_the_memory(wrong):
    """The oldest addresses are forgotten; each has few times."""
    for number in range(MOST_ADDRESSES + 50):
        for _ in range(MOST_WRONG + 5):
            wrong.add(f"address {number}")
    assert len(wrong._senders) == MOST_ADDRESSES
    assert {len(one.times) for one in wrong._senders.values()} == {MOST_WRONG + 1}
    assert _is_over(wrong, f"address {MOST_ADDRESSES + 49}") and not _is_over(wrong, "address 0")
