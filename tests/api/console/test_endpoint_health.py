"""How an endpoint is, from its latest calls: console.md 10."""

from __future__ import annotations

import pytest

from Middleware.api.console.endpoint_health import calls_of, health_of

GOOD = (0.5, 30.0, True, "", "")
BAD = (None, None, False, "timeout", "no answer")
LEFT = (None, None, False, "cancelled", "")


def health(*calls):
    return health_of(calls_of([(10.0 + at, *call) for at, call in enumerate(calls)]))


@pytest.mark.parametrize(
    ("calls", "state", "since"),
    [
        ((), "quiet", None),
        ((LEFT, LEFT), "quiet", None),
        ((GOOD,), "well", 10.0),
        ((BAD, GOOD, GOOD), "well", 11.0),
        ((GOOD, BAD, BAD), "failing", 11.0),
        ((GOOD, BAD, LEFT, BAD, LEFT), "failing", 11.0),
        ((BAD, GOOD, LEFT), "well", 11.0),
    ],
)
def test_state_and_since(calls, state, since):
    """What was cancelled says nothing of the endpoint, and breaks no row."""
    made = health(*calls)
    assert (made.state, made.since) == (state, since)


def test_the_order_of_what_is_given_does_not_matter():
    rows = [(12.0, *BAD), (10.0, *GOOD), (11.0, *BAD)]
    assert health_of(calls_of(rows)).since == 11.0


def test_medians_of_what_is_known():
    made = health(GOOD, (1.5, None, True, "", ""), (2.5, 10.0, True, "", ""), LEFT, BAD)
    assert (made.first_s, made.rate) == (1.5, 20.0)


def test_no_medians_of_nothing():
    assert health(BAD)[3:] == (None, None)


def test_the_newest_failure_is_told_when_all_is_well_again():
    made = health(BAD, GOOD)
    assert (made.failure.at, made.failure.kind) == (10.0, "timeout")
