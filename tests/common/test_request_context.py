"""What is true for one request, and where it can be read."""

from __future__ import annotations

import contextvars
import dataclasses
import threading
from typing import ClassVar

import pytest

from Middleware.common.request_context import (
    EndpointReach,
    RequestContext,
    UsageSum,
    current_request,
    enter_request,
)

MIRA = RequestContext("r1", "mira", "openaichatcompletion", api_key="k-123")
JO = RequestContext("r2", "jo", "ollamachat")


def test_it_never_changes():
    """A value."""
    with pytest.raises(dataclasses.FrozenInstanceError):
        MIRA.user = "jo"  # type: ignore[misc]


def test_its_key_is_not_printed():
    """In no log line by accident."""
    assert "k-123" not in repr(MIRA)


@pytest.mark.parametrize(("folder", "name"), [(None, "mira"), ("", "mira"), ("novel", "mira:novel")])
def test_the_name_that_answers_carry(folder, name):
    """The user's, with the workflow that was picked."""
    assert dataclasses.replace(MIRA, workflow_folder=folder).model_name == name


def test_what_is_called_before_the_wait_may_be_nothing():
    """By default."""
    assert MIRA.setup_done() is None


class TestEntered:
    def test_the_current_one(self):
        """Inside the block, the innermost; outside none, whatever happens."""
        assert current_request() is None
        with enter_request(MIRA) as given:
            assert given is MIRA and current_request() is MIRA
            with pytest.raises(RuntimeError), enter_request(JO):
                assert current_request() is JO
                raise RuntimeError
            assert current_request() is MIRA
        assert current_request() is None

    def test_other_threads_do_not_see_it(self):
        """Unless they run in a copied context."""
        seen = []
        with enter_request(MIRA):
            copied = contextvars.copy_context()
            for target in (lambda: seen.append(current_request()), lambda: copied.run(look, seen)):
                thread = threading.Thread(target=target)
                thread.start()
                thread.join()
        assert seen == [None, MIRA]


def look(seen):
    seen.append(current_request())


class TestUsageSum:
    CALL: ClassVar = {"prompt_tokens": 5, "completion_tokens": 2, "total_tokens": 7}

    def test_nothing_is_no_sum_of_zeros(self):
        """No model was asked."""
        assert UsageSum().numbers() is None

    def test_calls_of_many_threads(self):
        """Nodes of a parallel group add at the same time."""
        usage = UsageSum()
        threads = [
            threading.Thread(target=lambda: [usage.add(self.CALL) for _ in range(500)]) for _ in range(8)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert list((usage.numbers() or {}).items()) == [
            ("prompt_tokens", 20000),
            ("completion_tokens", 8000),
            ("calls", 4000),
        ]

    def test_what_the_backends_held(self):
        """Is told when each of them said it."""
        usage = UsageSum()
        usage.add({**self.CALL, "cached_tokens": 4})
        usage.add({**self.CALL, "cached_tokens": 0})
        assert list((usage.numbers() or {}).items())[-1] == ("cached_tokens", 4)

    def test_one_that_did_not_say_what_it_held(self):
        """Makes the sum unknown, whatever the others say."""
        usage = UsageSum()
        usage.add({**self.CALL, "cached_tokens": 4})
        usage.add(self.CALL)
        usage.add({**self.CALL, "cached_tokens": 4})
        assert "cached_tokens" not in (usage.numbers() or {})

    def test_what_comes_when_it_is_closed(self):
        """Belongs to nodes after the answer."""
        usage = UsageSum()
        usage.add(self.CALL)
        usage.close()
        usage.add(self.CALL)
        assert usage.numbers() == {"prompt_tokens": 5, "completion_tokens": 2, "calls": 1}


def test_reach_is_missing_until_something_was_reached():
    """What fails later is no longer the first thing that happened."""
    reach = EndpointReach()
    assert not reach.missing
    reach.note_failure()
    assert reach.missing
    reach.note_success()
    reach.note_failure()
    assert not reach.missing
