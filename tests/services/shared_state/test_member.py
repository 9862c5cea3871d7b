"""What one process asks the store, and when: beats, the way back to one that was lost, and the end.

Nobody listens here: each test says when the listener looks, and what the clock shows.
"""

from __future__ import annotations

import logging
import os
import threading
from types import SimpleNamespace

import pytest

from Middleware.services.cancellation_service import CANCEL, RUNNING
from Middleware.services.locking_service import LOCK
from Middleware.services.shared_state import member as members
from Middleware.services.shared_state.member import IDLE_RETRY_S, Member, share_by, this_process
from Middleware.services.shared_state.store import (
    BEAT_S,
    LEASE_S,
    Forgotten,
    MemoryStore,
    StoreLost,
    Tables,
)
from tests.clock import Clock
from tests.patience import PATIENCE_S


class NotedStore:
    """A store that notes what it is asked, and can be taken away."""

    def __init__(self, inner):
        self._inner, self.asked, self.gone = inner, [], False
        self.during = {}

    def __getattr__(self, name):
        found = getattr(self._inner, name)
        if not callable(found):
            return found

        def ask(*given):
            self.asked.append(name)
            if self.gone:
                raise StoreLost("gone")
            if name in self.during:
                self.during.pop(name)()
            return found(*given)

        return ask

    def take(self):
        """What was asked since the last look."""
        asked, self.asked = self.asked, []
        return asked


class NeverStarted(threading.Thread):
    def start(self):
        """The test listens in its place."""


class LookedAt:
    """A gate that notes each look."""

    busy = False

    def __init__(self):
        self.looks = 0

    def look(self):
        self.looks += 1


class FailingGate(LookedAt):
    def look(self):
        super().look()
        raise OverflowError("too large")


@pytest.fixture
def clock():
    return Clock(1000.0)


@pytest.fixture
def tables():
    return Tables()


@pytest.fixture
def store(tables, clock):
    return NotedStore(MemoryStore("one", tables, clock))


@pytest.fixture
def other(tables, clock):
    joined = MemoryStore("two", tables, clock)
    joined.join()
    return joined


@pytest.fixture
def member(store, clock, monkeypatch):
    monkeypatch.setattr(members.threading, "Thread", NeverStarted)
    return Member(store, clock, retry_s=0)


@pytest.fixture
def lost(member, store):
    """The member, with a record, whose store does not answer any more."""
    member.put("key", "k", "mine")
    store.gone = True
    member.tell("anything")
    assert not member.is_joined
    store.take()
    return member


class TestBeats:
    def test_the_first_question_joins(self, member, store):
        """Before it is asked."""
        member.tell("hello")
        assert store.take() == ["beat", "join", "tell"]

    @pytest.mark.parametrize(
        ("after_s", "asked"), [(BEAT_S - 0.1, ["tell"]), (BEAT_S, ["beat", "tell"])], ids=["early", "due"]
    )
    def test_the_next_ones_beat_when_it_is_due(self, member, store, clock, after_s, asked):
        """And no more often than that."""
        member.tell("hello")
        store.take()
        clock.now += after_s
        member.tell("hello")
        assert store.take() == asked

    def test_a_beat_counts_from_its_own_time(self, member, store, clock):
        """Each puts the next one off."""
        member.tell("hello")
        clock.now += BEAT_S
        member.tell("hello")
        clock.now += BEAT_S - 0.1
        store.take()
        member.tell("hello")
        assert store.take() == ["tell"]

    @pytest.mark.parametrize("asks", ["put", "add", "remove", "find", "waiting", "tell", "footing"])
    def test_every_question_keeps_the_process_alive(self, member, store, clock, asks):
        """Whatever is asked."""
        member.tell("hello")
        clock.now += BEAT_S
        store.take()
        given = {"find": ("key", "k"), "waiting": ("g",), "tell": ("x",), "footing": (LookedAt(),)}
        getattr(member, asks)(*given.get(asks, ("key", "k", "v")))
        assert store.take()[0] == "beat"

    def test_what_it_holds_is_found_without_a_question(self, member, store):
        """It knows that itself."""
        member.put("key", "k", "mine")
        store.take()
        assert member.find("key", "k") == "mine"
        assert store.take() == []

    def test_a_second_record_of_its_own_is_not_asked_for(self, member, store):
        """The first one has the place."""
        assert member.add("lock", "l", "run 1")
        store.take()
        assert not member.add("lock", "l", "run 2")
        assert store.take() == [] and member.find("lock", "l") == "run 1"

    def test_another_value_is_not_removed(self, member, store, other):
        """Nor is anybody asked."""
        member.put("key", "k", "mine")
        store.take()
        member.remove("key", "k", "another")
        assert store.take() == [] and other.find("key", "k") == "mine"

    def test_a_process_that_slept_tells_all_again(self, member, other, clock):
        """With its next beat, which finds that the store has buried it."""
        member.put("key", "k", "mine")
        clock.now += LEASE_S + 1
        other.beat()
        assert other.find("key", "k") is None
        member.tell("hello")
        assert other.find("key", "k") == "mine"


