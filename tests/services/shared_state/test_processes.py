"""Several processes behave as one: cancellation, keys, gates and locks over every store, and without it."""

from __future__ import annotations

import logging
import threading
import time

import pytest

from Middleware.common.errors import RequestCancelled, ServerBusy
from Middleware.services.cancellation_service import CancellationService
from Middleware.services.chat_fronts import ChatFronts, ChatOwner
from Middleware.services.fair_gate import FairGate
from Middleware.services.idempotency_service import IdempotencyService
from Middleware.services.locking_service import LockingService
from Middleware.services.shared_state.member import Member
from Middleware.services.shared_state.redis_store import RedisStore
from Middleware.services.shared_state.store import Forgotten, Places, StoreLost
from tests.patience import PATIENCE_S, wait_until
from tests.redis_server import RedisServer


def eventually(claim):
    end = time.monotonic() + PATIENCE_S
    while not claim():
        assert time.monotonic() < end
        time.sleep(0.005)
    return True


class Process:
    """The services of one process."""

    def __init__(self, store, folder):
        self.member = Member(store, retry_s=0.05)
        self.cancellation = CancellationService(member=lambda: self.member)
        self.keys = IdempotencyService(self.cancellation)
        self.folder = folder

    def gate(self, limit=1, max_waiting=0, **more):
        return FairGate(limit, max_waiting, self.cancellation, name=f"gate {limit}", **more)

    def locks(self, name):
        return LockingService(
            self.folder / name / "WilmerDb.ann.sqlite", name, renew_every_s=None, member=lambda: self.member
        )


@pytest.fixture
def processes(shared, tmp_path):
    made = [Process(shared.store(name), tmp_path) for name in ("one", "two")]
    yield made
    for process in made:
        process.member.leave()


class TestCancellation:
    def test_a_request_runs_for_all(self, processes):
        """Until its work has ended."""
        one, two = processes
        one.cancellation.begin("r")
        assert two.cancellation.is_running("r") and not two.cancellation.runs_here("r")
        one.cancellation.acknowledge_cancellation("r")
        assert eventually(lambda: not two.cancellation.is_running("r"))

    def test_it_is_cancelled_where_it_runs(self, processes):
        """Its callbacks run there; whoever asked keeps no mark."""
        one, two = processes
        aborted = threading.Event()
        one.cancellation.begin("r")
        one.cancellation.register_abort_callback("r", aborted.set)
        two.cancellation.request_cancellation("r")
        assert aborted.wait(PATIENCE_S) and one.cancellation.is_cancelled("r")
        assert two.cancellation.get_all_cancelled_requests() == set()

    def test_whose_it_is_is_known_to_all(self, processes):
        """The record of a running request carries its owner; to others it does not run (keys.md 2)."""
        one, two = processes
        one.cancellation.begin("r", "key ann")
        for process in processes:
            assert process.cancellation.is_running_of("r", "key ann")
            assert process.cancellation.is_running_of("r", None)
            assert not process.cancellation.is_running_of("r", "key zoe")
        one.cancellation.acknowledge_cancellation("r")
        assert eventually(lambda: not two.cancellation.is_running_of("r", "key ann"))

    def test_half_of_a_surrogate_pair_is_an_id_like_any(self, processes):
        """JSON of a client can hold one. It is no UTF-8, and no store of texts takes it as it is."""
        one, two = processes
        assert not two.cancellation.is_running("\ud800")
        one.cancellation.begin("\ud800", "ann")
        assert two.cancellation.is_running_of("\ud800", "ann")
        two.cancellation.request_cancellation("\ud800x", "\udfff")
        one.cancellation.acknowledge_cancellation("\ud800")
        assert eventually(lambda: not two.cancellation.is_running("\ud800"))

    def test_a_message_that_comes_too_late(self, processes):
        """Leaves no trace."""
        one, two = processes
        two.cancellation.begin("other")
        one.member.tell("cancel gone")
        two.cancellation.request_cancellation("other")
        one.member.tell("cancel other")
        assert two.cancellation.get_all_cancelled_requests() == {"other"}
        two.cancellation.acknowledge_cancellation("other")


