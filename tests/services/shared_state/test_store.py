"""What a store in memory keeps: nothing of those who have left."""

from __future__ import annotations

import pytest

from Middleware.services.shared_state.store import MemoryStore, Places, Tables
from Middleware.services.shared_state.turns import Ask

BIG, SMALL = Ask("desk", "big"), Ask("desk", "small")


@pytest.fixture
def tables():
    return Tables()


@pytest.fixture
def store(tables):
    made = MemoryStore("one", tables)
    made.join()
    return made


def turns(store, **places):
    return store.turns("desk", 1, Places(**places), one_model=True)


def test_a_gate_that_nobody_uses_is_forgotten(store, tables):
    """Names of gates come from files that may change; the row of its machine stays."""
    assert turns(store, wait=["a"], asks={"a": BIG}) == ["a"]
    turns(store, wait=["b"], asks={"b": SMALL})
    assert turns(store, leave=["a"]) == ["b"]
    turns(store, leave=["b"])
    assert tables.gates == {} and "desk" in tables.rows["desk"]


def test_what_a_ticket_asks_for_goes_with_it(store, tables):
    turns(store, wait=["a", "b"], asks={"a": BIG, "b": BIG})
    turns(store, leave=["a"])
    assert tables.gates["desk"].asks == {"b": BIG}


def test_so_it_does_where_no_spare_turn_was_to_be_had(store, tables):
    """Nobody knows that ticket any more."""
    turns(store, wait=["a"], asks={"a": BIG})
    assert turns(store, spare=["b"], asks={"b": BIG}) == []
    assert tables.gates["desk"].asks == {"a": BIG}


def test_and_with_the_process_that_it_belonged_to(store, tables):
    other = MemoryStore("two", tables)
    other.join()
    turns(store, wait=["a"], asks={"a": BIG})
    turns(other, wait=["b"], asks={"b": BIG})
    other.join()  # begins anew: what it had is gone
    assert tables.gates["desk"].asks == {"a": BIG}


@pytest.mark.parametrize("waits", ["wait", "behind"])
def test_who_is_inside_waits_no_more(store, tables, waits):
    """A process that comes back says whom it has let in meanwhile."""
    turns(store, wait=["a"], **({"behind": ["b"]} if waits == "behind" else {}))
    if waits == "wait":
        turns(store, wait=["b"])
    turns(store, hold=["b"])
    gate = tables.gates["desk"]
    assert (list(gate.holding), gate.waiting, gate.behind) == (["a", "b"], {}, {})