class TestForgotten:
    """A store that lost its memory answers, and does not know who asks."""

    @pytest.fixture
    def forgetful(self, store):
        """The next `tell` finds nobody."""

        def unknown():
            raise Forgotten("who?")

        return lambda: store.during.update(tell=unknown)

    def test_it_is_told_again(self, member, store, forgetful):
        """Then it is asked once more; the process stays with the others."""
        member.tell("hello")
        store.take()
        forgetful()
        member.tell("hello")
        assert store.take() == ["tell", "join", "tell"] and member.is_joined

    @pytest.mark.parametrize(("pause_s", "joined"), [(0, False), (BEAT_S - 0.1, False), (BEAT_S, True)])
    def test_one_that_forgets_soon_again_is_lost(self, member, store, forgetful, clock, pause_s, joined):
        """Telling it for ever would hold up the request."""
        member.tell("hello")
        forgetful()
        member.tell("hello")
        clock.now += pause_s
        forgetful()
        member.tell("hello")
        assert member.is_joined is joined


class TestLost:
    def test_a_request_soon_after_does_not_ask(self, lost, store, clock):
        """Nobody waits for it."""
        clock.now += IDLE_RETRY_S
        assert lost.find("key", "k") == "mine" and not lost.add("key", "k", "x")
        assert store.take() == []

    def test_one_long_after_tries_first(self, lost, store, clock, other, caplog):
        """The store is back, and knows again what the process holds."""
        clock.now += LEASE_S + 1
        other.beat()
        store.gone = False
        with caplog.at_level(logging.INFO):
            lost.tell("hello")
        assert store.take() == ["beat", "join", "add", "tell"]
        assert lost.is_joined and other.find("key", "k") == "mine"
        assert caplog.messages == ["this process works together with the others again"]

    def test_a_try_in_vain_puts_off_the_next(self, lost, store, clock, caplog):
        """So long as the first one; nothing is logged, and what is asked is answered by this process."""
        clock.now += IDLE_RETRY_S + 1
        with caplog.at_level(logging.INFO):
            lost.tell("hello")
        assert store.take() == ["beat"] and not lost.is_joined
        clock.now += IDLE_RETRY_S
        lost.tell("hello")
        assert store.take() == [] and caplog.messages == []
        clock.now += 1
        lost.tell("hello")
        assert store.take() == ["beat"]

    def test_after_the_return_the_next_beat_is_not_due_at_once(self, lost, store, clock):
        """To join is to beat."""
        clock.now += IDLE_RETRY_S + 1
        store.gone = False
        lost.tell("hello")
        clock.now += BEAT_S - 0.1
        store.take()
        lost.tell("hello")
        assert store.take() == ["tell"]

    def test_one_that_hangs_is_asked_by_one_thread_only(self, lost, store, clock):
        """A second try, while the first one waits, ends at once; afterwards there may be another."""
        clock.now += IDLE_RETRY_S + 1
        store.gone = False
        answers = []
        store.during["beat"] = lambda: answers.append(lost._joins_again())
        lost.tell("hello")
        assert answers == [False] and store.take() == ["beat", "join", "add", "tell"]
        store.gone = True
        lost.tell("lost again")
        clock.now += IDLE_RETRY_S + 1
        store.gone = False
        lost.tell("hello")
        assert lost.is_joined

    def test_who_came_back_meanwhile_does_not_join_twice(self, lost, store, clock):
        """It would void what others were told in between."""
        before = lost._footing
        clock.now += IDLE_RETRY_S + 1
        store.gone = False
        store.during["beat"] = lambda: lost._join(store)
        lost.tell("hello")
        assert store.take().count("join") == 1 and lost._footing is not before

    def test_a_newer_record_of_another_stays(self, lost, store, other, clock):
        """It was taken while this process was away."""
        clock.now += LEASE_S + 1
        other.join()
        other.put("key", "k", "theirs")
        store.gone = False
        lost.tell("hello")
        assert lost.is_joined and other.find("key", "k") == "theirs"

    def test_a_loss_of_before_changes_nothing(self, member, store):
        """Two threads saw the same store go: the second one finds it back."""
        member.tell("hello")
        old = member._footing
        store.gone = True
        member.tell("hello")
        store.gone = False
        assert member._joins_again()
        member.lose(old, StoreLost("gone"))
        assert member.is_joined

    def test_a_process_without_others_tries_nothing(self, clock):
        """There is no store to come back to."""
        alone = Member(None, clock)
        clock.now += IDLE_RETRY_S + 1
        assert not alone._joins_again()
        assert not alone.is_joined and not alone.many_machines


