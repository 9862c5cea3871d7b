"""What a key may use, and what it is told when it has (keys.md 4, 8)."""

from __future__ import annotations

import logging
import random
import threading
import time

import pytest

from Middleware.common.asker import Asker
from Middleware.common.costs import Cost
from Middleware.common.errors import RateLimited, RequestCancelled, ServerBusy
from Middleware.common.request_context import RequestContext, enter_request
from Middleware.config.key_file import KeyEntry, KeyLimits
from Middleware.config.key_ring import KeyRing
from Middleware.services import fair_gate
from Middleware.services.cancellation_service import CancellationService
from Middleware.services.fair_gate import FairGate
from Middleware.services.key_limits import (
    A_MINUTE,
    CONCURRENT,
    COST,
    QUEUED,
    TOKENS,
    KeyLimiter,
    ask_of,
    ask_of_request,
    count_use,
    day_of,
    duration_text,
    seconds_to_midnight,
)
from Middleware.services.shared_state.member import Member
from Middleware.services.shared_state.store import MemoryStore, Tables
from Middleware.services.shared_state.turns import Ask
from tests.clock import Clock
from tests.patience import PATIENCE_S, wait_until

NOON = time.mktime((2026, 11, 28, 12, 0, 0, 0, 0, -1))


@pytest.fixture
def cancellation():
    member = Member()
    service = CancellationService()
    service.member = lambda: member
    return service


@pytest.fixture
def clock():
    return Clock(NOON)


@pytest.fixture
def limiter(cancellation, clock):
    return KeyLimiter(None, cancellation, clock)


def asker(name="ann", *, turns="", priority="people", **limits):
    entry = KeyEntry(name, "0" * 64, ("*",), limits=KeyLimits(**limits), priority=priority)
    return Asker(name, f"key {name}", "secret", entry, turns)


def limiter_of_member(member, clock):
    service = CancellationService(member=lambda: member)
    return KeyLimiter(None, service, clock)


def nothing():
    return None


def has_turn(request):
    """Whether its turn has come, without waiting."""
    return request.wait(0, "", nothing)


def has_its_turn(request):
    """The same of one that goes on waiting where it has not come."""
    return request._line.enter()


class TestTexts:
    @pytest.mark.parametrize(
        ("seconds", "text"),
        [(0, "0s"), (11.2, "12s"), (360, "6m0s"), (25_920, "7h12m0s"), (3600, "1h0m0s"), (59.01, "1m0s")],
    )
    def test_durations(self, seconds, text):
        assert duration_text(seconds) == text

    def test_the_day_is_that_of_the_zone(self):
        assert day_of(NOON) == "2026-11-28"
        assert seconds_to_midnight(NOON) == 12 * 3600
        assert seconds_to_midnight(NOON + 0.5) == 12 * 3600


class TestRequestsAMinute:
    def test_thirty_go_and_the_next_is_told_when(self, limiter):
        """The sentence, and whole seconds."""
        for _ in range(30):
            limiter.request(asker("ann-laptop", requests_per_minute=30)).admit()
        with pytest.raises(RateLimited) as refused:
            limiter.request(asker("ann-laptop", requests_per_minute=30)).admit()
        assert str(refused.value) == "the key ann-laptop may make 30 requests a minute; try again in 2 s"
        assert (refused.value.retry_after_s, refused.value.code) == (2, "rate_limit_exceeded")
        assert not refused.value.is_for_day

    def test_one_a_minute(self, limiter):
        limiter.request(asker(requests_per_minute=1)).admit()
        with pytest.raises(RateLimited, match="1 request a minute; try again in 60 s") as refused:
            limiter.request(asker(requests_per_minute=1)).admit()
        assert refused.value.retry_after_s == 60

    def test_each_key_has_its_own(self, limiter):
        limiter.request(asker("ann", requests_per_minute=1)).admit()
        limiter.request(asker("bob", requests_per_minute=1)).admit()

    def test_who_is_refused_for_waiting_takes_none(self, limiter):
        """It is looked at first."""
        limiter.request(asker(concurrent=1, queued=0, requests_per_minute=2)).admit()
        with pytest.raises(RateLimited, match="waiting"):
            limiter.request(asker(concurrent=1, queued=0, requests_per_minute=2)).admit()
        limiter.request(asker(requests_per_minute=2)).admit()

    def test_who_is_refused_here_holds_nothing(self, limiter):
        """No turn, no place in a queue."""
        limiter.request(asker(requests_per_minute=1)).admit()
        with pytest.raises(RateLimited):
            limiter.request(asker(requests_per_minute=1)).admit()
        assert limiter.numbers(asker(requests_per_minute=1).entry).running == 1


