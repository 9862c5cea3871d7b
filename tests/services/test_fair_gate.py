"""First come, first served; a waiter whose request is cancelled leaves (frontend-api.md 15.3)."""

from __future__ import annotations

import threading
import time

import pytest

from Middleware.common.errors import RequestCancelled, ServerBusy
from Middleware.common.instance_global_variables import LaunchFacts, launch_facts, set_launch_facts
from Middleware.services import fair_gate
from Middleware.services.cancellation_service import CancellationService
from Middleware.services.fair_gate import (
    SETTLE_S,
    FairGate,
    any_machine_called,
    gate_of_machine,
    outgoing_gate,
)
from Middleware.services.shared_state.member import Member
from Middleware.services.shared_state.store import LEASE_S, MemoryStore
from Middleware.services.shared_state.turns import Ask
from tests.patience import PATIENCE_S, wait_until


@pytest.fixture
def cancellation():
    return CancellationService()


@pytest.fixture
def gate(cancellation):
    return FairGate(1, cancellation=cancellation)


def waiting(gate, count):
    """Wait until so many stand in the queue."""
    end = time.monotonic() + PATIENCE_S
    while gate.waiting != count:
        assert time.monotonic() < end
        time.sleep(0.001)


def test_slots_are_counted():
    """Two may hold a gate of two, a third may not."""
    gate = FairGate(2)
    assert gate.acquire() and gate.acquire(blocking=False)
    assert not gate.acquire(blocking=False)
    assert not gate.acquire(timeout=0.01)
    gate.release()
    assert gate.acquire(blocking=False)


def test_releasing_too_often_is_an_error(gate):
    """It would let in one more than the limit."""
    with pytest.raises(ValueError, match=r"^FairGate released more often than it was taken$"):
        gate.release()


class TestStoreThatFails:
    """With an error that nobody foresaw, once."""

    @pytest.fixture
    def gate(self):
        store = MemoryStore()
        ask, failures = store.turns, [OverflowError("too large")]

        def turns(*given):
            if failures:
                raise failures.pop()
            return ask(*given)

        store.turns = turns
        member = Member(store)
        return FairGate(1, cancellation=CancellationService(member=lambda: member))

    @pytest.mark.parametrize("enter", [FairGate.acquire, FairGate.take_spare, FairGate.line_up])
    def test_leaves_no_place_behind(self, gate, enter):
        """Nobody would ever take it, or give it back."""
        with pytest.raises(OverflowError):
            enter(gate, ask=Ask(name="ann"))
        assert not gate.busy and not gate._asks
        assert gate.acquire(blocking=False)

    def test_leaves_no_place_of_one_who_finds_out_what_it_needs(self, cancellation):
        """Who learns its machine while it waits tells of itself a second time."""
        gate = FairGate(1, cancellation=cancellation)
        gate.acquire()

        def learn():
            cancellation.member().footing(gate).store.turns = None
            return Ask("desk", "small")

        with pytest.raises(TypeError):
            gate.acquire(learn=learn)
        assert gate.waiting == 0


def test_waiters_are_served_in_order(gate):
    """Whoever came first goes first."""
    gate.acquire()
    served = []

    def wait(name):
        gate.acquire(timeout=PATIENCE_S)
        served.append(name)
        gate.release()

    threads = []
    for number in range(5):
        threads.append(threading.Thread(target=wait, args=(number,)))
        threads[-1].start()
        waiting(gate, number + 1)
    gate.release()
    for thread in threads:
        thread.join(PATIENCE_S)
    assert served == [0, 1, 2, 3, 4]


def test_a_newcomer_does_not_overtake_the_queue(gate):
    """Also in the moment in which a slot changes hands."""
    gate.acquire()
    thread = threading.Thread(target=gate.acquire, kwargs={"timeout": 5})
    thread.start()
    waiting(gate, 1)
    gate.release()
    thread.join(PATIENCE_S)
    assert not gate.acquire(blocking=False)


