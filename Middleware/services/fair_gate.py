"""A counting gate that serves in order of arrival, or names in turn; a waiter whose request is cancelled
leaves at once.

Who says so stands behind everybody else: what a front end asks for itself waits for what people ask. Who says
for which model of a machine it comes is served in rows, and who has a name takes turns with other names
(`shared_state/turns.py`). A gate with a name is one with the gates of that name in other processes. Knows
nothing of HTTP or of backends: the API's gate (level `request`), the gate of outgoing calls (level
`endpoint`), those of machines and of keys are all made of it. Source: spec frontend-api.md 15, backends.md
15.5, prompt-reuse.md 7.1 and keys.md 5.
"""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable, Sequence
from functools import cache, lru_cache

from Middleware.common.errors import RequestCancelled, ServerBusy
from Middleware.common.instance_global_variables import launch_facts
from Middleware.services.cancellation_service import CancellationService, cancellation_service
from Middleware.services.shared_state.member import Footing
from Middleware.services.shared_state.store import Places, SharedStore, StoreLost
from Middleware.services.shared_state.turns import NOTHING, Ask

SETTLE_S = 0.5
"""A request that stands behind people lets nobody feel it: what comes so soon after it goes first."""

PATIENCE_S = 60.0
"""Who stood behind people for so long is served like everybody."""

LOOK_S = 1.0
"""How often who waits looks whether a limit that others set has changed."""

NO_LIMIT = 1_000_000
"""The limit of a gate that keeps out nobody by number: it counts, or keeps models of a machine apart."""


class Place:
    """One place at a gate. `admitted`: its turn has come.

    `turn` is a lock that is held until that, or until it must leave. `behind`: it stands behind people;
    `settled`: and may enter when nobody else is there. `came`: monotonic seconds.
    """

    __slots__ = ("admitted", "behind", "came", "settled", "ticket", "turn")

    def __init__(self, ticket: str, behind: bool, came: float | None) -> None:
        self.ticket, self.behind, self.came = ticket, behind, came
        self.admitted = self.settled = False
        self.turn = threading.Lock()
        self.turn.acquire()