class TestConcurrent:
    def test_no_more_at_once(self, limiter):
        """The next one waits, until one has ended; another key does not."""
        first, second = (limiter.request(asker(concurrent=1)) for _ in range(2))
        first.admit()
        second.admit()
        assert has_turn(first)
        other = limiter.request(asker("bob", concurrent=1))
        other.admit()
        assert has_turn(other)
        waits = threading.Thread(target=second.wait, args=(PATIENCE_S, "", nothing))
        waits.start()
        assert limiter.numbers(asker().entry)[4:6] == (1, 1)
        first.end()
        waits.join(PATIENCE_S)
        assert limiter.numbers(asker().entry)[4:6] == (1, 0)

    def test_it_waits_in_front_of_the_gate(self, cancellation, clock):
        """Where it takes nobody's place."""
        gate = FairGate(1, cancellation=cancellation)
        limiter = KeyLimiter(gate, cancellation, clock)
        first, second = (limiter.request(asker(concurrent=1)) for _ in range(2))
        first.admit()
        second.admit()
        assert (gate.held_slots, gate.waiting) == (1, 0)
        first.end()
        assert has_turn(second) and gate.held_slots == 1
        second.end()
        assert gate.held_slots == 0

    def test_a_changed_limit_counts_from_the_next_turn_on(self, limiter):
        """Those that run stay counted."""
        limiter.request(asker(concurrent=1)).admit()
        second = limiter.request(asker(concurrent=2))
        second.admit()
        assert has_turn(second)
        third = limiter.request(asker(concurrent=2))
        third.admit()
        assert not has_turn(third)

    def test_values_of_turns_by_take_turns(self, limiter):
        """Within the key's own limit."""
        first = limiter.request(asker(concurrent=1, turns="x"))
        first.admit()
        waiting = [limiter.request(asker(concurrent=1, turns=value)) for value in ("x", "x", "y")]
        for request in waiting:
            request.admit()
        first.end()
        assert [has_turn(request) for request in reversed(waiting)] == [True, False, False]

    def test_a_background_key_may_use_all_of_its_turns(self, limiter):
        """That one stays free for people is a rule of the gates that it shares with them."""
        requests = [limiter.request(asker(priority="background", concurrent=2)) for _ in range(2)]
        for request in requests:
            request.admit()
        assert all(map(has_turn, requests))


class TestEdits:
    """Of `concurrent`, in a file that is in force while requests run and wait (keys.md 1)."""

    @pytest.fixture
    def put(self, limiter, monkeypatch):
        """put(concurrent=2): the entry that holds from now on. It gives who asks with it."""
        monkeypatch.setattr(fair_gate, "LOOK_S", 0.001)

        def put(**limits):
            given = asker(**limits)
            ring = KeyRing.of([given.entry])
            limiter.find_ring = lambda: ring
            return given

        return put

    @pytest.mark.parametrize("limits", [{"concurrent": 2}, {}], ids=["raised", "removed"])
    def test_who_waits_already_gets_the_new_places(self, limiter, put, limits):
        """Nobody has left, and nobody else has come."""
        who = put(concurrent=1)
        first, second = limiter.request(who), limiter.request(who)
        first.admit()
        second.admit()
        served = threading.Event()
        thread = threading.Thread(target=lambda: second.wait(PATIENCE_S, "", nothing) and served.set())
        thread.start()
        put(**limits)
        assert served.wait(PATIENCE_S)
        thread.join(PATIENCE_S)

    def test_a_lowered_limit_counts_for_whoever_leaves_next(self, limiter, put):
        """The place of one that ends is not given on while there are more than the file allows."""
        who = put(concurrent=2)
        first, second, third = (limiter.request(who) for _ in range(3))
        for request in (first, second, third):
            request.admit()
        put(concurrent=1)
        first.end()
        assert not has_its_turn(third)
        second.end()
        assert has_its_turn(third)

    def test_what_began_without_a_limit_counts_under_a_new_one(self, limiter, put):
        """It takes a place until it ends."""
        first = limiter.request(put())
        first.admit()
        second = limiter.request(put(concurrent=1))
        second.admit()
        assert not has_its_turn(second)
        first.end()
        assert second.wait(PATIENCE_S, "", nothing)

    def test_no_process_goes_by_an_older_limit(self, put, clock):
        """A process in which the key has no new request gives its places on by the file, too."""
        tables = Tables()
        limiters = [limiter_of_member(Member(MemoryStore(name, tables)), clock) for name in ("one", "two")]
        for limiter in limiters:
            limiter.find_ring = lambda: rings[-1]
        rings = [KeyRing.of([asker(concurrent=2).entry])]
        here, there = limiters
        first, second, third = (one.request(asker(concurrent=2)) for one in (here, here, there))
        for request in (first, second, third):
            request.admit()
        rings.append(KeyRing.of([asker(concurrent=1).entry]))
        first.end()
        there.account("ann").gate.look()
        assert not has_its_turn(third)
        second.end()
        there.account("ann").gate.look()
        assert has_its_turn(third)
        third.end()


