"""A retry replaces the request that it repeats (frontend-api.md 14)."""

from __future__ import annotations

import hashlib
import logging

import pytest

from Middleware.services.cancellation_service import CancellationService
from Middleware.services.idempotency_service import (
    BINDING_LIFETIME_S,
    MAX_BINDINGS,
    IdempotencyService,
    scoped_key,
)


@pytest.fixture
def clock():
    return [0.0]


@pytest.fixture
def cancellation():
    return CancellationService()


@pytest.fixture
def service(cancellation, clock):
    return IdempotencyService(cancellation, clock=lambda: clock[0])


def test_keys_are_scoped_by_the_api_key():
    """Two clients that use the same key do not disturb each other."""
    assert scoped_key("k", None) == "anon:k"
    assert scoped_key("k", "one") != scoped_key("k", "two")
    assert scoped_key("k", "one") == f"{hashlib.sha256(b'one').hexdigest()[:16]}:k"
    assert scoped_key("k", "o\ud83d") != scoped_key("k", "o")


def test_a_retry_cancels_the_request_that_still_runs(service, cancellation):
    """And is told which one it was."""
    cancellation.begin("first")
    assert service.admit("k", "first") is None
    assert service.admit("k", "second") == "first"
    assert cancellation.is_cancelled("first")
    assert cancellation.reason("first") == "a newer request with its key"
    assert service.bindings() == {"k": "second"}


def test_a_request_that_has_ended_is_not_cancelled(service, cancellation):
    """Its binding was only forgotten."""
    service.admit("k", "first")
    assert service.admit("k", "second") is None
    assert not cancellation.is_cancelled("first")


def test_the_same_request_twice_is_no_retry(service, cancellation):
    """A request does not displace itself."""
    cancellation.begin("first")
    service.admit("k", "first")
    assert service.admit("k", "first") is None


def test_a_displaced_request_leaves_its_successors_binding(service):
    """Release only removes what points at the request."""
    service.admit("k", "second")
    service.release("k", "first")
    assert service.bindings() == {"k": "second"}
    service.release("k", "second")
    assert service.bindings() == {}


def test_whether_a_request_that_runs_holds_a_key(service, cancellation):
    """From its admission until it is released or has ended."""
    assert not service.is_held("k")
    cancellation.begin("first")
    service.admit("k", "first")
    assert service.is_held("k")
    service.release("k", "first")
    assert not service.is_held("k")
    service.admit("k", "first")
    cancellation.acknowledge_cancellation("first")
    assert not service.is_held("k")


def test_the_oldest_binding_is_dropped_at_the_limit(service, caplog):
    """With a warning, and without cancelling."""
    with caplog.at_level(logging.WARNING):
        for number in range(MAX_BINDINGS + 1):
            service.admit(f"k{number}", f"r{number}")
    assert len(service.bindings()) == MAX_BINDINGS
    assert "k0" not in service.bindings()
    assert [record.getMessage() for record in caplog.records] == [
        "there are more than 1024 idempotency keys, so the oldest was dropped"
    ]


@pytest.mark.parametrize(("age_s", "left"), [(900.0, ["old", "new"]), (900.5, ["new"])])
def test_a_binding_lives_for_a_quarter_of_an_hour(service, clock, age_s, left):
    """Of a request that ended without a word."""
    service.admit("old", "short")
    clock[0] = age_s
    service.admit("new", "next")
    assert list(service.bindings()) == left


def test_old_bindings_are_pruned_unless_their_request_runs(service, cancellation, clock):
    """Long local generations take more than a quarter of an hour."""
    cancellation.begin("long")
    service.admit("kept", "long")
    service.admit("gone", "short")
    clock[0] = BINDING_LIFETIME_S + 1
    service.admit("new", "next")
    assert service.bindings() == {"kept": "long", "new": "next"}
