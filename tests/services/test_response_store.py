"""Which responses are kept, for whom, and in which order they go (more-fronts.md 3.7)."""

from __future__ import annotations

import logging
import threading

import pytest

from Middleware.services.response_store import (
    LIFETIME_S,
    MAX_BYTES,
    MAX_RESPONSES,
    ResponseStore,
    UnknownResponse,
)
from Middleware.services.shared_state.member import Member
from Middleware.services.shared_state.store import MemoryStore, Tables


@pytest.fixture
def clock():
    return [0.0]


@pytest.fixture
def make(clock):
    return lambda **limits: ResponseStore(clock=lambda: clock[0], **limits)


def response(name, previous=None, text=""):
    return {"id": f"resp_{name}", "previous_response_id": previous and f"resp_{previous}", "text": text}


def put(store, owner, made, items=()):
    """Begun and made."""
    store.begin(owner, made["id"])
    store.keep(owner, made, list(items))


def held(store):
    """How many responses, and how many bytes of JSON they count for."""
    return len(store._entries), store._bytes


def ids(chain):
    return [link.response["id"] for link in chain]


def kept(store, names, owner=None):
    """Those of these letters that can be found. Looking is a use."""
    return "".join(name for name in names if store.find(owner, f"resp_{name}") is not None)


def test_the_limits():
    """As they are told to users."""
    assert (MAX_RESPONSES, MAX_BYTES, LIFETIME_S) == (1000, 64 * 2**20, 86400)


class TestKeeping:
    def test_what_is_kept_comes_back(self, make):
        """The object and the items, halves of surrogate pairs among them."""
        store = make()
        put(store, None, response("a", text="ü\ud83d"), [{"type": "message"}])
        found = store.find(None, "resp_a")
        assert found.response == response("a", text="ü\ud83d") and found.input_items == [{"type": "message"}]

    def test_nobody_changes_what_is_kept(self, make):
        """Neither who gave it nor who got it."""
        store, given = make(), response("a")
        put(store, None, given)
        given["text"] = "changed"
        store.find(None, "resp_a").response["text"] = "changed"
        assert store.find(None, "resp_a").response == response("a")

    def test_every_key_has_its_own(self, make):
        """One without a key is nobody else's either."""
        store = make()
        put(store, "one", response("a"))
        assert [store.find(owner, "resp_a") is not None for owner in ("one", "two", None)] == [
            True,
            False,
            False,
        ]
        assert not store.delete("two", "resp_a")
        with pytest.raises(UnknownResponse):
            store.chain(None, "resp_a")

    def test_a_key_is_not_held(self, make):
        """Only its hash."""
        store = make()
        put(store, "sk-secret", response("a"))
        assert "sk-secret" not in repr(vars(store))

    def test_deleted(self, make):
        """Once; then it is unknown, and takes no room."""
        store = make()
        put(store, None, response("a"))
        assert [store.delete(None, "resp_a"), store.delete(None, "resp_a")] == [True, False]
        assert (store.find(None, "resp_a"), *held(store)) == (None, 0, 0)

    def test_what_was_deleted_while_it_ran(self, make):
        """Is not kept when it is made."""
        store = make()
        store.begin(None, "resp_a")
        assert [store.end(None, "resp_a"), store.end(None, "resp_a")] == [True, False]
        store.keep(None, response("a"), [])
        assert kept(store, "a") == "" and not store.delete(None, "resp_a") and held(store) == (0, 0)

    @pytest.mark.parametrize("odd", ["x" * 2000, float("inf")], ids=["too-large", "no-json"])
    def test_what_cannot_be_kept(self, make, caplog, odd):
        """The others stay; the log says so without a text."""
        store = make(most_bytes=1000)
        put(store, None, response("a"))
        with caplog.at_level(logging.WARNING):
            put(store, None, response("b", text=odd))
        assert kept(store, "ab") == "a"
        assert "could not be kept" in caplog.text and "xxx" not in caplog.text
        assert not store.is_running(None, "resp_b")

    def test_what_is_as_large_as_all_that_may_be_kept(self, make):
        """It fits; one byte more does not."""
        store = make()
        put(store, None, response("a"))
        for missing, left in ((0, "a"), (1, "")):
            tight = make(most_bytes=held(store)[1] - missing)
            put(tight, None, response("a"))
            assert kept(tight, "a") == left