class TestQueued:
    def test_so_many_may_wait(self, limiter):
        """The next is refused at once."""
        for _ in range(3):
            limiter.request(asker(concurrent=1, queued=2)).admit()
        with pytest.raises(RateLimited) as refused:
            limiter.request(asker(concurrent=1, queued=2)).admit()
        assert str(refused.value) == "the key ann may have 2 requests waiting; try again in 5 s"
        assert (refused.value.retry_after_s, refused.value.limit) == (5, "queued")

    def test_one_may_wait(self, limiter):
        """Then it is one request."""
        for _ in range(2):
            limiter.request(asker(concurrent=1, queued=1)).admit()
        with pytest.raises(RateLimited, match=r"^the key ann may have 1 request waiting; try again in 5 s$"):
            limiter.request(asker(concurrent=1, queued=1)).admit()

    def test_never_to_wait(self, limiter):
        """Who gets its turn at once does not wait."""
        limiter.request(asker(concurrent=1, queued=0)).admit()
        with pytest.raises(RateLimited, match="the key ann may not have requests waiting"):
            limiter.request(asker(concurrent=1, queued=0)).admit()

    @pytest.mark.parametrize("limits", [{}, {"concurrent": 1}], ids=["at-the-server", "at-the-key"])
    def test_a_task_that_waits_for_nobody_is_not_waiting(self, cancellation, clock, limits):
        """Front ends ask for titles and tags: such a request lets people go first for a moment, even where
        there are none. Beside another one, or somebody who is answered, it would have to wait.
        """
        limiter = KeyLimiter(FairGate(1, cancellation=cancellation), cancellation, clock)
        who = asker(queued=0, **limits)
        task = limiter.request(who, behind=True)
        task.admit()
        with pytest.raises(RateLimited):
            limiter.request(who, behind=True).admit()
        assert task.wait(PATIENCE_S, "", nothing)
        with pytest.raises(RateLimited):
            limiter.request(who, behind=True).admit()

    def test_a_task_waits_for_another_keys_request(self, cancellation, clock):
        """At the gate of the server, behind its own key's."""
        gate = FairGate(1, cancellation=cancellation)
        limiter = KeyLimiter(gate, cancellation, clock)
        gate.acquire()
        with pytest.raises(RateLimited):
            limiter.request(asker(queued=0, concurrent=1), behind=True).admit()

    def test_whatever_they_wait_for(self, cancellation, clock):
        """The gate of the server too."""
        gate = FairGate(1, cancellation=cancellation)
        limiter = KeyLimiter(gate, cancellation, clock)
        gate.acquire()
        limiter.request(asker(queued=1)).admit()
        with pytest.raises(RateLimited):
            limiter.request(asker(queued=1)).admit()
        limiter.request(asker("bob", queued=1)).admit()

    def test_who_got_a_turn_meanwhile_waits_no_more(self, limiter):
        """Its place among those who wait is free again."""
        first = limiter.request(asker(concurrent=1, queued=1))
        second = limiter.request(asker(concurrent=1, queued=1))
        first.admit()
        second.admit()
        with pytest.raises(RateLimited):
            limiter.request(asker(concurrent=1, queued=1)).admit()
        first.end()
        assert has_turn(second)
        limiter.request(asker(concurrent=1, queued=1)).admit()

    def test_one_that_is_replaced_does_not_count(self, limiter):
        limiter.request(asker(concurrent=1, queued=1)).admit()
        limiter.request(asker(concurrent=1, queued=1)).admit()
        limiter.request(asker(concurrent=1, queued=1)).admit(replaces=True)

    def test_who_has_left_waits_no_more(self, limiter):
        limiter.request(asker(concurrent=1, queued=1)).admit()
        second = limiter.request(asker(concurrent=1, queued=1))
        second.admit()
        second.end()
        second.end()
        limiter.request(asker(concurrent=1, queued=1)).admit()

    def test_who_ends_twice_has_left_once(self, limiter):
        """Of a key that may run as many as it likes, too."""
        first, second = (limiter.request(asker()) for _ in range(2))
        first.admit()
        second.admit()
        assert limiter.numbers(asker().entry).running == 2
        first.end()
        first.end()
        assert limiter.numbers(asker().entry).running == 1

    def test_many_at_once(self, limiter):
        """Exactly those that may run and wait come in."""
        outcomes, begin = [], threading.Barrier(20)

        def come():
            begin.wait(PATIENCE_S)
            try:
                limiter.request(asker(concurrent=2, queued=4)).admit()
                outcomes.append("in")
            except RateLimited:
                outcomes.append("refused")

        threads = [threading.Thread(target=come) for _ in range(20)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(PATIENCE_S)
        assert (outcomes.count("in"), outcomes.count("refused")) == (6, 14)

    def test_max_queue_counts_each_name(self, cancellation, clock):
        """One name cannot fill the queue for the others."""
        gate = FairGate(1, 1, cancellation)
        limiter = KeyLimiter(gate, cancellation, clock)
        limiter.request(asker("ann")).admit()
        limiter.request(asker("ann")).admit()
        with pytest.raises(ServerBusy, match="already waiting"):
            limiter.request(asker("ann")).admit()
        limiter.request(asker("bob")).admit()


class TestWaiting:
    def test_a_cancelled_request_leaves(self, limiter, cancellation):
        limiter.request(asker(concurrent=1)).admit()
        second = limiter.request(asker(concurrent=1))
        second.admit()
        outcome = []

        def wait():
            try:
                second.wait(PATIENCE_S, "r", nothing)
            except RequestCancelled:
                second.end()
                outcome.append("cancelled")

        thread = threading.Thread(target=wait)
        thread.start()
        wait_until(lambda: "r" in cancellation._callbacks)
        cancellation.request_cancellation("r")
        thread.join(PATIENCE_S)
        assert outcome == ["cancelled"] and limiter.numbers(asker().entry).waiting == 0

    def test_the_model_is_found_out_once_and_for_the_last_gate(self, cancellation, clock):
        """A key's own gate knows no models."""
        gate = FairGate(1, cancellation=cancellation)
        limiter = KeyLimiter(gate, cancellation, clock)
        gate.acquire()
        first = limiter.request(asker(concurrent=1))
        first.admit()
        second = limiter.request(asker(concurrent=1))
        second.admit()
        learned = []

        def learn():
            learned.append(True)
            return Ask("desk", "big")

        thread = threading.Thread(target=second.wait, args=(PATIENCE_S, "", learn))
        thread.start()
        wait_until(lambda: learned)
        first.end()
        wait_until(lambda: Ask("desk", "big", "ann") in gate._asks.values())
        gate.release()
        thread.join(PATIENCE_S)
        assert learned == [True]

    def test_tasks_of_a_key_that_may_run_any_number_wait_for_none_of_its_requests(self, limiter):
        """Without a gate nobody waits."""
        limiter.request(asker()).admit()
        task = limiter.request(asker(), behind=True)
        task.admit()
        assert has_turn(task)

    def test_tasks_stand_behind_from_their_arrival_on(self, limiter):
        """Time in front of one gate counts at the next."""
        task = limiter.request(asker(concurrent=1), behind=True, came=-59.9 + time.monotonic())
        task.admit()
        limiter.request(asker(concurrent=1)).admit()
        assert not has_turn(task)


class TestDays:
    def test_what_is_used_up(self, limiter, cancellation, clock):
        """Told with the time that is left of the day; an SDK does not try again."""
        use(limiter, cancellation, clock, prompt=15, completion=5)
        with pytest.raises(RateLimited) as refused:
            limiter.request(asker(tokens_per_day=20)).admit()
        assert str(refused.value) == (
            "the key ann may use 20 tokens a day, and they are used up; try again in 12h0m0s"
        )
        assert refused.value.is_for_day and refused.value.code == "insufficient_quota"
        assert refused.value.retry_after_s == 12 * 3600

    def test_something_is_left(self, limiter, cancellation, clock):
        """What has begun ends, so more may be used than is left."""
        use(limiter, cancellation, clock, prompt=19)
        limiter.request(asker(tokens_per_day=20)).admit()

    def test_tomorrow_is_another_day(self, limiter, cancellation, clock):
        use(limiter, cancellation, clock, prompt=20)
        clock.now += 12 * 3600
        limiter.request(asker(tokens_per_day=20)).admit()

    def test_money(self, limiter, cancellation, clock):
        """Each currency by itself; others are not limited."""
        use(limiter, cancellation, clock, cost=Cost("USD", 2_500_000))
        limiter.request(asker(cost_per_day={"EUR": 0.01})).admit()
        with pytest.raises(RateLimited) as refused:
            limiter.request(asker(cost_per_day={"EUR": 9, "USD": 2.5})).admit()
        assert "the key ann may spend 2.50 USD a day, and they are spent" in str(refused.value)
        assert refused.value.limit == "costPerDay"

    def test_the_day_is_looked_at_first(self, limiter, cancellation, clock):
        use(limiter, cancellation, clock, prompt=20)
        limiter.request(asker(requests_per_minute=1)).admit()
        with pytest.raises(RateLimited, match="tokens a day"):
            limiter.request(asker(requests_per_minute=1, tokens_per_day=20)).admit()

    def test_the_log_says_once_that_days_begin_anew(self, limiter, caplog):
        """Without Redis."""
        caplog.set_level(logging.INFO)
        for _ in range(2):
            limiter.request(asker(tokens_per_day=20)).admit()
        assert [r.message for r in caplog.records if "tokensPerDay" in r.message] == [
            "tokensPerDay and costPerDay count from the start of this server; only Redis keeps them over a "
            "restart"
        ]

    def test_requests_without_a_key_of_the_file_are_not_counted(self, cancellation, clock):
        request = RequestContext("r", "ana", "openai")
        count_use(request, 5, 1, Cost("USD", 3), cancellation, clock)
        assert cancellation.member().known_sums("-", day_of(NOON)) == {}
        assert (request.spent.prompt, request.spent.completion) == (5, 1)


def use(limiter, cancellation, clock, prompt=0, completion=0, cost=None):
    """A call of the key `ann`."""
    request = RequestContext("r", "ana", "openai", asker=asker())
    count_use(request, prompt, completion, cost, cancellation, clock)


class TestAsk:
    """What a gate is told of whoever asks, where there is a keys file."""

    def test_the_name_and_the_class(self):
        who = asker(priority="background", turns="x")
        for given in (None, Ask("desk", "big")):
            told = ask_of(who, given)
            assert (told.name, told.background) == (who.turn_name, True)
            assert told[:2] == (given or Ask("", ""))[:2]
        assert ask_of(asker()).background is False

    def test_without_a_keys_file_nothing(self):
        nobody = Asker("", "", "", None, "")
        assert ask_of(nobody) is None
        assert ask_of(nobody, Ask("desk", "big")) == Ask("desk", "big")

    def test_of_the_current_request(self):
        ask = Ask("desk", "big")
        assert ask_of_request(ask) is ask and ask_of_request() is None
        with enter_request(RequestContext("r", "ana", "openai", asker=asker())):
            assert ask_of_request(ask) == ask_of(asker(), ask)


def test_the_limits_are_called_as_in_the_file():
    """Metrics and refusals use these names."""
    names = (CONCURRENT, QUEUED, A_MINUTE, TOKENS, COST)
    assert names == ("concurrent", "queued", "requestsPerMinute", "tokensPerDay", "costPerDay")


def test_other_processes_know_a_keys_gate_by_its_name(limiter):
    account = limiter.account("ann")
    assert account.gate._name == "key ann" and limiter.account("ann") is account


def test_large_numbers_are_easy_to_read(limiter, cancellation, clock):
    use(limiter, cancellation, clock, prompt=2_000_000)
    with pytest.raises(RateLimited, match="may use 2,000,000 tokens a day"):
        limiter.request(asker(tokens_per_day=2_000_000)).admit()


class TestHeaders:
    def test_for_the_limits_that_the_key_has(self, limiter, cancellation, clock):
        """What is left of the minute and of the day, as far as this process knows."""
        use(limiter, cancellation, clock, prompt=15)
        cancellation.member()._levels._clock = lambda: 0.0
        request = limiter.request(asker(requests_per_minute=30, tokens_per_day=20))
        request.admit()
        assert dict(request.headers()) == {
            "x-ratelimit-limit-requests": "30",
            "x-ratelimit-remaining-requests": "29",
            "x-ratelimit-reset-requests": "2s",
            "x-ratelimit-limit-tokens": "20",
            "x-ratelimit-remaining-tokens": "5",
            "x-ratelimit-reset-tokens": "12h0m0s",
        }
        use(limiter, cancellation, clock, completion=15)
        assert dict(request.headers())["x-ratelimit-remaining-tokens"] == "0"

    def test_for_none(self, limiter):
        assert limiter.request(asker()).headers() == []


class TestNumbers:
    def test_what_a_key_is_told_of_itself(self, limiter, cancellation, clock):
        use(limiter, cancellation, clock, prompt=7, completion=2, cost=Cost("USD", 4200))
        who = asker(concurrent=1, requests_per_minute=30, tokens_per_day=20)
        for _ in range(2):
            limiter.request(who).admit()
        assert limiter.numbers(who.entry) == ("2026-11-28", 2, 7, 2, 1, 1, 28, 11, {"USD": 4200})
        assert limiter.waiting_at_keys == 1
        assert limiter.numbers(asker("bob").entry) == ("2026-11-28", 0, 0, 0, 0, 0, None, None, {})

    def test_refusals_are_told(self, limiter):
        """For the metrics."""
        told = []
        limiter.note_refusal = lambda name, limit: told.append((name, limit))
        for _ in range(2):
            try:
                limiter.request(asker(requests_per_minute=1)).admit()
            except RateLimited:
                told.append("raised")
        assert told == [("ann", "requestsPerMinute"), "raised"]
        assert limiter.numbers(asker(requests_per_minute=1).entry).requests == 1


class TestAnyDay:
    def test_never_over_a_limit(self, cancellation, clock):
        """Random keys, limits, classes, arrivals and hang-ups, at one gate: no key runs more than it may or
        has more waiting, the gate is never over, and everybody is served.
        """
        for seed in range(1000):
            chance = random.Random(seed)
            slots = chance.choice((1, 2, 3))
            gate = FairGate(slots, cancellation=cancellation)
            limiter = KeyLimiter(gate, cancellation, clock)
            keys = [
                asker(
                    f"k{number}",
                    concurrent=chance.choice((None, 1, 2)),
                    queued=chance.choice((0, 1, 3)),
                    priority=chance.choice(("people", "background")),
                )
                for number in range(3)
            ]
            alive = {}
            for step in range(30):
                if alive and chance.random() < 0.45:
                    alive.pop(chance.choice(sorted(alive)))[1].end()
                else:
                    key = chance.choice(keys)
                    request = limiter.request(key)
                    try:
                        request.admit()
                        alive[step] = key, request
                    except RateLimited:
                        assert key.entry.limits.queued <= limiter.account(key.name).waiting
                running = {step for step, (_, request) in alive.items() if request._line.enter()}
                assert gate.held_slots == len(running) <= slots
                for key in keys:
                    own = {step for step in alive if alive[step][0] is key}
                    limits = key.entry.limits
                    assert len(own & running) <= (limits.concurrent or slots), seed
                    assert len(own - running) <= limits.queued, seed
            while alive:
                running = [step for step in sorted(alive) if alive[step][1]._line.enter()]
                assert running, seed
                alive.pop(running[0])[1].end()
