"""The one interface, kept by every store: records, places at gates, messages, and what the dead leave."""

from __future__ import annotations

import threading

import pytest

from Middleware.config.keys import MOST_AT_ONCE
from Middleware.services.shared_state.store import MOST_NOTES, Forgotten, MemoryStore, Note, Places
from Middleware.services.shared_state.turns import Ask
from tests.patience import PATIENCE_S


@pytest.fixture
def one(shared):
    store = shared.store("one")
    store.join()
    return store


@pytest.fixture
def two(shared, one):
    store = shared.store("two")
    store.join()
    one.receive(0)  # that it joined concerns nobody
    return store


def test_one_that_joins_again_hears_what_is_kept(shared, one, two):
    """Where messages are kept: it may have missed some."""
    one.tell("hello")
    assert two.receive(0) == ["hello"]
    two.join()
    assert "hello" in two.receive(0) or isinstance(two, MemoryStore)


class TestRecords:
    def test_a_record_is_found_by_all(self, one, two):
        """Whoever wrote it."""
        assert one.put("key", "k", "first") is None
        assert (one.find("key", "k"), two.find("key", "k")) == ("first", "first")
        assert two.find("other", "k") is None

    def test_a_later_one_takes_its_place(self, one, two):
        """And learns what it displaced."""
        one.put("key", "k", "first")
        assert two.put("key", "k", "second") == "first"
        assert one.find("key", "k") == "second"

    def test_who_adds_does_not_displace(self, one, two):
        """The first has it; saying so again is no second one."""
        assert one.add("lock", "k", "run 1")
        assert not two.add("lock", "k", "run 2")
        assert one.add("lock", "k", "run 1")
        assert not one.add("lock", "k", "run 3")
        assert two.find("lock", "k") == "run 1"

    def test_only_the_very_record_is_removed(self, one, two):
        """A displaced request does not take its successor's record away."""
        one.put("key", "k", "first")
        two.put("key", "k", "second")
        one.remove("key", "k", "first")
        assert one.find("key", "k") == "second"
        two.remove("key", "k", "first")
        assert one.find("key", "k") == "second"
        two.remove("key", "k", "second")
        assert two.find("key", "k") is None  # whoever removed it; others know it a moment later

    @pytest.mark.parametrize("text", ["", "a b\nc\x00d", "é\U0001f600", "'; --"], ids=repr)
    def test_any_text(self, one, two, text):
        """Keys and values come from clients."""
        one.put("key", text, text)
        assert two.find("key", text) == text


