"""Who of a gate's queue comes in next. Pure: a queue goes in, tickets come out; nothing waits here.

Every store asks this, but for Redis, which has the same rule as a script (`redis_store.py`); a test holds
both to one answer. Calls for one machine go in rows, so that its models are loaded seldom. Source: spec
prompt-reuse.md 7.1.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import NamedTuple

ROW = 4
"""So many turns in a row go to one model of a machine while another one of its models waits."""


class Ask(NamedTuple):
    """What a ticket asks a turn for: a model of a machine. No machine: whose model it is is not known."""

    machine: str = ""
    model: str = ""


class Row(NamedTuple):
    """The model of a machine that was asked last, and how many turns it got since it was loaded."""

    model: str
    turns: int


@dataclass(slots=True)
class Queue:
    """One gate at one moment. `waiting`, `behind`: two classes, each in order of arrival; `behind` comes in
    when nobody holds a turn or waits. `asks`: of tickets of all three, where known. `rows`: by machine.
    `one_model`: two models of a machine never hold turns at the same time.
    """

    limit: int
    holding: Collection[str] = ()
    waiting: Collection[str] = ()
    behind: Collection[str] = ()
    asks: Mapping[str, Ask] = field(default_factory=dict)
    rows: Mapping[str, Row] = field(default_factory=dict)
    one_model: bool = False

    def models_under_way(self) -> dict[str, str]:
        """Machine -> the model that holds turns of it."""
        return dict(self.asks[ticket] for ticket in self.holding if ticket in self.asks)


def next_turns(queue: Queue) -> list[str]:
    """The tickets that may come in now, in order. `grow_row` says what a turn changes."""
    room, tickets = queue.limit - len(queue.holding), queue.waiting
    if not tickets and not queue.holding:
        room, tickets = min(room, 1), queue.behind
    if room <= 0 or not tickets:
        return []
    if not queue.asks:
        return list(islice(tickets, room))
    return _turns_in_rows(queue, list(tickets), room)


def _turns_in_rows(queue: Queue, left: list[str], room: int) -> list[str]:
    """`left`: the tickets of the class whose turn it is. What is not known goes in order of arrival, and so
    does a machine as a whole: its row says which of its tickets takes the place of its oldest one.
    """
    rows, under_way = dict(queue.rows), queue.models_under_way() if queue.one_model else {}
    turns: list[str] = []
    while len(turns) < room and (ticket := _next_ticket(left, queue.asks, rows, under_way)):
        left.remove(ticket)
        turns.append(ticket)
        if ask := queue.asks.get(ticket):
            rows[ask.machine] = grow_row(rows.get(ask.machine), ask.model)
            if queue.one_model:
                under_way[ask.machine] = ask.model
    return turns


def _next_ticket(
    left: Sequence[str], asks: Mapping[str, Ask], rows: Mapping[str, Row], under_way: Mapping[str, str]
) -> str:
    """The one that goes first; "" when all must wait until the turns of another model have ended."""
    busy: set[str] = set()
    for ticket in left:
        ask = asks.get(ticket)
        if ask is None:
            return ticket
        if ask.machine in busy:
            continue
        known = (asks[one] for one in left if one in asks)
        model = _next_model([one.model for one in known if one.machine == ask.machine], rows.get(ask.machine))
        if under_way.get(ask.machine, model) == model:
            # Among the tickets of one model the oldest goes first. Turns by name (keys.md 5.2) belong here.
            return next(one for one in left if asks.get(one) == (ask.machine, model))
        busy.add(ask.machine)
    return ""


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
    if ask is None:
        return True
    row, under_way = queue.rows.get(ask.machine), map(queue.asks.get, queue.holding)
    others = any(one.machine == ask.machine and one.model != ask.model for one in under_way if one)
    return row is not None and row.model == ask.model and not others


def grow_rows(rows: Mapping[str, Row], asks: Iterable[Ask | None]) -> dict[str, Row]:
    """The rows that change when these get their turns, in this order."""
    grown: dict[str, Row] = {}
    for ask in asks:
        if ask is not None:
            grown[ask.machine] = grow_row(grown.get(ask.machine) or rows.get(ask.machine), ask.model)
    return grown
