"""Who may probe now: console.md 10."""

from __future__ import annotations

import threading

import pytest

from Middleware.api.console.view_contract import AT_ONCE, EACH_S, NotNow, Probes
from tests.clock import Clock
from tests.patience import PATIENCE_S


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def probes(clock):
    return Probes(clock)


def test_the_last_one_is_kept(probes):
    assert probes.last(("mira", "Big")) is None
    probes.run(("mira", "Big"), lambda: {"well": True})
    assert probes.last(("mira", "Big")) == {"well": True}


@pytest.mark.parametrize(("later", "allowed"), [(EACH_S - 0.1, False), (EACH_S, True)])
def test_one_each_ten_seconds(probes, clock, later, allowed):
    """Of one endpoint; another is another."""
    probes.run(("mira", "Big"), dict)
    clock.now = later
    probes.run(("mira", "Small"), dict)
    refused = []
    try:
        probes.run(("mira", "Big"), dict)
    except NotNow as wait:
        refused.append(round(wait.wait_s, 1))
    assert refused == ([] if allowed else [0.1])


def nested(probes, count, then):
    """`count` probes that run at once, and inside of them `then()`."""
    if not count:
        return then()
    return probes.run(("mira", str(count)), lambda: nested(probes, count - 1, then))


def test_at_most_four_at_once(probes):
    assert nested(probes, AT_ONCE, lambda: {"ran": True}) == {"ran": True}


def test_not_five(probes):
    with pytest.raises(NotNow, match="4 endpoints are already being probed"):
        nested(probes, AT_ONCE + 1, dict)


def test_one_at_a_time(probes, clock):
    """Even when it takes longer than ten seconds."""

    def again():
        clock.now += 2 * EACH_S
        return probes.run(("mira", "Big"), dict)

    with pytest.raises(NotNow, match="already being probed"):
        probes.run(("mira", "Big"), again)


def test_one_that_fails_makes_room(probes, clock):
    """It has taken its turn all the same."""
    with pytest.raises(ZeroDivisionError):
        probes.run(("mira", "Big"), lambda: {"a": 1 / 0})
    clock.now = EACH_S
    assert probes.run(("mira", "Big"), lambda: {"well": True}) == {"well": True}


def test_of_many_threads_one_gets_its_turn(probes):
    """Two at once would be two calls of one model."""
    begin, told = threading.Barrier(8), []

    def ask():
        begin.wait(PATIENCE_S)
        try:
            told.append(probes.run(("mira", "Big"), lambda: {"well": True}))
        except NotNow:
            told.append(None)

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE_S)
    assert sorted(told, key=str) == [*([None] * 7), {"well": True}]