class TestGates:
    def test_no_more_than_the_limit_come_in(self, one, two):
        """Over all processes."""
        assert one.turns("g", 2, Places(wait=["a", "b"])) == ["a", "b"]
        assert two.turns("g", 2, Places(wait=["c"])) == []
        assert two.waiting("g") == one.waiting("g") == 1

    def test_how_many_wait_before_one(self, one, two):
        """Of all processes; nobody, when it is inside or has left."""
        one.turns("g", 1, Places(wait=["a", "b"]))
        two.turns("g", 1, Places(wait=["c"]))
        one.turns("g", 1, Places(wait=["d"]))
        assert [one.waiting("g", ticket) for ticket in ("a", "b", "d", "x")] == [0, 0, 2, 0]
        assert two.waiting("g", "c") == 1

    def test_how_many_of_a_name_wait(self, one, two):
        """Before one of them, too; those without a name have an empty one."""
        asks = {ticket: Ask("", "", name) for ticket, name in (("a", "ann"), ("b", "ben"), ("c", "ann"))}
        one.turns("g", 0, Places(wait=["a", "b"], asks={name: asks[name] for name in "ab"}))
        two.turns("g", 0, Places(wait=["c", "d"], asks={"c": asks["c"]}))
        assert [one.waiting("g", "", name) for name in ("ann", "ben", "", "kim", None)] == [2, 1, 1, 0, 4]
        assert [two.waiting("g", "c", name) for name in ("ann", "ben", "", None)] == [1, 1, 0, 2]
        assert two.waiting("other", "", "ann") == two.waiting("g", "gone", "ann") == 0

    def test_how_many_of_a_key_are_there(self, one, two):
        """Inside and waiting, those behind among the latter; a key has names that begin with it."""
        names = {"a": "ann", "b": "ann laptop", "c": "anne", "d": "ann", "e": "ann phone"}
        asks = {ticket: Ask("", "", name) for ticket, name in names.items()}
        one.turns("g", 2, Places(wait=["a", "b", "c"], asks={name: asks[name] for name in "abc"}))
        two.turns("g", 2, Places(wait=["d"], behind=["e"], asks={name: asks[name] for name in "de"}))
        assert one.crowd("g", "ann") == two.crowd("g", "ann") == (2, 2)
        assert (one.crowd("g", "anne"), one.crowd("g", "an"), one.crowd("other", "ann")) == (
            (0, 1),
            (0, 0),
            (0, 0),
        )

    def test_first_come_first_served(self, one, two):
        """Whichever process they wait in; the one whose turn it is is told."""
        one.turns("g", 1, Places(wait=["a"]))
        two.turns("g", 1, Places(wait=["b"]))
        one.turns("g", 1, Places(wait=["c"]))
        two.receive(0)
        assert one.turns("g", 1, Places(leave=["a"])) == []
        assert two.receive(5) == ["gate g"]
        assert two.turns("g", 1, Places()) == ["b"]
        assert two.turns("g", 1, Places(leave=["b"])) == []
        assert one.turns("g", 1, Places()) == ["c"]

    def test_a_slot_goes_to_the_next_of_the_same_process(self, one, two):
        """At once, and nobody else is told."""
        one.turns("g", 1, Places(wait=["a"]))
        one.turns("g", 1, Places(wait=["b"]))
        assert one.turns("g", 1, Places(leave=["a"])) == ["b"]
        assert two.receive(0) == []

    def test_gates_are_apart(self, one):
        """By their names."""
        assert one.turns("g", 1, Places(wait=["a"])) == ["a"]
        assert one.turns("h of x", 1, Places(wait=["b"])) == ["b"]

    def test_a_waiter_may_leave(self, one, two):
        """The next slot is not kept for it."""
        one.turns("g", 1, Places(wait=["a"]))
        two.turns("g", 1, Places(wait=["b"]))
        one.turns("g", 1, Places(wait=["c"]))
        two.turns("g", 1, Places(leave=["b"]))
        assert one.turns("g", 1, Places(leave=["a"])) == ["c"]

    def test_telling_it_again_changes_nothing(self, one, two):
        """A holder keeps its slot, a waiter its place."""
        one.turns("g", 1, Places(wait=["a"]))
        one.turns("g", 1, Places(wait=["b"]))
        two.turns("g", 1, Places(wait=["c"]))
        assert one.turns("g", 1, Places(hold=["a"], wait=["a", "b"])) == []
        assert one.turns("g", 1, Places(leave=["a"])) == ["b"]
        assert one.waiting("g") == 1

    def test_holders_may_be_more_than_the_limit(self, one, two):
        """They came in while nobody could ask; until enough of them left nobody else does."""
        one.turns("g", 1, Places(hold=["a"]))
        two.turns("g", 1, Places(hold=["b"], wait=["c"]))
        assert one.turns("g", 1, Places(leave=["a"])) == []
        assert two.turns("g", 1, Places(leave=["b"])) == ["c"]

    def test_who_is_inside_is_counted_over_all(self, one, two):
        """For each of the gates that are asked for; who waits is not inside."""
        one.turns("a", 1, Places(wait=["1"]))
        two.turns("a", 1, Places(wait=["2"]))
        two.turns("b", 9, Places(wait=["3"]))
        one.turns("b", 9, Places(wait=["4"]))
        assert one.holding(["a", "b", "c"]) == two.holding(["a", "b", "c"]) == [1, 2, 0]
        two.turns("b", 9, Places(leave=["3"]))
        assert one.holding(["b"]) == [1]
        assert one.holding([]) == []

    @pytest.mark.parametrize("place", ["wait", "behind"])
    def test_a_gate_without_slots_is_shut(self, one, place):
        """Until its limit is raised."""
        assert one.turns("g", 0, Places(**{place: ["a"]})) == []
        assert one.turns("g", 1, Places()) == ["a"]

    @pytest.mark.parametrize(
        "asks", [{}, {"a": Ask(name="ann"), "b": Ask(name="bob")}], ids=["plain", "named"]
    )
    def test_the_largest_limit_is_one_like_any(self, one, two, asks):
        """That a config file may hold."""
        assert one.turns("g", MOST_AT_ONCE, Places(wait=["a"], asks=asks)) == ["a"]
        assert two.turns("g", MOST_AT_ONCE, Places(wait=["b"], asks=asks)) == ["b"]
        assert one.take("ann", MOST_AT_ONCE, MOST_AT_ONCE).took

    def test_behind_means_an_empty_gate(self, one, two):
        """Nobody inside, nobody in the queue, in no process; then one at a time."""
        one.turns("g", 2, Places(wait=["chat"]))
        assert two.turns("g", 2, Places(behind=["title", "tags"])) == []
        assert two.waiting("g") == 0
        assert one.turns("g", 2, Places(leave=["chat"])) == []
        assert "gate g" in two.receive(5)
        assert two.turns("g", 2, Places()) == ["title"]
        assert one.turns("g", 2, Places(wait=["next chat"])) == ["next chat"]
        assert two.turns("g", 2, Places(leave=["title"])) == []

    def test_who_stood_behind_may_join_the_queue(self, one):
        """At its end."""
        one.turns("g", 1, Places(wait=["a", "b"]))
        one.turns("g", 1, Places(behind=["title"]))
        one.turns("g", 1, Places(wait=["title"]))
        one.turns("g", 1, Places(wait=["c"]))
        assert one.turns("g", 1, Places(leave=["a"])) == ["b"]
        assert one.turns("g", 1, Places(leave=["b"])) == ["title"]