class TestLimits:
    def test_the_one_unused_for_the_longest_time_goes_first(self, make):
        """Looking at one, and naming it, is using it."""
        store = make(most=3)
        for name in "abc":
            put(store, None, response(name))
        store.find(None, "resp_a")
        store.chain(None, "resp_b")
        put(store, None, response("d"))
        assert kept(store, "abcd") == "abd"

    def test_what_goes_goes_at_once(self, make, clock):
        """Not only when somebody looks."""
        store = make(most=2)
        for name in "abc":
            put(store, None, response(name))
        assert held(store)[0] == 2
        clock[0] = LIFETIME_S + 1
        put(store, None, response("d"))
        assert held(store)[0] == 1

    def test_what_is_too_old_was_none_when_it_is_deleted(self, make, clock):
        store = make()
        put(store, None, response("a"))
        clock[0] = LIFETIME_S + 1
        assert store.delete(None, "resp_a") is False

    def test_a_chain_that_is_too_old_is_missing(self, make, clock):
        store = make()
        put(store, None, response("a"))
        clock[0] = LIFETIME_S + 1
        with pytest.raises(UnknownResponse, match=r"^no response 'resp_a' is stored$"):
            store.chain(None, "resp_a")

    def test_bytes(self, make):
        """As many of the oldest go as the new one needs."""
        store = make(most_bytes=1000)
        for name in "abc":
            put(store, None, response(name, text="x" * 200))
        put(store, None, response("d", text="x" * 500))
        assert kept(store, "abcd") == "cd"
        assert held(store)[1] <= 1000

    def test_what_fits_to_the_byte_stays(self, make):
        """The limit is what may be kept; one byte less is too little for both."""
        both = make()
        for name in "ab":
            put(both, None, response(name))
        for missing, left in ((0, "ab"), (1, "b")):
            store = make(most_bytes=held(both)[1] - missing)
            for name in "ab":
                put(store, None, response(name))
            assert kept(store, "ab") == left

    def test_the_size_is_that_of_the_json(self, make):
        """In UTF-8, both parts."""
        store = make()
        put(store, None, {"id": "resp_ü"}, [{}])
        assert held(store) == (1, len('[{"id":"resp_ü"},[{}]]'.encode()))

    def test_a_day_after_its_last_use(self, make, clock):
        """And not a second earlier."""
        store = make()
        put(store, None, response("a"))
        clock[0] = LIFETIME_S
        assert kept(store, "a") == "a"
        clock[0] = 2 * LIFETIME_S
        assert kept(store, "a") == "a"
        clock[0] = 3 * LIFETIME_S + 1
        assert kept(store, "a") == "" and held(store) == (0, 0)


def test_what_runs(make):
    """From its beginning until it is made or given up; for its owner only."""
    store = make()
    for name in ("resp_a", "resp_b"):
        store.begin("one", name)
    assert store.is_running("one", "resp_a") and not store.is_running(None, "resp_a")
    assert not store.end("two", "resp_a")
    store.keep("one", response("a"), [])
    store.end("one", "resp_b")
    assert not store.is_running("one", "resp_a") and not store.is_running("one", "resp_b")


class TestChains:
    @pytest.fixture
    def store(self, make):
        store = make(most=4)
        for name, previous in (("a", None), ("b", "a"), ("c", "b")):
            put(store, None, response(name, previous))
        return store

    def test_the_first_one_comes_first(self, store):
        """Down to the one that was named, which need not be the last."""
        assert ids(store.chain(None, "resp_c")) == ["resp_a", "resp_b", "resp_c"]
        assert ids(store.chain(None, "resp_b")) == ["resp_a", "resp_b"]

    @pytest.mark.parametrize("missing", ["a", "b", "c"])
    def test_a_missing_link(self, store, missing):
        """Is named."""
        store.delete(None, f"resp_{missing}")
        with pytest.raises(UnknownResponse) as caught:
            store.chain(None, "resp_c")
        assert caught.value.response_id == f"resp_{missing}"

    @pytest.mark.parametrize("use", ["chain", "find"])
    def test_its_use_is_a_use_of_all_its_links(self, store, use):
        """What stands alone goes before the root of a chain that lives."""
        put(store, None, response("x"))
        getattr(store, use)(None, "resp_c")
        put(store, None, response("y"))
        assert kept(store, "xabcy") == "abcy"

    def test_links_of_another_key_are_missing(self, store):
        """Even if somebody guesses an id."""
        put(store, "k", response("d", "c"))
        with pytest.raises(UnknownResponse, match="resp_c"):
            store.chain("k", "resp_d")


def test_a_hundred_threads(make):
    """Whatever they do at once, the sums are right and no chain is seen in halves."""
    store, troubles = make(most=50), []

    def work(number):
        owner = f"key{number % 2}"
        for turn in range(30):
            name = f"{number}-{turn}"
            put(store, owner, response(name, f"{number}-{turn - 1}" if turn else None, "x" * turn))
            try:
                chain = ids(store.chain(owner, f"resp_{name}"))
                if chain != [f"resp_{number}-{link}" for link in range(turn + 1)]:
                    troubles.append(chain)
            except UnknownResponse:
                pass  # the others took its room
            if turn % 7 == 3:
                store.delete(owner, f"resp_{name}")

    threads = [threading.Thread(target=work, args=(number,)) for number in range(100)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert troubles == [] and held(store)[0] <= 50
    for number in range(100):
        for turn in range(30):
            store.delete(f"key{number % 2}", f"resp_{number}-{turn}")
    assert held(store) == (0, 0)


class TestSeveralProcesses:
    @pytest.mark.parametrize("kept", [True, False], ids=["kept", "ended"])
    def test_a_response_that_another_one_makes(self, kept):
        """It is known as long as it is made, to its owner."""
        tables = Tables()
        one, two = (Member(MemoryStore(name, tables)) for name in ("one", "two"))
        here, there = ResponseStore(member=lambda: one), ResponseStore(member=lambda: two)
        there.begin("ann's key", "resp_a")
        assert here.is_running("ann's key", "resp_a")
        assert not here.is_running("ben's key", "resp_a") and not here.end("ann's key", "resp_a")
        if kept:
            there.keep("ann's key", response("a"), [])
        else:
            assert there.end("ann's key", "resp_a")
        assert not here.is_running("ann's key", "resp_a")
        one.leave()
        two.leave()
