"""When memory is given back to the system."""

from __future__ import annotations

import pytest

from Middleware.api.handlers.base import base_api_handler as generation_view
from Middleware.api.wsgi.processes import LARGE_BYTES, WAIT_S, Heap, limit_arenas


@pytest.fixture
def trims():
    """How often memory was given back, as a list."""
    return []


@pytest.fixture
def planned():
    """What is to be done later: (seconds, action)."""
    return []


@pytest.fixture
def heap(trims, planned):
    return Heap(lambda: trims.append(1), later=lambda *plan: planned.append(plan))


class TestTrim:
    def test_it_waits_until_the_request_has_let_go(self, heap, trims, planned):
        """Its thread still holds the body when the request ends."""
        heap.trim_soon()
        assert [seconds for seconds, _ in planned] == [WAIT_S]
        assert trims == []

    def test_requests_that_end_together_are_paid_for_once(self, heap, trims, planned):
        """One trim is enough for all."""
        heap.trim_soon()
        heap.trim_soon()
        [(_, action)] = planned
        action()
        assert trims == [1]

    def test_a_later_request_gets_its_own(self, heap, trims, planned):
        """What it freed is not given back yet."""
        heap.trim_soon()
        planned[0][1]()
        heap.trim_soon()
        planned[1][1]()
        assert trims == [1, 1]

    def test_without_a_way_nothing_is_planned(self, planned):
        """No glibc."""
        Heap(None, later=lambda *plan: planned.append(plan)).trim_soon()
        assert planned == []


@pytest.mark.parametrize(("size", "times"), [(LARGE_BYTES, 1), (LARGE_BYTES // 2, 0)], ids=["large", "small"])
def test_large_requests_only(client, engine, heap, planned, monkeypatch, size, times):
    """A trim costs more than what a small one leaves."""
    monkeypatch.setattr(generation_view, "heap", heap)
    engine.answer = [[{"token": "ok", "finish_reason": "stop", "last": True}]]
    body = {"messages": [{"role": "user", "content": "x" * size}]}
    client.post("/v1/chat/completions", json=body, buffered=True)
    assert len(planned) == times


class Library:
    """A C library that notes what it is told."""

    def __init__(self):
        self.told = []

    def mallopt(self, *setting):
        self.told.append(setting)


@pytest.mark.parametrize(
    ("user_set", "told"),
    [(None, [(-8, 2)]), ("MALLOC_ARENA_MAX", []), ("GLIBC_TUNABLES", [])],
)
def test_few_arenas_unless_the_user_says_otherwise(monkeypatch, user_set, told):
    """M_ARENA_MAX is -8. Source: malloc.h of glibc."""
    for name in ("MALLOC_ARENA_MAX", "GLIBC_TUNABLES"):
        monkeypatch.delenv(name, raising=False)
    if user_set:
        monkeypatch.setenv(user_set, "4")
    library = Library()
    limit_arenas(library)
    assert library.told == told