class TestKeys:
    def test_a_retry_replaces_what_runs_elsewhere(self, processes):
        """It is cancelled there."""
        one, two = processes
        aborted = threading.Event()
        one.cancellation.begin("first")
        one.cancellation.register_abort_callback("first", aborted.set)
        assert one.keys.admit("anon:k", "first") is None
        two.cancellation.begin("second")
        assert two.keys.admit("anon:k", "second") == "first"
        assert aborted.wait(PATIENCE_S)

    def test_half_of_a_surrogate_pair_is_a_key_like_any(self, processes):
        """As the `genkey` of a request to KoboldCpp can be one."""
        one, two = processes
        one.cancellation.begin("r1")
        assert one.keys.admit("anon:\ud800", "r1") is None
        assert two.keys.is_held("anon:\ud800") and not two.keys.is_held("anon:\ud801")
        one.keys.release("anon:\ud800", "r1")
        assert eventually(lambda: not two.keys.is_held("anon:\ud800"))

    def test_the_displaced_one_takes_nothing_away(self, processes):
        """Its end leaves the binding of its successor."""
        one, two = processes
        for process, request in ((one, "first"), (two, "second"), (one, "third")):
            process.cancellation.begin(request)
        one.keys.admit("k", "first")
        two.keys.admit("k", "second")
        one.keys.release("k", "first")
        assert one.keys.admit("k", "third") == "second"

    def test_a_key_is_free_after_the_end(self, processes):
        """Nobody is cancelled."""
        one, two = processes
        one.cancellation.begin("first")
        one.keys.admit("k", "first")
        one.keys.release("k", "first")

        def is_free():
            before = two.keys.admit("k", "second")
            two.keys.release("k", "second")
            return before is None

        assert eventually(is_free)


def card_and(*lore):
    return {"role": "system", "content": "\n\n".join(["Card.", *lore])}


class TestChats:
    """prompt-reuse.md 2.1: which paragraphs of its system text a chat began with."""

    @pytest.mark.parametrize("chat_id", ["d", None], ids=["id", "messages"])
    def test_a_chat_goes_on_in_another_process(self, processes, chat_id):
        """With what it began with."""
        one, two = (ChatFronts(lambda process=process: process.member) for process in processes)
        talk = [{"role": "user", "content": f"word {number}"} for number in range(3)]
        parts = [
            fronts.parts(ChatOwner("ana"), chat_id, [card_and(*lore), *talk[:end]], everywhere=False)
            for fronts, lore, end in ((one, (), 1), (two, ["Lore."], 2), (one, ["Lore."], 3))
        ]
        assert parts == [("Card.", ""), ("Card.", "Lore."), ("Card.", "Lore.")]

    def test_alone_it_begins_again(self, processes):
        """Without the others it knows what it saw itself since."""
        process = processes[0]
        fronts = ChatFronts(lambda: process.member)

        def ask(*lore):
            messages = [card_and(*lore), {"role": "user", "content": "A"}]
            return fronts.parts(ChatOwner("ana"), "d", messages, everywhere=False)

        ask()
        process.member.lose(process.member.footing(FairGate(1)), StoreLost("away"))
        assert ask("Lore.") == ("Card.\n\nLore.", "")
        assert ask("Lore.", "More.") == ("Card.\n\nLore.", "More.")