class FairGate:
    """At most `limit` holders; at most `max_waiting` in the queue (0: any number).

    Who comes with `behind` stands behind everybody else: it enters an empty gate only, not within `settle_s`
    of its arrival, and is an ordinary waiter after `patience_s` seconds. Releasing too often is an error.
    `name`: under which other processes have this gate, too; empty: it is this process's own. `one_model`: it
    is a machine's, and holders of two models are never inside at the same time. `limit` may be changed: it
    counts from the next turn on; one that is a function is asked each time, and by those who wait.
    """

    def __init__(
        self,
        limit: int | Callable[[], int],
        max_waiting: int = 0,
        cancellation: CancellationService = cancellation_service,
        settle_s: float = SETTLE_S,
        patience_s: float = PATIENCE_S,
        name: str = "",
        one_model: bool = False,
    ) -> None:
        self._limit, self._max_waiting, self._cancellation = limit, max_waiting, cancellation
        self._settle_s, self._patience_s, self._one_model = settle_s, patience_s, one_model
        self._lock = threading.Lock()
        self._own = uuid.uuid4().hex
        self._name, self._member = name or self._own, cancellation.member
        self._footing: Footing | None = None
        self._held: list[str] = []
        self._waiters: dict[str, Place] = {}
        self._asks: dict[str, Ask] = {}
        """Of those inside and waiting, where it is known."""
        self._gone: list[str] = []
        """Tickets that have left, of which a store far away is still to be told."""
        self._arrivals = self._told_limit = 0

    @property
    def limit(self) -> int:
        return self._limit() if callable(self._limit) else self._limit

    @limit.setter
    def limit(self, limit: int) -> None:
        self._limit = limit

    def acquire(
        self,
        blocking: bool = True,
        timeout: float | None = None,
        *,
        request_id: str = "",
        behind: bool = False,
        ask: Ask | None = None,
        learn: Callable[[], Ask | None] | None = None,
    ) -> bool:
        """Take a slot; False when none came free within `timeout` seconds (None: wait for ever).

        `ask`: the model of a machine that it is for, and whose it is; None: not known. `learn`: finds out the
        model when there is no slot at once. Raises ServerBusy when the queue is full, RequestCancelled when
        `request_id` is cancelled while it waits, and what `learn` raises.
        """
        place = self.line_up(ask, behind=behind)
        if place.admitted:
            return True
        if not blocking:
            self.leave(place)
            return False
        self.check_room(place)
        return self.wait(place, timeout, request_id=request_id, learn=learn)

    def line_up(self, ask: Ask | None = None, *, behind: bool = False, came: float | None = None) -> Place:
        """Take a place; its turn may have come at once. It is to be waited for, left or released. `came`:
        when the request has arrived, for those behind, in monotonic seconds; None: now.
        """
        with self._lock:
            ticket = self._new_ticket(ask)
            place = self._waiters[ticket] = Place(ticket, behind, came)
            try:
                self._tell(Places() if behind else Places(wait=[ticket]))
            except BaseException:
                self._forget(ticket)
                raise
        return place

    def wait(
        self,
        place: Place,
        timeout: float | None = None,
        *,
        request_id: str = "",
        learn: Callable[[], Ask | None] | None = None,
    ) -> bool:
        """Wait for the turn of a place that has none yet. As `acquire`; without a turn the place is left."""
        if learn is not None:
            try:
                self._learn(place.ticket, learn)
            except BaseException:
                self.leave(place)
                raise
        return self._wait(place.ticket, place, timeout, request_id)

    def is_empty_but(self, place: Place) -> bool:
        """Whether nobody else is inside or waits, in all processes."""
        with self._lock:
            others = self._waiters.keys() - {place.ticket}
        return not others and not self.count_held([self])[0] and not self._member().waiting(self._key)

    def leave(self, place: Place) -> None:
        """Give up a place, whether or not its turn has come."""
        with self._lock:
            left = self._leave(place.ticket)
            if not left and place.ticket in self._held:
                self._release(place.ticket)

    def _learn(self, ticket: str, learn: Callable[[], Ask | None]) -> None:
        """Find out what a waiter asks for. It keeps its place."""
        learned = learn()
        if learned is None:
            return
        with self._lock:
            waiter = self._waiters.get(ticket)
            if waiter is not None:
                known = self._asks.get(ticket, NOTHING)
                self._asks[ticket] = known._replace(machine=learned.machine, model=learned.model)
                self._tell(Places() if waiter.behind else Places(wait=[ticket]))

    def take_spare(self, ask: Ask | None = None) -> bool:
        """Take a slot for work that can be left out: never waits, and gets none while anybody waits here, in
        whatever process, or where another model than that of `ask` is loaded. Given back by `release`.
        """
        with self._lock:
            ticket = self._new_ticket(ask)
            try:
                turns = self._turns(Places(spare=[ticket]))
            except BaseException:
                self._forget(ticket)
                raise
            took = ticket in turns
            if took:
                turns.remove(ticket)
                self._held.append(ticket)
            else:
                self._asks.pop(ticket, None)
            self._let_in(turns)
        return took

    def _new_ticket(self, ask: Ask | None) -> str:
        self._arrivals += 1
        ticket = f"{self._own}.{self._arrivals}"
        if ask is not None:
            self._asks[ticket] = ask
        return ticket

    def check_room(self, place: Place) -> None:
        """Raises ServerBusy when too many stood in the queue before this one, which leaves. Each name has a
        queue of its own there.
        """
        if not self._max_waiting:
            return
        with self._lock:
            ask = self._asks.get(place.ticket, NOTHING)
            before = self._member().waiting(
                self._key, "" if place.behind else place.ticket, ask.name if ask.name else None
            )
            if before >= self._max_waiting and self._leave(place.ticket):
                raise ServerBusy(f"server is busy: {before} requests are already waiting")

    def _wait(self, ticket: str, waiter: Place, timeout: float | None, request_id: str) -> bool:
        def leave() -> None:
            with self._lock:
                if self._leave(ticket):
                    waiter.turn.release()

        self._cancellation.register_abort_callback(request_id, leave)
        try:
            end = None if timeout is None else time.monotonic() + timeout
            if not (waiter.behind and self._wait_behind(ticket, waiter, end)):
                self._wait_in_line(waiter, end)
        finally:
            self._cancellation.unregister_abort_callback(request_id, leave)
            with self._lock:
                self._leave(ticket)
        if waiter.admitted:
            return True
        if self._cancellation.is_cancelled(request_id):
            raise RequestCancelled
        return False

    def _wait_in_line(self, waiter: Place, end: float | None) -> None:
        """Until its turn, or `end` (monotonic seconds), or until it must leave."""
        while callable(self._limit):
            look_at = time.monotonic() + LOOK_S
            if _until(waiter, end, look_at) or (end is not None and end <= look_at):
                return
            if self.limit != self._told_limit:
                self.look()
        _until(waiter, end)

    def _wait_behind(self, ticket: str, waiter: Place, end: float | None) -> bool:
        """Wait behind people. False: the waiter stands in the queue of everybody now."""
        now = time.monotonic() if waiter.came is None else waiter.came
        if _until(waiter, end, now + self._settle_s):
            return True
        with self._lock:
            if ticket in self._waiters:
                waiter.settled = True
                self._tell(Places(behind=[ticket]))
        if _until(waiter, end, now + self._patience_s):
            return True
        with self._lock:
            if ticket in self._waiters:
                waiter.behind = False
                self._tell(Places(wait=[ticket]))
        return False

    def release(self, name: str = "") -> None:
        """Give a slot back: the next one gets it. `name`: whose it is, as it was asked for."""
        with self._lock:
            ticket = next((one for one in reversed(self._held) if self._name_of(one) == name), None)
            if ticket is None:
                raise ValueError("FairGate released more often than it was taken")
            self._release(ticket)

    def _name_of(self, ticket: str) -> str:
        return self._asks.get(ticket, NOTHING).name

    def _release(self, ticket: str) -> None:
        """The lock is held."""
        self._held.remove(ticket)
        self._asks.pop(ticket, None)
        self._tell_gone(ticket)

    def look(self) -> None:
        """See whose turn it is: others have left, or all must be told again."""
        with self._lock:
            if self._waiters or (self._held and self._footing is not self._member().footing(self)):
                self._tell(Places())

    @property
    def waiting(self) -> int:
        """Those of this process."""
        return len(self._waiters)

    @property
    def held_slots(self) -> int:
        """How many slots this process has taken."""
        return len(self._held)

    @property
    def busy(self) -> bool:
        return bool(self._held or self._waiters)

    def _leave(self, ticket: str) -> bool:
        """True when the ticket stood in a queue; it does not any more. The lock is held."""
        if self._waiters.pop(ticket, None) is None:
            return False
        self._asks.pop(ticket, None)
        self._tell_gone(ticket)
        return True

    def _forget(self, ticket: str) -> None:
        """Telling of a new ticket failed: it stands nowhere, and a store that knows it will hear so. The lock
        is held.
        """
        if ticket in self._held:
            self._held.remove(ticket)
        self._waiters.pop(ticket, None)
        self._asks.pop(ticket, None)
        self._gone.append(ticket)

    def _tell_gone(self, ticket: str) -> None:
        """A ticket has left. Nobody waits until a store far away knows it. The lock is held."""
        if self._footing is None or not self._footing.store.many_machines:
            self._tell(Places(leave=[ticket]))
            return
        self._gone.append(ticket)
        if len(self._gone) == 1:
            self._member().do_soon(self._tell_all_gone)

    def _tell_all_gone(self) -> None:
        with self._lock:
            if self._gone:
                self._tell(Places())

    def _tell(self, news: Places) -> None:
        """Tell of tickets, and let in whose turn it is by that. The lock is held."""
        self._let_in(self._turns(news))

    def _let_in(self, turns: list[str]) -> None:
        for ticket in turns:
            waiter = self._waiters.pop(ticket, None)
            if waiter is None:  # of a gate of this name that this process has no more
                turns += self._turns(Places(leave=[ticket]))
                continue
            self._held.append(ticket)
            waiter.admitted = True
            waiter.turn.release()

    def _turns(self, news: Places) -> list[str]:
        """The tickets that have come in. A store that does not know this gate is told all of it. The lock is
        held, but not while a store far away answers.
        """
        leave, self._gone = (*news.leave, *self._gone), []
        news = news._replace(leave=leave)
        while True:
            footing = self._member().footing(self)
            told = news if footing is self._footing else self._everybody(news)
            self._footing = footing
            if self._asks:
                told = told._replace(asks=self._asks_of(told))
            try:
                return self._ask_turns(footing.store, told)
            except StoreLost as error:
                self._member().lose(footing, error)

    def _ask_turns(self, store: SharedStore, told: Places) -> list[str]:
        """The lock, which is held, is free while a store far away answers: others ask meanwhile, and their
        questions go together, in the order in which they had the lock.
        """
        is_free = False

        def free() -> None:
            nonlocal is_free
            is_free = True
            self._lock.release()

        try:
            self._told_limit = limit = self.limit
            return store.turns(self._key, limit, told, self._one_model, free)
        finally:
            if is_free:
                self._lock.acquire()

    def _everybody(self, news: Places) -> Places:
        """All that there is to tell, in order of arrival."""
        waiters = self._waiters.items()
        return Places(
            news.leave,
            tuple(self._held),
            [ticket for ticket, waiter in waiters if not waiter.behind],
            [ticket for ticket, waiter in waiters if waiter.behind and waiter.settled],
            news.spare,
        )

    def _asks_of(self, places: Places) -> dict[str, Ask]:
        tickets = (*places.hold, *places.wait, *places.behind, *places.spare)
        return {ticket: self._asks[ticket] for ticket in tickets if ticket in self._asks}

    @property
    def _key(self) -> str:
        return self._own if self._footing is None else self._key_in(self._footing.store)

    def _key_in(self, store: SharedStore) -> str:
        return self._name if store.shared else self._own

    def crowd(self, key: str) -> tuple[int, int]:
        """How many places of a key are inside and wait, in all processes, those behind among them."""
        return self._member().crowd(self._key_in, key)

    @staticmethod
    def count_held(gates: Sequence[FairGate]) -> list[int]:
        """How many slots of each gate are taken, in all processes. The gates are of one process."""
        if not gates:
            return []
        return gates[0]._member().holding(lambda store: [gate._key_in(store) for gate in gates])


