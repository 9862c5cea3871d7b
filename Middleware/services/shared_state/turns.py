"""Who of a gate's queue comes in next. Pure: a queue goes in, tickets come out; nothing waits here.

Every store asks this, but for Redis, which has the same rule as a script (`redis_store.py`); a test holds
both to one answer. First the class, then the rows of a machine, so that its models are loaded seldom, then a
fair turn for each name. Tickets that say nothing are all of one name: they go in order of arrival. Source:
spec prompt-reuse.md 7.1, keys.md 5.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import NamedTuple

ROW = 4
"""So many turns in a row go to one model of a machine while another one of its models waits, and to people
while background requests wait."""

BACKGROUND_WAIT_S = 60.0
"""A background request that has waited for so long may get a turn between those of people."""


class Ask(NamedTuple):
    """What a ticket asks a turn for: a model of a machine, and whose it is. No machine: whose model it is is
    not known. No name: nobody's in particular. `background`: it lets people go first.
    """

    machine: str = ""
    model: str = ""
    name: str = ""
    background: bool = False


NOTHING = Ask()


def is_of_key(name: str, key: str) -> bool:
    """Whether a name is the key's own, or one of those that take turns for it."""
    return name == key or name.startswith(f"{key} ")


class Row(NamedTuple):
    """The model of a machine that was asked last, and how many turns it got since it was loaded."""

    model: str
    turns: int


@dataclass(slots=True)
class Rounds:
    """The turns of names for as long as somebody waits or holds. `last`: name -> number of its last turn, the
    latest at the end. `people`: how many turns in a row went to people. Tickets without a name do not count.
    """

    last: dict[str, int] = field(default_factory=dict)
    people: int = 0

    def copy(self) -> Rounds:
        return Rounds(dict(self.last), self.people)

    def note_turn(self, ask: Ask | None) -> None:
        """A turn begins."""
        if ask is not None and ask.name:
            number = 1 + next(reversed(self.last.values()), 0)
            self.last.pop(ask.name, None)
            self.last[ask.name] = number
            self.people = 0 if ask.background else self.people + 1


@dataclass(slots=True)
class Queue:
    """One gate at one moment. `waiting`, `behind`: two classes, each in order of arrival; `behind` comes in
    when nobody holds a turn or waits. `asks`: of tickets of all three, where known. `rows`: by machine.
    `one_model`: two models of a machine never hold turns at the same time. `waited_s`: how long background
    tickets have waited.
    """

    limit: int
    holding: Collection[str] = ()
    waiting: Collection[str] = ()
    behind: Collection[str] = ()
    asks: Mapping[str, Ask] = field(default_factory=dict)
    rows: Mapping[str, Row] = field(default_factory=dict)
    one_model: bool = False
    rounds: Rounds = field(default_factory=Rounds)
    waited_s: Mapping[str, float] = field(default_factory=dict)

    def models_under_way(self) -> dict[str, str]:
        """Machine -> the model that holds turns of it."""
        asks = (self.asks.get(ticket, NOTHING) for ticket in self.holding)
        return {ask.machine: ask.model for ask in asks if ask.machine}


def next_turns(queue: Queue) -> list[str]:
    """The tickets that may come in now, in order. `grow_rows` and `Rounds.note_turn` say what a turn
    changes.
    """
    room, tickets = queue.limit - len(queue.holding), queue.waiting
    if not tickets and not queue.holding:
        room, tickets = min(room, 1), queue.behind
    if room <= 0 or not tickets:
        return []
    if not queue.asks:
        return list(islice(tickets, room))
    if len(tickets) == 1:  # nearly always: nobody is to be chosen from
        [ticket] = tickets
        ask = queue.asks.get(ticket, NOTHING)
        if not ask.machine and not ask.background:
            return [ticket]
    return _Choice(queue, tickets).turns(room)


