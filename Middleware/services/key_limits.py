"""What the keys of a keys file may use, and what they have used: turns, requests a minute, tokens a day.

A counted request is admitted here, waits for its turns and gives them back. The numbers are those of all
processes: turns stand in gates, the rest in the shared state. Knows nothing of HTTP and reads no file.
Source: spec keys.md 4, 5.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

from Middleware.common.asker import Asker
from Middleware.common.costs import MILLION, Cost, decimal_text
from Middleware.common.errors import RateLimited
from Middleware.common.request_context import RequestContext, current_request
from Middleware.config.key_file import KeyEntry, KeyLimits
from Middleware.config.key_ring import KeyRing
from Middleware.services.cancellation_service import CancellationService, cancellation_service
from Middleware.services.fair_gate import NO_LIMIT, FairGate, Place
from Middleware.services.history_sums import day_start
from Middleware.services.shared_state.budgets import Sums, seconds_until
from Middleware.services.shared_state.turns import NOTHING, Ask

logger = logging.getLogger(__name__)

QUEUED_RETRY_S = 5
"""When a client whose name has too many waiting requests may come again."""

CONCURRENT, QUEUED, A_MINUTE = "concurrent", "queued", "requestsPerMinute"
TOKENS, COST = "tokensPerDay", "costPerDay"
"""The limits, as files and metrics call them."""

_REQUESTS, _PROMPT, _COMPLETION = "requests", "prompt", "completion"
_COST_IN = "cost "


# --------------------------------------------------------------------------
# Days, times and sentences. Pure.


def day_of(now: float) -> str:
    """The day of the server's zone, `2026-11-28`."""
    return datetime.fromtimestamp(now).date().isoformat()


def seconds_to_midnight(now: float) -> int:
    """Whole seconds, rounded up."""
    return math.ceil(day_start(now, back=-1) - now)


