"""What a store in memory keeps: nothing of those who have left."""

from __future__ import annotations

import threading
from types import SimpleNamespace

import pytest

from Middleware.services.shared_state.sqlite_store import SqliteStore
from Middleware.services.shared_state.store import MemoryStore, Note, Places, Tables
from Middleware.services.shared_state.turns import Ask
from tests.patience import PATIENCE_S

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


class TestTime:
    """With a clock of the test's: both kinds of store that have one."""

    @pytest.fixture(params=["memory", "file"])
    def world(self, request, tmp_path):
        """`world.clock.now`, and `world.store(owner)`: one that has joined."""
        clock, tables, made = SimpleNamespace(now=1000.0), Tables(), []

        def store(owner):
            if request.param == "memory":
                made.append(MemoryStore(owner, tables, lambda: clock.now))
            else:
                made.append(SqliteStore(tmp_path / "w.sqlite", owner, lambda: clock.now))
            made[-1].join()
            return made[-1]

        yield SimpleNamespace(clock=clock, store=store)
        for each in made:
            if isinstance(each, SqliteStore):
                each.close()

    @pytest.mark.parametrize(("silent_s", "lives"), [(7.0, True), (7.001, False)])
    def test_a_process_lives_for_seven_seconds_after_its_beat(self, world, silent_s, lives):
        """Then nothing is its own any more, whoever looks."""
        one, two = world.store("one"), world.store("two")
        one.put("key", "k", "v")
        asks = {"a": Ask("", "", "ann"), "b": Ask("", "", "ann")}
        one.turns("g", 1, Places(wait=["a", "b"], asks=asks))
        world.clock.now += silent_s
        two.beat()
        found = two.find("key", "k"), two.holding(["g"]), two.waiting("g"), two.crowd("g", "ann")
        assert found == (("v", [1], 1, (1, 1)) if lives else (None, [0], 0, (0, 0)))

    @pytest.mark.parametrize("look", ["find", "holding", "waiting", "crowd"])
    def test_the_dead_count_for_nothing_before_anybody_beats(self, world, look):
        one, two = world.store("one"), world.store("two")
        one.put("key", "k", "v")
        one.turns("g", 1, Places(wait=["a"], asks={"a": Ask("", "", "ann")}))
        world.clock.now += 7.5
        looks = {
            "find": lambda: two.find("key", "k") is None,
            "holding": lambda: two.holding(["g"]) == [0],
            "waiting": lambda: two.waiting("g") == 0,
            "crowd": lambda: two.crowd("g", "ann") == (0, 0),
        }
        assert looks[look]()

    def test_a_beat_makes_it_live_longer(self, world):
        one, two = world.store("one"), world.store("two")
        one.put("key", "k", "v")
        for _ in range(3):
            world.clock.now += 6
            assert one.beat()
        assert two.find("key", "k") == "v"

    @pytest.mark.parametrize(("age_s", "found"), [(3600.0, True), (3600.5, False)])
    def test_a_note_lives_for_an_hour(self, world, age_s, found):
        one = world.store("one")
        one.keep_note("s", Note("k", "v", ("a",)))
        world.clock.now += age_s
        assert (one.find_note("s", "k") is not None, one.nearest_note("s", ["a"]) is not None) == (
            found,
            found,
        )

    def test_a_bucket_fills_as_time_goes_by(self, world):
        """Within a minute, from what was in it last."""
        one = world.store("one")
        assert one.take("ann", 30, 30.0, 30) == (True, 0.0)
        world.clock.now += 2
        assert one.take("ann", 30, 30.0) == (True, 0.0)
        world.clock.now += 30
        assert one.take("ann", 30, 30.0, 0) == (True, 15.0)
        world.clock.now += 600
        assert one.take("ann", 30, 30.0, 0) == (True, 30.0)


def test_alone_in_its_tables_nobody_dies():
    """There is nobody who could beat for it."""
    clock = SimpleNamespace(now=0.0)
    store = MemoryStore("one", clock=lambda: clock.now)
    store.put("key", "k", "v")
    clock.now += 10**6
    assert store.find("key", "k") == "v" and not store.shared


def test_the_sums_of_days_that_are_over_go(store, tables):
    """Of the same name; those of others go with their own next day."""
    for name, day in (("ann", "2026-11-27"), ("ben", "2026-11-27"), ("ann", "2026-11-28")):
        store.count(name, day, {"prompt": 1}, {})
    assert list(tables.days) == [("ben", "2026-11-27"), ("ann", "2026-11-28")]
    store.count("ann", "2026-11-27", {"prompt": 1}, {})
    assert store.count("ann", "2026-11-28", {}, {}) == {"prompt": 1}


def test_who_waits_for_a_message_is_woken_by_it(store):
    """And does not wait where it asked not to."""
    assert store.receive(0) == []
    thread = threading.Thread(target=store.tell, args=("hello",))
    thread.start()
    heard = store.receive(PATIENCE_S)
    thread.join()
    assert heard == ["hello"] and store.receive(0) == []


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