def _until(waiter: Place, *ends: float | None) -> bool:
    """Wait for the waiter's turn, until the first of `ends` (monotonic seconds; None: for ever)."""
    end = min((end for end in ends if end is not None), default=None)
    return waiter.turn.acquire(timeout=-1 if end is None else max(0.0, end - time.monotonic()))


@lru_cache(maxsize=8)
def _outgoing(limit: int, instance_id: str) -> FairGate:
    return FairGate(limit, name=f"outgoing calls, at most {limit}")


def outgoing_gate() -> FairGate | None:
    """The gate for outgoing model calls of all processes: level `endpoint` with a limit, else None."""
    facts = launch_facts()
    if facts.concurrency_level != "endpoint" or facts.concurrency <= 0:
        return None
    return _outgoing(facts.concurrency, facts.instance_id)


def gate_of_machine(name: str, limit: int) -> FairGate:
    """One for good, with the limit that is set now: its models must not meet in two gates."""
    gate = _machine(name)
    gate.limit = limit
    return gate


def any_machine_called() -> bool:
    """Whether this process has put a call to an endpoint that names a machine."""
    return _machine.cache_info().currsize > 0


@cache
def _machine(name: str) -> FairGate:
    return FairGate(NO_LIMIT, name=f"machine {name}", one_model=True)