class TestNotes:
    def test_a_note_is_found_by_its_key(self, one, two):
        """On its shelf, by all; a later one takes its place."""
        one.keep_note("s", Note("k", "first", ("a",)))
        assert (one.find_note("s", "k"), two.find_note("s", "k")) == ("first", "first")
        two.keep_note("s", Note("k", "second"))
        assert one.find_note("s", "k") == "second"
        assert one.find_note("other", "k") is one.find_note("s", "other") is None

    @pytest.mark.parametrize("text", ["", "a b\nc\x00d", "é\U0001f600", "'; --"], ids=repr)
    def test_any_text(self, one, two, text):
        """As key and as value."""
        one.keep_note("s", Note(text, text, ("a",)))
        assert two.find_note("s", text) == text
        assert two.nearest_note("s", ["a"]) == (text, text)

    def test_the_nearest_has_most_marks(self, one, two):
        """Of several, the one that was written last; none without one of them."""
        one.keep_note("s", Note("k1", "v1", ("a", "b", "c")))
        two.keep_note("s", Note("k2", "v2", ("c", "d")))
        assert one.nearest_note("s", ["a", "b", "d"]) == ("k1", "v1")
        assert one.nearest_note("s", ["c", "x"]) == ("k2", "v2")
        one.keep_note("s", Note("k1", "v3", ("a", "b", "c")))
        assert two.nearest_note("s", ["c", "x"]) == ("k1", "v3")
        assert two.nearest_note("s", ["x"]) is two.nearest_note("s", []) is None
        assert two.nearest_note("other", ["a"]) is None

    def test_old_marks_are_gone(self, one):
        """With the note that had them."""
        one.keep_note("s", Note("k", "v1", ("a",)))
        one.keep_note("s", Note("k", "v2", ("b",)))
        assert one.nearest_note("s", ["a"]) is None
        assert one.nearest_note("s", ["b"]) == ("k", "v2")

    def test_so_many_are_kept(self, one):
        """Over all shelves; the one that was written longest ago goes, with its marks."""
        for number in range(MOST_NOTES):
            one.keep_note(f"s{number % 2}", Note(f"k{number}", "v", (f"m{number}",)))
        one.keep_note("s0", Note("k0", "again", ("m0",)))
        one.keep_note("s0", Note("new", "v"))
        assert one.find_note("s0", "k0") == "again"
        assert one.find_note("s1", "k1") is one.nearest_note("s1", ["m1"]) is None
        assert one.find_note("s0", "k2") == "v"

    def test_an_old_one_is_not_found(self, shared, one, two):
        """Nobody wrote it for an hour."""
        one.keep_note("s", Note("old", "v", ("a",)))
        shared.age_notes()
        one.keep_note("s", Note("young", "v", ("b",)))
        assert two.find_note("s", "old") is two.nearest_note("s", ["a"]) is None
        assert two.find_note("s", "young") == "v"

    def test_it_outlives_its_process(self, shared, one, two):
        """It is nobody's."""
        one.keep_note("s", Note("k", "v", ("a",)))
        shared.silence("one")
        two.beat()
        assert two.find_note("s", "k") == "v"


