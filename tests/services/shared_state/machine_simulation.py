"""A machine that loads one model at a time, and programs that ask it: seconds that pass in no time.

The turns are those of a store; a turn is one answer. Everything is exact: no clock, no thread.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from Middleware.services.shared_state.store import MemoryStore, Places, SharedStore
from Middleware.services.shared_state.turns import ROW, Ask


@dataclass
class Machine:
    """`asked`: all tickets; `turns`: (ticket, model) in the order in which they were given; `waits`: seconds of each answer's wait.

    `faults`: turns that broke the rule: two models at once, or a row that went on while another model waited.
    """

    stores: list[SharedStore]
    limit: int = 1
    answer_s: float = 5.0
    load_s: float = 8.0
    in_rows: bool = True
    asked: list[str] = field(default_factory=list)
    turns: list[tuple[str, str]] = field(default_factory=list)
    waits: list[float] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
    loads: int = 0
    now: float = 0.0

    def __post_init__(self) -> None:
        self._numbers = itertools.count()
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._waiting: dict[str, tuple[SharedStore, str, float, Callable[[], None]]] = {}
        self._inside: dict[str, tuple[SharedStore, str]] = {}
        self._row = ("", 0)

    def ask(self, at_s: float, model: str, store: int = 0, then: Callable[[], None] = lambda: None) -> str:
        """Somebody comes for an answer. `then` is called when it has been given. Gives the ticket."""
        ticket = f"t{len(self.asked)}"
        self.asked.append(ticket)
        self._at(at_s, lambda: self._come(ticket, self.stores[store], model, then))
        return ticket

    def loop(self, model: str, store: int = 0) -> None:
        """A program that asks again as soon as it has its answer, for ever."""
        self.ask(self.now, model, store, lambda: self.loop(model, store))

    def give_up(self, at_s: float, ticket: str) -> None:
        """Who waits then leaves."""
        self._at(at_s, lambda: self._leave(ticket))

    def run(self, until_s: float = float("inf")) -> None:
        while self._events and self._events[0][0] <= until_s:
            self.now, _, event = heapq.heappop(self._events)
            event()

    def _at(self, at_s: float, event: Callable[[], None]) -> None:
        heapq.heappush(self._events, (at_s, next(self._numbers), event))

    def _come(self, ticket: str, store: SharedStore, model: str, then: Callable[[], None]) -> None:
        self._waiting[ticket] = (store, model, self.now, then)
        self._tell(store, Places(wait=[ticket], asks={ticket: Ask("desk", model)}))

    def _leave(self, ticket: str) -> None:
        if ticket in self._waiting:
            self._tell(self._waiting.pop(ticket)[0], Places(leave=[ticket]))

    def _end(self, ticket: str, then: Callable[[], None]) -> None:
        store, _ = self._inside.pop(ticket)
        self._tell(store, Places(leave=[ticket]))
        then()

    def _tell(self, store: SharedStore, places: Places) -> None:
        self._begin(self._turns(store, places))
        for other in self.stores:
            if other is not store and "gate desk" in other.receive(0):
                self._begin(self._turns(other, Places()))

    def _turns(self, store: SharedStore, places: Places) -> list[str]:
        if not self.in_rows:
            places = places._replace(asks={})
        return store.turns("desk", self.limit, places, self.in_rows)

    def _begin(self, tickets: Iterable[str]) -> None:
        for ticket in tickets:
            store, model, came, then = self._waiting.pop(ticket)
            self._inspect(ticket, model)
            loads = model != self._row[0]
            self._row = (model, 1) if loads else (model, self._row[1] + 1)
            self.loads += loads
            self._inside[ticket] = store, model
            self.turns.append((ticket, model))
            took_s = self.answer_s + loads * self.load_s
            self.waits.append(self.now + took_s - self.answer_s - came)
            self._at(self.now + took_s, lambda ticket=ticket, then=then: self._end(ticket, then))

    def _inspect(self, ticket: str, model: str) -> None:
        others = {one for _, one, _, _ in self._waiting.values()} - {model}
        if {one for _, one in self._inside.values()} - {model}:
            self.faults.append(f"{ticket}: {model} beside another model")
        if model == self._row[0] and self._row[1] >= ROW and others:
            self.faults.append(f"{ticket}: turn {self._row[1] + 1} of {model} while {others} wait")


def alone() -> list[SharedStore]:
    """The store of a process that is the only one."""
    return [MemoryStore()]