class TestListening:
    def test_it_beats_hears_and_looks(self, member, store, other):
        """In this order; a message that came twice is heard once."""
        heard, gate = [], LookedAt()
        member.hear("cancel", heard.append)
        member.footing(gate)
        store.take()
        for text in ("cancel a b", "cancel a b", "unknown x", "cancel"):
            other.tell(text)
        member.listen_once(0)
        assert store.take() == ["receive"]
        assert heard == ["a b", ""] and gate.looks == 1

    def test_it_beats_when_it_is_due(self, member, store, clock):
        """Somebody who only waits lives, too."""
        member.tell("hello")
        clock.now += BEAT_S
        store.take()
        member.listen_once(0)
        assert store.take() == ["beat", "receive"]

    def test_a_store_that_is_lost_is_asked_again(self, lost, store):
        """Each time, also soon after; those who wait are served meanwhile."""
        gate = LookedAt()
        lost.footing(gate)
        for _ in range(2):
            lost.listen_once(0)
        assert store.take() == ["beat", "beat"] and gate.looks == 2

    def test_between_two_questions_to_a_store_that_is_lost_there_is_a_pause(self, lost, store, monkeypatch):
        """Of a second, where nobody says else."""
        pauses = []
        monkeypatch.setattr(members, "time", SimpleNamespace(sleep=pauses.append))
        lost._retry_s = Member()._retry_s
        lost.listen_once(0)
        store.gone = False
        lost.listen_once(0)
        assert pauses == [1.0]

    def test_a_hearer_that_fails_keeps_nobody_from_the_next_message(self, member, other, caplog):
        heard = []
        member.hear("odd", lambda rest: 1 / 0)
        member.hear("cancel", heard.append)
        member.tell("hello")
        for text in ("odd x", "cancel a"):
            other.tell(text)
        member.listen_once(0)
        assert heard == ["a"]
        assert "a message from another process could not be handled: odd" in caplog.messages

    def test_a_gate_that_fails_keeps_nobody_from_the_gates_behind_it(self, member, caplog):
        """Each has its own turns; what went wrong is in the log."""
        gates = [LookedAt(), FailingGate(), LookedAt()]
        for gate in gates:
            member.footing(gate)
        member.listen_once(0)
        assert [gate.looks for gate in gates] == [1, 1, 1]
        assert "a queue could not be looked at" in caplog.messages

    def test_it_waits_a_second_for_a_message(self, member, store):
        """So long, and it looks whether anything else is due."""
        waited = []
        member.tell("hello")
        store._inner.receive = lambda wait_s: waited.append(wait_s) or []
        member.listen_once()
        assert waited == [1.0]

    def test_a_store_that_is_back_is_listened_to(self, lost, store, other):
        """In the same step."""
        gate = LookedAt()
        lost.footing(gate)
        store.gone = False
        lost.listen_once(0)
        assert store.take()[-1] == "receive" and lost.is_joined and gate.looks == 1

    def test_a_store_that_goes_while_it_listens(self, member, store):
        """The process continues alone, and looks whose turn it is there."""
        gate = LookedAt()
        member.footing(gate)
        member.tell("hello")
        store.gone = True
        member.listen_once(0)
        assert not member.is_joined and gate.looks == 1

    def test_it_goes_on_while_anything_is_held_or_waits(self, member):
        """A record, or somebody at a gate."""
        gate = LookedAt()
        member.footing(gate)
        assert member._busy is False
        gate.busy = True
        assert member._busy is True
        gate.busy = False
        member.put("key", "k", "v")
        assert member._busy is True
        member.remove("key", "k", "v")
        assert member._busy is False

    @pytest.mark.parametrize("asks", ["put", "add", "footing"])
    def test_whoever_holds_or_waits_begins_to_listen(self, member, asks):
        """From its first record, or gate, on."""
        getattr(member, asks)(*([LookedAt()] if asks == "footing" else ["key", "k", "v"]))
        assert member._work.is_set() and member._listener is not None

    def test_one_listener_is_enough(self, member):
        """It is woken, not made again."""
        member.put("key", "k", "v")
        listener = member._listener
        assert (listener.name, listener.daemon) == ("shared-state", True) and member._work.is_set()
        member._work.clear()
        member.put("key", "l", "v")
        assert member._listener is listener and member._work.is_set()

    def test_a_step_that_fails_is_not_the_last(self, store, clock, caplog, monkeypatch):
        """It is logged, and the listener listens again; it ends with the process."""
        again = threading.Event()

        class Failing(Member):
            steps = 0

            def listen_once(self, wait_s=0.0):
                self.steps += 1
                if self.steps == 1:
                    raise ValueError("odd")
                again.set()

        pauses = []
        monkeypatch.setattr(members, "time", SimpleNamespace(sleep=pauses.append))
        failing = Failing(store, clock, retry_s=0.25)
        failing.put("key", "k", "v")
        assert again.wait(PATIENCE_S) and pauses[0] == 0.25
        failing.leave()
        failing._listener.join(PATIENCE_S)
        assert not failing._listener.is_alive()
        assert "listening to other processes failed" in caplog.text