def test_one_who_gave_up_is_out_of_the_queue(gate):
    """The next slot is not lost to somebody who has gone."""
    gate.acquire()
    assert not gate.acquire(timeout=0.01)
    assert gate.waiting == 0
    gate.release()
    assert gate.acquire(blocking=False)


def test_a_cancelled_waiter_leaves_at_once(gate, cancellation):
    """Without waiting for its turn, and without taking a slot."""
    gate.acquire()
    outcome = []

    def wait():
        try:
            gate.acquire(timeout=PATIENCE_S, request_id="r")
        except RequestCancelled as error:
            outcome.append(error)

    thread = threading.Thread(target=wait)
    thread.start()
    waiting(gate, 1)
    cancellation.request_cancellation("r")
    thread.join(PATIENCE_S)
    assert len(outcome) == 1 and gate.waiting == 0


def test_a_cancellation_after_admission_changes_nothing(gate, cancellation):
    """The abort callback went with the wait."""
    assert gate.acquire(request_id="r")
    cancellation.request_cancellation("r")
    gate.release()


def test_one_who_waits_no_longer_is_no_longer_told(gate, cancellation):
    """Who was let in, and who gave up: a later cancellation finds nothing to stop."""
    gate.acquire()
    assert not gate.acquire(timeout=0.01, request_id="gave-up")
    thread = threading.Thread(target=gate.acquire, kwargs={"timeout": PATIENCE_S, "request_id": "let-in"})
    thread.start()
    wait_until(lambda: list(cancellation._callbacks) == ["let-in"])
    gate.release()
    thread.join(PATIENCE_S)
    assert cancellation._callbacks == {}


def test_a_full_queue_turns_away(cancellation):
    """At once: the client may try elsewhere."""
    gate = FairGate(1, max_waiting=1, cancellation=cancellation)
    gate.acquire()
    thread = threading.Thread(target=gate.acquire, kwargs={"timeout": 5})
    thread.start()
    waiting(gate, 1)
    with pytest.raises(ServerBusy, match=r"^server is busy: 1 requests are already waiting$"):
        gate.acquire(timeout=PATIENCE_S)
    assert gate.waiting == 1
    gate.release()
    thread.join(PATIENCE_S)


@pytest.mark.parametrize(
    ("level", "limit", "is_there"),
    [("endpoint", 2, True), ("endpoint", 0, False), ("request", 2, False)],
)
def test_the_gate_of_outgoing_calls(level, limit, is_there):
    """There is one for the process at level `endpoint` with a limit."""
    before = launch_facts()
    set_launch_facts(LaunchFacts(concurrency=limit, concurrency_level=level))
    try:
        gate = outgoing_gate()
        assert (gate is not None) is is_there
        assert gate is outgoing_gate()
        assert gate is None or (gate.limit, gate._name) == (2, "outgoing calls, at most 2")
    finally:
        set_launch_facts(before)


def test_a_machine_has_one_gate_whatever_its_limit():
    """The limit is the one that was named last."""
    fair_gate._machine.cache_clear()
    assert not any_machine_called()
    gate = gate_of_machine("desk", 2)
    assert gate_of_machine("desk", 3) is gate and gate.limit == 3
    assert gate._name == "machine desk"  # as other processes call it
    assert gate.acquire(ask=Ask("desk", "a")) and not gate.acquire(blocking=False, ask=Ask("desk", "b"))
    assert gate_of_machine("attic", 2) is not gate and any_machine_called()
    fair_gate._machine.cache_clear()


def test_the_times_of_the_page():
    """frontend-api.md 15.3; a member is dead after the time that docs/scaling.md names."""
    assert (SETTLE_S, fair_gate.PATIENCE_S, LEASE_S) == (0.5, 60.0, 7.0)