def duration_text(seconds: float) -> str:
    """`12s`, `6m0s`, `7h12m0s`: whole seconds, rounded up. Source: the `x-ratelimit-reset-*` of OpenAI."""
    minutes, rest = divmod(math.ceil(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours}h{minutes}m{rest}s"
    return f"{minutes}m{rest}s" if minutes else f"{rest}s"


def _count_of(number: int, noun: str) -> str:
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def _too_many_waiting(name: str, queued: int) -> RateLimited:
    may = f"may have {_count_of(queued, 'request')} waiting" if queued else "may not have requests waiting"
    why = f"the key {name} {may}; try again in {QUEUED_RETRY_S} s"
    return RateLimited(why, limit=QUEUED, retry_after_s=QUEUED_RETRY_S)


def _too_many_a_minute(name: str, most: int, level: float) -> RateLimited:
    wait_s = max(1, math.ceil(seconds_until(level, 1, most)))
    why = f"the key {name} may make {_count_of(most, 'request')} a minute; try again in {wait_s} s"
    return RateLimited(why, limit=A_MINUTE, retry_after_s=wait_s)


def _day_is_used_up(name: str, limits: KeyLimits, sums: Sums, now: float) -> RateLimited | None:
    """None: there is something left."""
    wait_s = max(1, seconds_to_midnight(now))
    again = f"; try again in {duration_text(wait_s)}"
    most = limits.tokens_per_day
    if most is not None and _tokens_in(sums) >= most:
        why = f"the key {name} may use {_count_of(most, 'token')} a day, and they are used up{again}"
        return RateLimited(why, limit=TOKENS, retry_after_s=wait_s, is_for_day=True)
    for currency, amount in limits.cost_per_day.items():
        millionths = round(amount * MILLION)
        if sums.get(_COST_IN + currency, 0) >= millionths:
            may = f"may spend {decimal_text(millionths)} {currency} a day, and they are spent"
            why = f"the key {name} {may}{again}"
            return RateLimited(why, limit=COST, retry_after_s=wait_s, is_for_day=True)
    return None


def _tokens_in(sums: Sums) -> int:
    return sums.get(_PROMPT, 0) + sums.get(_COMPLETION, 0)


# --------------------------------------------------------------------------
# One request on its way through the gates.


class TurnLine:
    """The gates that a request needs a turn of: it takes a place at the next one when its turn at the one
    before has come. `steps`: each gate, what it asks for there, and whether it stands behind people; `came`:
    when it arrived, in monotonic seconds.
    """

    def __init__(
        self, steps: Sequence[tuple[FairGate, Ask | None, bool]], *, came: float | None = None
    ) -> None:
        self._steps, self._came = tuple(steps), came
        self._places: list[tuple[FairGate, Place]] = []

    def enter(self) -> bool:
        """Go as far as there are turns now. True: it has all of them."""
        if self._places and not self._places[-1][1].admitted:
            return False
        for gate, ask, behind in self._steps[len(self._places) :]:
            place = gate.line_up(ask, behind=behind, came=self._came)
            self._places.append((gate, place))
            if not place.admitted:
                return False
        return True

    def goes_through(self, gate: FairGate) -> bool:
        return any(step[0] is gate for step in self._steps)

    def check_room(self) -> None:
        """Raises ServerBusy where the queue that it stands in is full."""
        if self._places:
            gate, place = self._places[-1]
            gate.check_room(place)

    def wait(self, end: float, request_id: str, learn: Callable[[], Ask | None]) -> bool:
        """Wait for the turns that are missing, until `end` (monotonic). False: they have not come by then.

        `learn`: as of `FairGate.acquire`, called where it waits first; what it gives is for the last gate.
        Raises ServerBusy, RequestCancelled, and what `learn` raises."""
        learned: list[Ask | None] = []

        def learn_once() -> Ask | None:
            if not learned:
                learned.append(learn())
            return learned[0] if len(self._places) == len(self._steps) else None

        while not self.enter():
            gate, place = self._places[-1]
            left_s = max(0.0, end - time.monotonic())
            if not gate.wait(place, left_s, request_id=request_id, learn=learn_once):
                return False
            if not self.enter():
                self.check_room()
        return True

    @property
    def is_through(self) -> bool:
        """Whether it has all turns."""
        places = self._places
        return len(places) == len(self._steps) and all(place.admitted for _, place in places[-1:])

    @property
    def is_counted_waiting(self) -> bool:
        """Whether the gate at which it waits has heard of it: who stands behind is told of later."""
        return not self._places[-1][1].behind

    @property
    def only_settles(self) -> bool:
        """Whether it waits for nobody that is there, only for people who might still come."""
        place = self._places[-1][1]
        ahead = self._steps[len(self._places) - 1 :]
        return place.behind and all(gate.is_empty_but(place) for gate, _, _ in ahead)

    def leave(self) -> None:
        """Give up all places and turns. May be called again."""
        while self._places:
            gate, place = self._places.pop()
            gate.leave(place)


class KeyAccount:
    """One key of the file in this process. `gate`: holds its requests from their turn to their end, those of
    all processes; a process that is alone leaves it out for a key without `concurrent`. `places(account)`:
    how many it may have now; None: any number.
    """

    def __init__(
        self, name: str, cancellation: CancellationService, places: Callable[[KeyAccount], int | None]
    ) -> None:
        self.name, self._places = name, places
        self.entry: KeyEntry | None = None
        """With which its last request came."""
        self.gate = FairGate(self._turns, cancellation=cancellation, name=f"key {name}")
        self.lock = threading.Lock()
        self.ungated = 0
        """Its requests of this process that need no turn of the gate, as there is no limit."""
        self.lines: set[TurnLine] = set()
        """Of its requests of this process that had to wait."""

    def _turns(self) -> int:
        """How many the gate may give at once: what began without one takes a place, too."""
        places = self._places(self)
        return NO_LIMIT if places is None else max(0, places - self.ungated)

    @property
    def waiting(self) -> int:
        """How many of them have no turn yet. The lock is held."""
        return sum(not line.is_through for line in self.lines)


class KeyNumbers(NamedTuple):
    """What a key is doing now, and has used today. `left_requests`, `left_tokens`: None: it has no such
    limit. `costs`: currency -> millionths. Source: spec keys.md 6.
    """

    day: str
    requests: int
    prompt_tokens: int
    completion_tokens: int
    running: int
    waiting: int
    left_requests: int | None
    left_tokens: int | None
    costs: Mapping[str, int]


class KeyLimiter:
    """The limits of one server. `gate`: of all requests; None: there is none. `clock`: Unix seconds.

    `note_refusal(name, limit)` is called for each request that is over a limit. `find_ring()`: the entries
    that are in force, also for those who wait; None: the entries of the last requests are.
    """

    def __init__(
        self,
        gate: FairGate | None = None,
        cancellation: CancellationService = cancellation_service,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.gate, self.cancellation, self.clock = gate, cancellation, clock
        self.note_refusal: Callable[[str, str], object] = lambda name, limit: None
        self.find_ring: Callable[[], KeyRing | None] = lambda: None
        self._accounts: dict[str, KeyAccount] = {}
        self._lock = threading.Lock()
        self._has_said = False

    def account(self, name: str) -> KeyAccount:
        with self._lock:
            account = self._accounts.get(name)
            if account is None:
                account = self._accounts[name] = KeyAccount(name, self.cancellation, self._places)
            return account

    def _places(self, account: KeyAccount) -> int | None:
        """How many requests of a key may run at once; None: any number."""
        ring = self.find_ring()
        entry = account.entry if ring is None else ring.named(account.name)
        return None if entry is None else entry.limits.concurrent

    def request(
        self,
        asker: Asker,
        *,
        behind: bool = False,
        came: float | None = None,
        takes_turn: bool = True,
        ask: Ask | None = None,
    ) -> KeyRequest:
        """A counted request of a key of the file. `behind`: it lets people go first; `came`: as of
        `TurnLine`. `takes_turn`: it also needs a turn of the server's gate, for what `ask` says.
        """
        account, concurrent = self.account(asker.name), asker.entry.limits.concurrent
        account.entry = asker.entry
        steps: list[tuple[FairGate, Ask | None, bool]] = []
        if concurrent or self.cancellation.member().is_joined_with_others:
            own = Ask(name=asker.turn_name)  # within a key no class goes first
            steps.append((account.gate, own, behind and bool(concurrent)))
        if self.gate is not None and takes_turn:
            steps.append((self.gate, ask_of(asker, ask), behind))
        request = KeyRequest(self, asker, account, TurnLine(steps, came=came))
        request.is_behind = behind
        return request

    def numbers(self, entry: KeyEntry) -> KeyNumbers:
        """Those of all processes."""
        member, day = self.cancellation.member(), day_of(self.clock())
        sums, limits = member.count(entry.name, day, {}), entry.limits
        account = self.account(entry.name)
        inside, before = account.gate.crowd(entry.name)
        inside += account.ungated
        at_gate = self.gate.crowd(entry.name)[1] if self.gate is not None else 0
        most = limits.requests_per_minute
        left = None if most is None else math.floor(member.take(entry.name, most, 0).level)
        return KeyNumbers(
            day=day,
            requests=sums.get(_REQUESTS, 0),
            prompt_tokens=sums.get(_PROMPT, 0),
            completion_tokens=sums.get(_COMPLETION, 0),
            running=max(0, inside - at_gate),
            waiting=before + at_gate,
            left_requests=left,
            left_tokens=None
            if limits.tokens_per_day is None
            else max(0, limits.tokens_per_day - _tokens_in(sums)),
            costs={
                name.removeprefix(_COST_IN): amount
                for name, amount in sums.items()
                if name.startswith(_COST_IN)
            },
        )

    @property
    def waiting_at_keys(self) -> int:
        """How many requests of this process wait for their key's other requests, in front of the server's
        gate.
        """
        with self._lock:
            return sum(account.gate.waiting for account in self._accounts.values())

    def say_days_begin(self) -> None:
        """Once: what was used before this server began is not known, unless Redis has kept it."""
        if not self._has_said and not self.cancellation.member().many_machines:
            self._has_said = True
            logger.info(
                "tokensPerDay and costPerDay count from the start of this server; only Redis keeps them over "
                "a restart"
            )


class KeyRequest:
    """One counted request of a key of the file: `admit`, `wait`, and `end` whatever happens."""

    def __init__(self, limiter: KeyLimiter, asker: Asker, account: KeyAccount, line: TurnLine) -> None:
        self.name: str = asker.name
        self.is_behind = False
        self._limiter, self._account, self._line = limiter, account, line
        self._limits: KeyLimits = asker.entry.limits
        self._member = limiter.cancellation.member()
        self._is_ungated = False

    def admit(self, *, replaces: bool = False) -> None:
        """Take its place in the queues, and one of the minute's requests. `replaces`: an older one ends for
        it. Raises RateLimited, and ServerBusy where the queue is full: then it has taken nothing.
        """
        try:
            self._check_day()
            self._line_up(replaces)
            self._take_of_minute()
        except RateLimited as error:
            self.end()
            self._limiter.note_refusal(self.name, error.limit)
            raise
        except BaseException:
            self.end()
            raise
        self._count({_REQUESTS: 1})

    def _check_day(self) -> None:
        limits, now = self._limits, self._limiter.clock()
        if limits.tokens_per_day is None and not limits.cost_per_day:
            return
        self._limiter.say_days_begin()
        sums = self._member.count(self.name, day_of(now), {})
        if (refusal := _day_is_used_up(self.name, limits, sums, now)) is not None:
            raise refusal

    def _line_up(self, replaces: bool) -> None:
        """One at a time for each key, so that those that wait are counted exactly."""
        with self._account.lock:
            if not self._line.goes_through(self._account.gate):
                self._is_ungated = True
                self._account.ungated += 1
            if self._line.enter():
                return
            self._line.check_room()
            waiting = max(self._account.waiting, self._others_waiting())
            if waiting - replaces >= self._limits.queued and not self._line.only_settles:
                raise _too_many_waiting(self.name, self._limits.queued)
            self._account.lines.add(self._line)

    def _others_waiting(self) -> int:
        """Its requests that wait in any process, but for this one; 0 where there is one process alone."""
        if not self._member.is_joined_with_others:
            return 0
        gates = [self._account.gate, *filter(None, [self._limiter.gate])]
        return sum(gate.crowd(self.name)[1] for gate in gates) - self._line.is_counted_waiting

    def _take_of_minute(self) -> None:
        most = self._limits.requests_per_minute
        if most is None:
            return
        bucket = self._member.take(self.name, most)
        if not bucket.took:
            raise _too_many_a_minute(self.name, most, bucket.level)

    def _count(self, amounts: Mapping[str, int]) -> None:
        self._member.count_soon(self.name, day_of(self._limiter.clock()), amounts)

    def wait(self, timeout_s: float, request_id: str, learn: Callable[[], Ask | None]) -> bool:
        """Wait for its turn. False: it has not come in time. Raises as `TurnLine.wait`."""
        return self._line.wait(time.monotonic() + timeout_s, request_id, learn)

    def end(self) -> None:
        """Its work has ended, or it was refused. May be called again."""
        with self._account.lock:
            self._account.lines.discard(self._line)
            self._account.ungated -= self._is_ungated
            self._is_ungated = False
        self._line.leave()

    def headers(self) -> list[tuple[str, str]]:
        """`x-ratelimit-*` for the limits that the key has, as far as this process knows."""
        limits, now = self._limits, self._limiter.clock()
        told: list[tuple[str, str]] = []
        if (most := limits.requests_per_minute) is not None:
            level = self._member.bucket_level(self.name, most)
            told += _limit_headers("requests", most, math.floor(level), seconds_until(level, most, most))
        if (most := limits.tokens_per_day) is not None:
            left = most - _tokens_in(self._member.known_sums(self.name, day_of(now)))
            told += _limit_headers("tokens", most, max(0, left), seconds_to_midnight(now))
        return told


def _limit_headers(what: str, most: int, left: int, reset_s: float) -> list[tuple[str, str]]:
    return [
        (f"x-ratelimit-limit-{what}", str(most)),
        (f"x-ratelimit-remaining-{what}", str(left)),
        (f"x-ratelimit-reset-{what}", duration_text(reset_s)),
    ]


def ask_of(asker: Asker, ask: Ask | None = None) -> Ask | None:
    """`ask` with the name and the class of who asks; as it is where there is no keys file."""
    if not asker.owner:
        return ask
    return (ask or NOTHING)._replace(name=asker.turn_name, background=asker.is_background)


def ask_of_request(ask: Ask | None = None) -> Ask | None:
    """The same for a call of the current request."""
    request = current_request()
    return ask if request is None else ask_of(request.asker, ask)


# --------------------------------------------------------------------------
# What calls take.


def count_use(
    request: RequestContext,
    prompt: int,
    completion: int,
    cost: Cost | None,
    cancellation: CancellationService = cancellation_service,
    clock: Callable[[], float] = time.time,
) -> None:
    """A call of this request has ended, for which a backend read and wrote so many tokens."""
    request.spent.add(cost)
    request.spent.add_tokens(prompt, completion)
    entry: KeyEntry | None = request.asker.entry
    if entry is None:
        return
    amounts = {_PROMPT: prompt, _COMPLETION: completion}
    if cost is not None:
        amounts[_COST_IN + cost.currency] = cost.millionths
    cancellation.member().count_soon(entry.name, day_of(clock()), amounts)
