"""When the log tells of wrong keys (keys.md 3)."""

from __future__ import annotations

from Middleware.api.requests.wrong_keys import LINE_EACH_S, MOST_ADDRESSES, WrongKeyLines


def test_once_a_minute_with_their_number():
    """Since its last line, for each address."""
    clock = [1000.0]
    lines = WrongKeyLines(lambda: clock[0])
    assert [lines.add("10.0.0.1") for _ in range(5)] == [1, 0, 0, 0, 0]
    assert lines.add("10.0.0.2") == 1
    clock[0] += LINE_EACH_S
    assert [lines.add("10.0.0.1") for _ in range(2)] == [5, 0]


def test_nobody_fills_the_memory():
    """The oldest addresses are forgotten: they have a line of their own again."""
    lines = WrongKeyLines(lambda: 1000.0)
    for number in range(MOST_ADDRESSES + 1):
        lines.add(f"address {number}")
    assert len(lines._seen) == MOST_ADDRESSES
    assert (lines.add(f"address {MOST_ADDRESSES}"), lines.add("address 0")) == (0, 1)