class TestSoon:
    """What nobody waits for is done by a thread of the member's own."""

    def test_an_action_that_fails_is_not_the_last(self, clock, caplog):
        member, done = Member(None, clock), threading.Event()
        member.do_soon(lambda: 1 / 0)
        member.do_soon(done.set)
        assert done.wait(PATIENCE_S)
        assert caplog.messages == ["the other processes could not be informed"]
        assert (member._doer.name, member._doer.daemon) == ("shared-state-doer", True)

    def test_one_thread_is_enough(self, member):
        member.do_soon(lambda: None)
        first = member._doer
        member.do_soon(lambda: None)
        assert member._doer is first


class TestWhatItWasGivenBefore:
    """The value that a record displaced."""

    def test_of_itself_and_of_others(self, member, other):
        other.put("key", "k", "theirs")
        told = [member.put("key", "k", value) for value in ("one", "one", "two")]
        assert told == ["theirs", None, "one"]

    def test_of_a_store_that_it_joined_meanwhile(self, lost, store, clock):
        """That was told the new value by the joining: it is not what was there before."""
        clock.now += IDLE_RETRY_S + 1
        store.gone = False
        store.during["put"] = lambda: store._inner.put("key", "k", "new")
        assert lost.put("key", "k", "new") == "mine"

    @pytest.mark.parametrize("is_far", [True, False])
    def test_whether_there_may_be_other_machines(self, tables, clock, monkeypatch, is_far):
        """The store knows, whether or not it answers now."""
        monkeypatch.setattr(MemoryStore, "many_machines", is_far)
        store = NotedStore(MemoryStore("one", tables, clock))
        monkeypatch.setattr(members.threading, "Thread", NeverStarted)
        member = Member(store, clock, retry_s=0)
        before = member.many_machines
        store.gone = True
        member.tell("anything")
        assert (before, member.many_machines, member.is_joined) == (is_far, is_far, False)

    def test_others_are_reached_only_where_there_are_any(self, member, clock):
        alone = Member(None, clock)
        assert (alone.is_joined_with_others, member.is_joined_with_others) == (False, True)


