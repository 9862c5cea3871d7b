"""A request's work lasts until its last holder lets go (frontend-api.md 15.4)."""

from __future__ import annotations

import logging

import pytest

from Middleware.api.client_watch import Watch
from Middleware.api.requests.request_life import HeldBody, RequestLife


@pytest.fixture
def life():
    return RequestLife("r")


def test_endings_run_when_the_last_holder_releases(life):
    """The last registered first."""
    order = []
    life.at_end(lambda: order.append("first"))
    life.at_end(lambda: order.append("second"))
    life.hold()
    life.release()
    assert order == []
    life.release()
    assert order == ["second", "first"]


def test_an_ending_that_fails_does_not_keep_the_others(life, caplog):
    """A slot is never left taken."""
    ran = []

    def fail():
        raise OSError("no")

    life.at_end(lambda: ran.append(1))
    life.at_end(fail)
    with caplog.at_level(logging.ERROR):
        life.release()
    assert ran == [1] and "request r" in caplog.text


def test_the_end_stops_the_watch(life):
    """The connection serves the next request."""
    life.watch = Watch(lambda: False, lambda: None)
    life.release()
    assert not life.watch.active


def test_a_complete_answer_may_be_left(life):
    """The client is no longer watched."""
    life.watch = Watch(lambda: False, lambda: None)
    life.stop_watching()
    assert life.answered and not life.watch.active


class TestHeldBody:
    def test_it_gives_the_body_itself(self):
        """No layer costs anything for each piece."""
        pieces = [b"a", b"b"]
        assert list(HeldBody(pieces, lambda: None)) == pieces

    def test_closing_releases_once(self):
        """Also when the server closes twice."""
        released = []
        body = HeldBody([], lambda: released.append(1))
        body.close()
        body.close()
        assert released == [1]

    def test_the_body_is_closed_first(self):
        """And the release happens even if that fails."""
        order = []

        class Body:
            def __iter__(self):
                return iter(())

            def close(self):
                order.append("closed")
                raise OSError("gone")

        with pytest.raises(OSError, match="gone"):
            HeldBody(Body(), lambda: order.append("released")).close()
        assert order == ["closed", "released"]