class TestGates:
    def test_the_limit_holds_over_all(self, processes):
        """What one has taken the other waits for."""
        first, second = (process.gate() for process in processes)
        assert first.acquire()
        assert not second.acquire(blocking=False)
        first.release()
        assert second.acquire(timeout=PATIENCE_S)

    def test_slots_are_counted_over_all(self, processes):
        """Of several gates at once, also by a process that has not used them."""
        first, second = ([process.gate(limit) for limit in (2, 3)] for process in processes)
        assert first[0].acquire() and second[0].acquire() and second[1].acquire()
        assert FairGate.count_held(first) == FairGate.count_held(second) == [2, 1]
        first[0].release()
        wait_until(lambda: FairGate.count_held(second) == [1, 1])
        assert FairGate.count_held([]) == []

    def test_the_order_is_that_of_arrival(self, processes):
        """Whichever process they came to."""
        gates = [process.gate() for process in processes]
        gates[0].acquire()
        served, threads = [], []

        def passes(number):
            gates[number % 2].acquire(timeout=PATIENCE_S)
            served.append(number)
            gates[number % 2].release()

        for number in range(6):
            threads.append(threading.Thread(target=passes, args=(number,)))
            threads[-1].start()
            eventually(lambda: processes[0].member.waiting("gate 1") == len(threads))
        gates[0].release()
        for thread in threads:
            thread.join(PATIENCE_S)
        assert served == [0, 1, 2, 3, 4, 5]

    def test_many_at_once(self, processes):
        """Two processes of four threads each at a gate of two: never more than two are inside, nobody is lost."""
        gates = [process.gate(2) for process in processes]
        inside, most = [], []

        def passes(gate):
            for _ in range(5):
                assert gate.acquire(timeout=PATIENCE_S)
                inside.append(1)
                most.append(len(inside))
                inside.pop()
                gate.release()

        threads = [threading.Thread(target=passes, args=(gate,)) for gate in gates for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(PATIENCE_S)
        assert len(most) == 40 and max(most) <= 2
        assert eventually(lambda: not any(gate.busy for gate in gates))

    def test_a_cancelled_waiter_leaves(self, processes):
        """Also when the other process says so."""
        one, two = processes
        gates = one.gate(), two.gate()
        gates[0].acquire()
        two.cancellation.begin("r")
        outcome = []

        def waits():
            try:
                gates[1].acquire(timeout=PATIENCE_S, request_id="r")
            except RequestCancelled as error:
                outcome.append(error)

        thread = threading.Thread(target=waits)
        thread.start()
        eventually(lambda: gates[1].waiting == 1)
        one.cancellation.request_cancellation("r")
        thread.join(PATIENCE_S)
        assert len(outcome) == 1 and eventually(lambda: not gates[1].busy)

    def test_the_queue_is_counted_over_all(self, processes):
        """A full one turns away in every process."""
        first, second = (process.gate(max_waiting=1) for process in processes)
        first.acquire()
        thread = threading.Thread(target=first.acquire, kwargs={"timeout": 60})
        thread.start()
        eventually(lambda: first._member().waiting(first._key) == 1)  # the others know it, too
        with pytest.raises(ServerBusy, match="1 requests are already waiting"):
            second.acquire(timeout=PATIENCE_S)
        assert not second.busy
        first.release()
        thread.join(PATIENCE_S)

    def test_titles_stand_behind_the_people_of_all(self, processes):
        """A chat of another process runs: the title waits."""
        first, second = (process.gate(2, settle_s=0) for process in processes)
        first.acquire()
        served = threading.Event()
        title = threading.Thread(
            target=lambda: second.acquire(timeout=PATIENCE_S, behind=True) and served.set()
        )
        title.start()
        eventually(lambda: [waiter.settled for waiter in second._waiters.values()] == [True])
        second.look()
        assert not served.is_set()
        first.release()
        title.join(PATIENCE_S)
        assert served.is_set()

    @pytest.mark.parametrize("inside", [True, False], ids=["a-slot", "a-place"])
    def test_a_killed_process_frees_what_it_had(self, shared, processes, inside):
        """It beats no more."""
        gone = shared.store("gone")
        gone.join()
        (gate,) = (process.gate() for process in processes[:1])
        if inside:
            gone.turns("gate 1", 1, Places(hold=["x"]))
        else:
            gate.acquire()
            gone.turns("gate 1", 1, Places(wait=["x"]))
        shared.silence("gone")
        if not inside:
            gate.release()
        assert gate.acquire(timeout=PATIENCE_S)

    def test_one_that_was_stopped_for_long_comes_back(self, shared, processes):
        """A laptop slept: with its next beat what it holds is told again."""
        first, second = (process.gate() for process in processes)
        first.acquire()
        shared.silence("one")
        assert second.acquire(timeout=PATIENCE_S)
        second.release()
        eventually(lambda: not second.acquire(blocking=False) or second.release())


class TestLocks:
    def test_machines_share_locks(self, request, processes, shared):
        """Where their folders are not one: through Redis; other stores are of one machine, whose file tells."""
        one, two = processes
        first, second = one.locks("m1"), two.locks("m2")
        over_machines = one.member.many_machines
        assert first.acquire("nightly", "run 1")
        assert second.acquire("nightly", "run 2") is not over_machines
        assert not first.acquire("nightly", "run 1")
        first.release("run 1")
        second.release("run 2")
        assert eventually(lambda: second.acquire("nightly", "run 3"))
        second.release("run 3")

    def test_the_file_knows_what_was_taken_before_others_went_away(self, processes):
        """Two servers of one machine whose Redis dies do not both run what only one may."""
        one, _ = processes
        first, other = one.locks("m1"), Process(None, one.folder).locks("m1")
        assert first.acquire("nightly", "run 1")
        one.member.lose(one.member.footing(one.gate()), StoreLost("gone"))
        assert not other.acquire("nightly", "run 2")
        first.release("run 1")
        assert other.acquire("nightly", "run 2")
        other.release("run 2")

    def test_while_others_are_away_the_file_tells(self, processes):
        """What it refuses leaves no record."""
        one, _ = processes
        first, other = one.locks("m1"), Process(None, one.folder).locks("m1")
        one.member.lose(one.member.footing(one.gate()), StoreLost("gone"))
        assert other.acquire("nightly", "run 0")
        assert not first.acquire("nightly", "run 1")
        assert one.member.find("lock", "WilmerDb.ann.sqlite nightly") is None


class Fragile:
    """A store that can be taken away: the seam of a network that fails.

    `forgets`: it does not keep what it is told; `answers` cleared: it hangs, and says so by `hangs`.
    """

    def __init__(self, inner):
        self._inner, self.gone, self.asked, self.forgets = inner, False, 0, False
        self.answers, self.hangs = threading.Event(), threading.Event()
        self.answers.set()

    def __getattr__(self, name):
        found = getattr(self._inner, name)
        if not callable(found):
            return found

        def ask(*given):
            self.asked += 1
            if not self.answers.is_set():
                self.hangs.set()
                self.answers.wait(PATIENCE_S)
            if self.gone:
                raise StoreLost("gone")
            if self.forgets and name in ("put", "add", "turns"):
                raise Forgotten("who?")
            return found(*given)

        return ask


def _lives(process, request_id):
    """A request, from its begin to its end."""
    process.cancellation.begin(request_id)
    process.keys.admit(f"key of {request_id}", request_id)
    gate = process.gate()
    gate.acquire(request_id=request_id)
    gate.release()
    process.keys.release(f"key of {request_id}", request_id)
    process.cancellation.acknowledge_cancellation(request_id)


class TestAlone:
    @pytest.fixture
    def fragile(self, shared, tmp_path):
        store = Fragile(shared.store("one"))
        both = Process(store, tmp_path), Process(shared.store("two"), tmp_path)
        yield store, *both
        for process in both:
            process.member.leave()

    def test_it_goes_on_alone_with_one_warning(self, fragile, caplog):
        """With its own limit, and nobody waits for a store that does not answer."""
        store, process, _ = fragile
        gate = process.gate()
        gate.acquire()
        store.gone = True
        with caplog.at_level(logging.WARNING):
            assert not gate.acquire(blocking=False)
            process.cancellation.begin("r")
            process.keys.admit("k", "r")
            assert process.cancellation.is_running("r") and not process.cancellation.is_running("s")
            assert process.keys.admit("k", "s") == "r"
            gate.release()
            assert gate.acquire(blocking=False)
        warnings = [record.message for record in caplog.records if record.message.endswith(": gone")]
        assert len(warnings) == 1 and "continues alone" in warnings[0]

    def test_who_waits_is_served_all_the_same(self, fragile):
        """The slot of another process that cannot be reached does not count."""
        store, process, other = fragile
        other.gate().acquire()
        gate, served = process.gate(), threading.Event()
        threading.Thread(
            target=lambda: gate.acquire(timeout=PATIENCE_S) and served.set(), daemon=True
        ).start()
        eventually(lambda: gate.waiting == 1)
        store.gone = True
        assert served.wait(PATIENCE_S)

    def test_nobody_waits_while_one_thread_asks_it_again(self, fragile):
        """A store that hangs: whoever asks it waits for an answer, and no request with it."""
        store, process, _ = fragile
        process.cancellation.begin("long")
        store.gone = True
        eventually(lambda: not process.member.is_joined)
        store.answers.clear()
        assert store.hangs.wait(PATIENCE_S)
        requests = [threading.Thread(target=_lives, args=(process, str(number))) for number in range(4)]
        for request in requests:
            request.start()
        for request in requests:
            request.join(PATIENCE_S)
        assert not any(request.is_alive() for request in requests)
        store.answers.set()

    def test_one_that_forgot_is_told_again(self, shared, fragile, caplog):
        """Somebody emptied it: with the next question the process joins anew, and nobody is warned."""
        _, process, other = fragile
        gate, others = process.gate(), other.gate()
        gate.acquire()
        process.cancellation.begin("r")
        shared.silence("one")
        other.member._remote.beat()
        with caplog.at_level(logging.WARNING):
            process.cancellation.begin("s")
        assert other.cancellation.is_running("r") and other.cancellation.is_running("s")
        eventually(lambda: not others.acquire(blocking=False) or others.release())
        assert "continues alone" not in caplog.text
        gate.release()
        assert others.acquire(timeout=PATIENCE_S)

    def test_one_that_forgets_at_once_is_lost(self, fragile):
        """It is not asked for ever."""
        store, process, _ = fragile
        process.cancellation.begin("r")
        store.forgets = True
        process.cancellation.begin("s")
        assert not process.member.is_joined and process.cancellation.is_running("s")

    def test_it_joins_again(self, fragile):
        """And tells what it holds: requests, keys, slots."""
        store, process, other = fragile
        gate, others = process.gate(), other.gate()
        store.gone = True
        gate.acquire()
        process.cancellation.begin("r")
        process.keys.admit("k", "r")
        store.gone = False
        eventually(lambda: process.member.is_joined)
        assert other.cancellation.is_running("r")
        eventually(lambda: not others.acquire(blocking=False) or others.release())
        assert other.keys.admit("k", "s") == "r"
        gate.release()
        assert others.acquire(timeout=PATIENCE_S)

    def test_what_ended_meanwhile_is_not_told(self, fragile):
        """The store held it when it was lost."""
        store, process, other = fragile
        gate, others = process.gate(), other.gate()
        gate.acquire()
        process.cancellation.begin("kept")
        process.cancellation.begin("r")
        store.gone = True
        gate.release()
        process.cancellation.acknowledge_cancellation("r")
        store.gone = False
        eventually(lambda: process.member.is_joined)
        assert not other.cancellation.is_running("r") and other.cancellation.is_running("kept")
        assert others.acquire(timeout=PATIENCE_S)

    def test_a_redis_that_restarts(self, tmp_path):
        """It comes back empty; the process tells it all again."""
        server = RedisServer(tmp_path)
        process, other = (Process(RedisStore(server.url, name), tmp_path) for name in ("one", "two"))
        gate, others = process.gate(), other.gate()
        gate.acquire()
        process.cancellation.begin("r")
        server.stop()
        eventually(lambda: not process.member.is_joined)
        server.start()
        eventually(lambda: process.member.is_joined and other.cancellation.is_running("r"))
        eventually(lambda: not others.acquire(blocking=False) or others.release())
        gate.release()
        assert others.acquire(timeout=PATIENCE_S)
        others.release()
        process.cancellation.acknowledge_cancellation("r")
        for one in (process, other):
            one.member.leave()
        server.stop()


def test_a_hearer_that_fails_ends_nothing(shared, tmp_path, caplog):
    """It is logged; the next message is heard, also if it came together with the bad one."""
    process, heard = Process(shared.store("one"), tmp_path), threading.Event()

    def fails(rest):
        raise ValueError(rest)

    process.member.hear("bad", fails)
    process.member.hear("good", lambda rest: heard.set())
    process.cancellation.begin("r")
    process.member.tell("bad news")
    process.member.tell("good news")
    assert heard.wait(PATIENCE_S)
    assert "a message from another process could not be handled: bad" in caplog.text
    process.member.leave()


def test_one_process_polls_nothing():
    """No thread, no store but its own memory."""
    before = set(threading.enumerate())
    process = Process(None, None)
    gate = process.gate()
    process.cancellation.begin("r")
    assert process.keys.admit("k", "r") is None and gate.acquire(timeout=PATIENCE_S, request_id="r")
    gate.release()
    process.cancellation.acknowledge_cancellation("r")
    assert set(threading.enumerate()) <= before


def test_a_process_that_holds_nothing_asks_nothing(shared, tmp_path):
    """The store is left alone until the next request."""
    store = Fragile(shared.store("one"))
    process = Process(store, tmp_path)
    process.cancellation.begin("r")
    process.cancellation.acknowledge_cancellation("r")
    eventually(lambda: not process.member._work.is_set())
    asked, other = store.asked, shared.store("two")
    other.join()
    other.tell("cancel r")
    assert "cancel r" in other.receive(20) and store.asked == asked
    process.member.leave()