def test_gates_of_one_name_are_apart_where_no_other_process_is(cancellation):
    """Each has its own slots: a server that starts anew in this process does not wait for the old one's."""
    first, second = (FairGate(1, cancellation=cancellation, name="outgoing") for _ in range(2))
    assert first.acquire(blocking=False) and second.acquire(blocking=False)
    assert not first.acquire(blocking=False)
    assert (first.held_slots, second.held_slots) == (1, 1)


class TestBehind:
    """What a front end asks for itself stands behind what people ask (15.3)."""

    @staticmethod
    def taken(gate, served, name, **asked):
        def wait():
            if gate.acquire(timeout=PATIENCE_S, **asked):
                served.append(name)

        thread = threading.Thread(target=wait)
        thread.start()
        return thread

    def test_people_who_come_in_the_first_moment_go_first(self, cancellation):
        """The chat comes just after the request for its title: nobody runs, and still the title waits."""
        gate, served = FairGate(1, cancellation=cancellation, settle_s=0.2), []
        title = self.taken(gate, served, "title", behind=True)
        waiting(gate, 1)
        self.taken(gate, served, "chat").join(PATIENCE_S)
        assert served == ["chat"]
        gate.release()
        title.join(PATIENCE_S)
        assert served == ["chat", "title"]

    def test_every_chat_that_comes_while_it_waits_goes_first(self, cancellation):
        """Also one that came later."""
        gate, served = FairGate(1, cancellation=cancellation, settle_s=0), []
        gate.acquire()
        threads = [self.taken(gate, served, "title", behind=True)]
        waiting(gate, 1)
        threads.append(self.taken(gate, served, "chat"))
        waiting(gate, 2)
        gate.release()
        threads[1].join(PATIENCE_S)
        assert served == ["chat"]
        gate.release()
        threads[0].join(PATIENCE_S)
        assert served == ["chat", "title"]

    def test_it_enters_an_empty_gate_only(self, cancellation):
        """Of two slots one is free: not for a title while a chat runs."""
        gate, served = FairGate(2, cancellation=cancellation, settle_s=0), []
        gate.acquire()
        title = self.taken(gate, served, "title", behind=True)
        title.join(0.1)
        assert served == []
        gate.release()
        title.join(PATIENCE_S)
        assert served == ["title"]

    def test_one_at_a_time_in_order(self, cancellation):
        """Those behind keep their own order."""
        gate, served = FairGate(2, cancellation=cancellation, settle_s=0), []
        gate.acquire()
        first = self.taken(gate, served, "title", behind=True)
        waiting(gate, 1)
        second = self.taken(gate, served, "tags", behind=True)
        waiting(gate, 2)
        gate.release()
        first.join(PATIENCE_S)
        assert served == ["title"]
        gate.release()
        second.join(PATIENCE_S)
        assert served == ["title", "tags"]

    def test_patience_ends(self, cancellation):
        """After a while it is an ordinary request: a free slot is enough, and chats that come later wait."""
        gate, served = FairGate(1, cancellation=cancellation, settle_s=0, patience_s=0.05), []
        gate.acquire()
        title = self.taken(gate, served, "title", behind=True)
        waiting(gate, 1)
        time.sleep(0.3)
        chat = self.taken(gate, served, "chat")
        waiting(gate, 2)
        gate.release()
        title.join(PATIENCE_S)
        assert served == ["title"]
        gate.release()
        chat.join(PATIENCE_S)

    def test_a_free_slot_is_enough_then(self, cancellation):
        """One of two is taken for ever; the title is served all the same."""
        gate = FairGate(2, cancellation=cancellation, settle_s=0, patience_s=0.05)
        gate.acquire()
        assert gate.acquire(timeout=PATIENCE_S, behind=True)

    def test_a_time_limit(self, cancellation):
        """As for everybody."""
        gate = FairGate(1, cancellation=cancellation, settle_s=0)
        gate.acquire()
        assert not gate.acquire(timeout=0.05, behind=True)
        assert gate.waiting == 0

    def test_a_cancelled_one_leaves(self, gate, cancellation):
        """In the first moment, too."""
        cancellation.begin("r")
        cancellation_thread = threading.Timer(0.05, cancellation.request_cancellation, ["r"])
        cancellation_thread.start()
        with pytest.raises(RequestCancelled):
            gate.acquire(timeout=PATIENCE_S, request_id="r", behind=True)
        assert gate.waiting == 0

    def test_it_fills_no_queue(self, cancellation):
        """A chat is not refused because titles wait; a title is when people wait."""
        gate, served = FairGate(1, 1, cancellation=cancellation, settle_s=0), []
        gate.acquire()
        threads = [self.taken(gate, served, "title", behind=True)]
        waiting(gate, 1)
        threads.append(self.taken(gate, served, "chat"))
        waiting(gate, 2)
        with pytest.raises(ServerBusy):
            gate.acquire(behind=True)
        gate.release()
        threads[1].join(PATIENCE_S)
        gate.release()
        threads[0].join(PATIENCE_S)
        assert served == ["chat", "title"]


