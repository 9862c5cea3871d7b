"""How an endpoint is, from its latest calls: console.md 10."""

from __future__ import annotations

import pytest

from Middleware.api.console.endpoint_views import health_of
from Middleware.api.console.hour import Call

GOOD = (0.5, 30.0, True, "", "")
BAD = (None, None, False, "timeout", "no answer")
LEFT = (None, None, None, "", "")


def health(*calls):
    return health_of([Call(10.0 + at, *call) for at, call in enumerate(calls)])


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
    """What was broken off says nothing of the endpoint, and breaks no row."""
    made = health(*calls)
    assert (made.state, made.since) == (state, since)


def test_the_newest_failure_is_told_when_all_is_well_again():
    made = health(BAD, GOOD)
    assert (made.failure.unix, made.failure.kind) == (10.0, "timeout")
