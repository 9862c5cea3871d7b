"""Running requests by a name of their client's (more-fronts.md 4.5, 6.5)."""

from __future__ import annotations

import pytest

from Middleware.api.requests.request_life import NamedRequests, RequestLife
from Middleware.services.cancellation_service import cancellation_service


@pytest.fixture
def running():
    return NamedRequests()


@pytest.fixture
def lives():
    made = [RequestLife("n1"), RequestLife("n2")]
    for life in made:
        cancellation_service.begin(life.request_id)
    yield made
    for life in made:
        cancellation_service.acknowledge_cancellation(life.request_id)


def test_a_name_lasts_as_long_as_the_life(running, lives):
    """Nothing is left of it then."""
    named = running.add("k", lives[0])
    assert running.of("k") == [named] and running.of("other") == []
    lives[0].release()
    assert running.of("k") == [] and len(running) == 0


def test_a_name_may_be_given_twice(running, lives):
    """Both are found; the end of one leaves the other."""
    first, second = (running.add("k", life) for life in lives)
    assert running.of("k") == [first, second]
    lives[0].release()
    assert running.of("k") == [second]


def test_cancel(running, lives):
    """All of the name and no other."""
    running.add("k", lives[0])
    running.add("j", lives[1])
    assert running.cancel("k") and not running.cancel("nobody")
    assert [cancellation_service.is_cancelled(life.request_id) for life in lives] == [True, False]
    assert cancellation_service.reason(lives[0].request_id) == "DELETE"


def test_an_answer_that_is_complete_is_not_cancelled(running, lives):
    """What runs on after it is not the client's any more."""
    running.add("k", lives[0])
    lives[0].stop_watching()
    assert not running.cancel("k") and not cancellation_service.is_cancelled("n1")