class TestTheEnd:
    def test_what_it_held_is_free_at_once(self, member, other):
        """Nobody waits until it is counted as dead."""
        member.put("key", "k", "mine")
        member.leave()
        assert other.find("key", "k") is None

    def test_a_store_that_is_lost_is_not_asked(self, lost, store):
        """The end of a process waits for nothing."""
        lost.leave()
        assert store.take() == []

    def test_a_store_that_goes_with_it(self, member, store, caplog):
        """Is noted, and no more: nobody continues alone."""
        member.tell("hello")
        store.gone = True
        with caplog.at_level(logging.INFO):
            member.leave()
            member.tell("hello")
        assert caplog.messages == [
            "the other processes could not be informed that this one ends: gone",
        ]

    def test_the_only_process_asks_nobody(self, clock):
        """There is nothing to free."""
        Member(None, clock).leave()


class TestThisProcess:
    @pytest.fixture(autouse=True)
    def as_it_was(self, monkeypatch):
        yield
        share_by(lambda owner: None)

    def test_it_has_one_member(self, monkeypatch, clock):
        """Made when it is needed, under a name of its own; it leaves when the process ends."""
        owners, at_the_end = [], []
        monkeypatch.setattr(members.atexit, "register", at_the_end.append)
        share_by(lambda owner: owners.append(owner) or MemoryStore(owner, Tables(), clock))
        assert owners == []
        first = this_process()
        assert this_process() is first and first.is_joined
        assert len(owners) == 1 and owners[0].startswith(f"{os.getpid()}-")
        assert at_the_end == [first.leave]

    def test_a_forked_one_makes_its_own(self, monkeypatch):
        """Its parent's belongs to the parent."""
        monkeypatch.setattr(members.atexit, "register", lambda leave: None)
        share_by(lambda owner: None)
        first = this_process()
        monkeypatch.setattr(members.os, "getpid", lambda: -1)
        second = this_process()
        assert second is not first and this_process() is second

    def test_another_store_means_another_member(self, monkeypatch):
        """The old one knows the old store."""
        monkeypatch.setattr(members.atexit, "register", lambda leave: None)
        share_by(lambda owner: None)
        first = this_process()
        share_by(lambda owner: None)
        assert this_process() is not first


def test_words_that_processes_of_every_version_know():
    """While one version follows another, both run: a lock, or a run, of one is seen by the other."""
    assert (LOCK, RUNNING, CANCEL) == ("lock", "running", "cancel")