class _Choice:
    """The turns that are given one after the other at one moment. `left`: the tickets that wait for one.

    What is not known goes in order of arrival, and so does a machine as a whole: its row says which of its
    tickets takes the place of its oldest one.
    """

    def __init__(self, queue: Queue, left: Iterable[str]) -> None:
        self._queue, self._left = queue, list(left)
        self._rows, self._rounds = dict(queue.rows), queue.rounds.copy()
        self._under_way = queue.models_under_way() if queue.one_model else {}
        self._held: dict[str, int] = {}
        self._background_held = 0
        for ticket in queue.holding:
            self._count_holder(self._ask(ticket))

    def _ask(self, ticket: str) -> Ask:
        return self._queue.asks.get(ticket, NOTHING)

    def _count_holder(self, ask: Ask) -> None:
        self._held[ask.name] = self._held.get(ask.name, 0) + 1
        self._background_held += ask.background

    def turns(self, room: int) -> list[str]:
        turns: list[str] = []
        while len(turns) < room and (ticket := self._next_ticket()):
            self._left.remove(ticket)
            turns.append(ticket)
            ask = self._ask(ticket)
            self._count_holder(ask)
            self._rounds.note_turn(ask)
            if ask.machine:
                self._rows[ask.machine] = grow_row(self._rows.get(ask.machine), ask.model)
                if self._queue.one_model:
                    self._under_way[ask.machine] = ask.model
        return turns

    def _next_ticket(self) -> str:
        """The one that goes first; "" when all must wait until the turns of another model have ended, or of
        background requests.
        """
        tickets = self._class_to_serve()
        first_places: dict[str, int] = {}
        models: dict[str, list[str]] = {}
        for place, ticket in enumerate(tickets):
            ask = self._ask(ticket)
            if ask.machine:
                first_places.setdefault(ask.machine, place)
                models.setdefault(ask.machine, []).append(ask.model)
        served = {machine: self._model_to_serve(machine, asked) for machine, asked in models.items()}
        held, last = self._held, self._rounds.last

        def rank(place: int) -> tuple[int, int, int]:
            """The least goes first: turns now, then how late the last one began, then the place."""
            ask = self._ask(tickets[place])
            return held.get(ask.name, 0), last.get(ask.name, 0), first_places.get(ask.machine, place)

        asks = map(self._ask, tickets)
        ready = (i for i, ask in enumerate(asks) if not ask.machine or served[ask.machine] == ask.model)
        best = min(ready, key=rank, default=None)
        return "" if best is None else tickets[best]

    def _class_to_serve(self) -> Sequence[str]:
        """The tickets of the class whose turn it is, in order of arrival."""
        people = [ticket for ticket in self._left if not self._ask(ticket).background]
        if len(people) == len(self._left):
            return people
        limit = self._queue.limit
        is_full = limit > 1 and self._background_held >= limit - 1
        background = [] if is_full else [ticket for ticket in self._left if self._ask(ticket).background]
        if people and background and self._rounds.people >= ROW:
            waited_s = max(self._queue.waited_s.get(ticket, 0.0) for ticket in background)
            return background if waited_s >= BACKGROUND_WAIT_S else people
        return people or background

    def _model_to_serve(self, machine: str, asked: Sequence[str]) -> str | None:
        """Of the models that are asked of a machine; None: another one is under way there."""
        model = _next_model(asked, self._rows.get(machine))
        return model if self._under_way.get(machine, model) == model else None


def _next_model(waiting: Sequence[str], row: Row | None) -> str:
    """`waiting`: the models that are asked of one machine, in order of arrival; at least one."""
    if row is None:
        return waiting[0]
    others = [model for model in waiting if model != row.model]
    if not others or (row.turns < ROW and row.model in waiting):
        return row.model
    return others[0]


def grow_row(row: Row | None, model: str) -> Row:
    """The machine's row after a turn for `model`."""
    return Row(model, row.turns + 1) if row is not None and row.model == model else Row(model, 1)


def may_take_spare_turn(queue: Queue, ask: Ask | None) -> bool:
    """Whether work that can be left out may have a turn: nobody waits, and no model has to be loaded for it.
    Such a turn is no part of a row.
    """
    if queue.waiting or queue.behind or len(queue.holding) >= queue.limit:
        return False
    if ask is None or not ask.machine:
        return True
    row, under_way = queue.rows.get(ask.machine), map(queue.asks.get, queue.holding)
    others = any(one.machine == ask.machine and one.model != ask.model for one in under_way if one)
    return row is not None and row.model == ask.model and not others


def grow_rows(rows: Mapping[str, Row], asks: Iterable[Ask | None]) -> dict[str, Row]:
    """The rows that change when these get their turns, in this order."""
    grown: dict[str, Row] = {}
    for ask in asks:
        if ask is not None and ask.machine:
            grown[ask.machine] = grow_row(grown.get(ask.machine) or rows.get(ask.machine), ask.model)
    return grown