class TestMessages:
    def test_all_hear_each_once(self, one, two):
        """In order, the sender among them."""
        one.tell("cancel a")
        two.tell("cancel b")
        assert one.receive(0) == two.receive(0) == ["cancel a", "cancel b"]
        assert one.receive(0) == []

    def test_who_has_mail_waits_for_no_more(self, one, two):
        """However long it would have waited."""
        one.tell("cancel a")
        assert two.receive(PATIENCE_S) == ["cancel a"]

    def test_a_listener_is_woken(self, one, two):
        """By the message, not by the end of its time."""
        heard = []
        listener = threading.Thread(target=lambda: heard.extend(two.receive(60) or two.receive(60)))
        listener.start()
        one.tell("cancel a")
        listener.join(PATIENCE_S)
        assert heard == ["cancel a"]

    def test_none_is_lost_before_the_first_look(self, shared, one):
        """A process that joined hears what was said while it was busy with other things."""
        late = shared.store("late")
        late.join()
        one.tell("cancel a")
        assert "cancel a" in late.receive(0)


class TestTheDead:
    def test_who_is_silent_has_nothing(self, shared, one, two):
        """Its slots, places and records are free."""
        one.turns("g", 1, Places(wait=["a", "b"]))
        one.add("lock", "l", "run")
        two.turns("g", 1, Places(wait=["c"]))
        shared.silence("one")
        assert two.find("lock", "l") is None
        assert two.add("lock", "l", "other run")
        assert two.turns("g", 1, Places()) == ["c"]

    def test_who_is_silent_is_not_inside(self, shared, one, two):
        """So that nobody keeps away from a server for its sake."""
        two.turns("a", 9, Places(wait=["1"]))
        shared.silence("two")
        assert one.holding(["a"]) == [0]

    def test_those_who_wait_are_told(self, shared, one, two):
        """By whoever beats next."""
        one.turns("g", 1, Places(wait=["a"]))
        shared.silence("one")
        assert two.beat()
        assert "gate g" in two.receive(0)

    def test_one_that_comes_back_must_join_again(self, shared, one, two):
        """What it had may be another's by now."""
        one.add("lock", "l", "run")
        assert one.beat()
        shared.silence("one")
        two.beat()
        assert not one.beat()
        one.join()
        assert one.beat() and one.find("lock", "l") is None

    @pytest.mark.parametrize("write", ["put", "add", "turns"])
    def test_what_it_writes_before_is_void(self, shared, one, two, write):
        """Nobody would know when it has died."""
        shared.silence("one")
        two.beat()
        with pytest.raises(Forgotten):
            if write == "turns":
                one.turns("g", 1, Places(hold=["a"]))
            else:
                getattr(one, write)("key", "k", "v")
        assert two.turns("g", 1, Places(wait=["b"])) == ["b"] and two.find("key", "k") is None

    def test_to_join_is_to_begin_anew(self, one, two):
        """Nothing of before is left: the process knows what it holds and says so."""
        one.turns("g", 1, Places(wait=["a"]))
        one.put("key", "k", "v")
        one.join()
        assert two.find("key", "k") is None
        assert two.turns("g", 1, Places(wait=["b"])) == ["b"]