class TestModelsOfAMachine:
    """Who says for which model it comes is served in rows (prompt-reuse.md 7.1)."""

    def test_the_loaded_model_first(self, cancellation):
        """Though another one has waited longer."""
        gate, served = FairGate(1, cancellation=cancellation), []
        gate.acquire(ask=Ask("desk", "a"))

        def wait(model):
            gate.acquire(timeout=PATIENCE_S, ask=Ask("desk", model))
            served.append(model)
            gate.release()

        threads = []
        for count, model in enumerate("baab", 1):
            threads.append(threading.Thread(target=wait, args=(model,)))
            threads[-1].start()
            waiting(gate, count)
        gate.release()
        for thread in threads:
            thread.join(PATIENCE_S)
        assert "".join(served) == "aabb"

    def test_a_gate_of_one_model_has_room_for_no_other(self, cancellation):
        gate = FairGate(9, cancellation=cancellation, one_model=True)
        assert gate.acquire(ask=Ask("desk", "a")) and gate.acquire(ask=Ask("desk", "a"))
        assert not gate.acquire(blocking=False, ask=Ask("desk", "b"))
        gate.release()
        gate.release()
        assert gate.acquire(blocking=False, ask=Ask("desk", "b"))

    def test_a_spare_turn(self, cancellation):
        """For work that can be left out: nobody waits, and no model is loaded for it. It counts as a slot."""
        gate = FairGate(1, cancellation=cancellation, one_model=True)
        assert not gate.take_spare(Ask("desk", "a"))
        gate.acquire(ask=Ask("desk", "a"))
        assert not gate.take_spare(Ask("desk", "a"))
        gate.release()
        assert not gate.take_spare(Ask("desk", "b"))
        assert gate.take_spare(Ask("desk", "a")) and gate.held_slots == 1
        assert not gate.acquire(blocking=False, ask=Ask("desk", "a"))
        gate.release()
        assert not gate.busy

    def test_a_spare_turn_that_was_not_to_be_had_leaves_nothing(self, cancellation):
        """Else it would grow with every call that is left out."""
        gate = FairGate(1, cancellation=cancellation)
        gate.acquire(ask=Ask("desk", "a"))
        assert not gate.take_spare(Ask("desk", "a"))
        gate.release()
        assert gate._asks == {}

    def test_what_it_asks_for_may_be_found_out_while_it_waits(self, cancellation):
        """Nobody looks when there is a slot; who waits keeps its place, and what is not known is served in
        order of arrival.
        """
        gate, served = FairGate(1, cancellation=cancellation), []

        def wait(name, ask):
            gate.acquire(timeout=PATIENCE_S, learn=lambda: ask)
            served.append(name)
            gate.release()

        gate.acquire(learn=lambda: pytest.fail("there is a slot"))
        a, b = Ask("desk", "a"), Ask("desk", "b")
        threads, known = [], 0
        for count, (name, ask) in enumerate((("b1", b), ("?1", None), ("a1", a), ("b2", b)), 1):
            threads.append(threading.Thread(target=wait, args=(name, ask)))
            threads[-1].start()
            known += ask is not None
            waiting(gate, count)
            wait_until(lambda known=known: len(gate._asks) == known)
        gate.release()
        for thread in threads:
            thread.join(PATIENCE_S)
        assert served == ["b1", "?1", "b2", "a1"]

    def test_one_that_cannot_be_found_out_leaves(self, cancellation):
        """Also when its turn came meanwhile."""
        gate = FairGate(1, cancellation=cancellation)

        def fail():
            raise LookupError("no such model")

        def fail_late():
            gate.release()
            fail()

        gate.acquire()
        for failing in (fail, fail_late):
            with pytest.raises(LookupError):
                gate.acquire(learn=failing)
        assert not gate.busy


class FarStore(MemoryStore):
    """A store far away. `asked`: the gate's news, in order; `arrives(places)` runs before each answer."""

    many_machines = True

    def __init__(self, arrives):
        super().__init__()
        self.asked, self.arrives = [], arrives

    def turns(self, gate, limit, places, one_model=False, when_queued=None):
        self.asked.append(places)
        when_queued()
        self.arrives(places)
        return super().turns(gate, limit, places, one_model)


def far_gate(limit, arrives, max_waiting=0):
    """A gate whose process shares its state through such a store."""
    store = FarStore(arrives)
    member = Member(store)
    return FairGate(limit, max_waiting, CancellationService(member=lambda: member), name="g"), store


class TestStoresFarAway:
    """Nobody waits for another one's question, and nobody for a removal."""

    def test_requests_ask_at_the_same_time(self):
        """None is asked before all others have arrived, too."""
        meeting = threading.Barrier(4)
        gate, _ = far_gate(4, lambda places: meeting.wait(PATIENCE_S) if places.wait else None)
        threads = [threading.Thread(target=gate.acquire) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(PATIENCE_S)
        assert gate.held_slots == 4

    def test_a_slot_is_given_back_at_once(self):
        """The store hears of it later, of all that left meanwhile together."""
        answers = threading.Event()
        gate, store = far_gate(3, lambda places: answers.wait(PATIENCE_S) if places.leave else None)
        for _ in range(3):
            gate.acquire()
        gate.release()
        wait_until(lambda: store.asked[-1].leave)
        gate.release()
        gate.release()
        assert gate.held_slots == 0
        answers.set()
        wait_until(lambda: sum(len(places.leave) for places in store.asked) == 3)
        assert [len(places.leave) for places in store.asked if places.leave] == [1, 2]
        assert gate.acquire(timeout=PATIENCE_S)

    def test_who_comes_next_tells_of_those_who_left(self):
        """In one question."""
        gate, store = far_gate(1, lambda places: None)
        gate.acquire()
        gate._member().do_soon = lambda action: None  # it has not come to it yet
        gate.release()
        assert gate.acquire(timeout=PATIENCE_S)
        assert (len(store.asked[-1].leave), len(store.asked[-1].wait)) == (1, 1)

    def test_a_queue_that_has_an_end(self):
        """Whoever comes at the same time: exactly so many may wait."""
        meeting = threading.Barrier(8)
        gate, _ = far_gate(1, lambda places: meeting.wait(PATIENCE_S) if places.wait else None, max_waiting=2)
        seen = []

        def come():
            try:
                seen.append(gate.acquire(timeout=PATIENCE_S))
            except ServerBusy:
                seen.append("busy")

        threads = [threading.Thread(target=come) for _ in range(8)]
        for thread in threads:
            thread.start()
        wait_until(lambda: len(seen) == 6)
        assert (seen.count(True), seen.count("busy"), gate.waiting) == (1, 5, 2)
        for _ in range(3):
            wait_until(lambda: gate.held_slots)
            gate.release()
        for thread in threads:
            thread.join(PATIENCE_S)
        assert seen.count(True) == 3
