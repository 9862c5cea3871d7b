"""The one interface behind which processes share what they must know of each other.

Five kinds of facts: records (which request runs, which one holds a key), places in the queues of gates,
messages, notes, and budgets. All that a process wrote, but the last three, is void once it has not beaten for
`LEASE_S`: a killed one frees what it held by itself. Notes are nobody's; they end by their age. Budgets
(`budgets.py`) are nobody's, either. Stores know nothing of requests; `member.py` puts them to use.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import NamedTuple, Protocol

from Middleware.services.shared_state.budgets import Bucket, Sums, merge_sums, refill, take_from
from Middleware.services.shared_state.turns import (
    NOTHING,
    Ask,
    Queue,
    Rounds,
    Row,
    grow_rows,
    is_of_key,
    may_take_spare_turn,
    next_turns,
)

BEAT_S = 2.0
"""How often a process that holds something says that it lives."""

LEASE_S = 7.0
"""A process that was not heard of for so long is dead."""

MESSAGE_LIFE_S = 30.0
"""So long a message is kept for processes that did not read it yet."""

NOTE_LIFE_S = 3600.0
"""So long a note is kept after it was written."""

MOST_NOTES = 1000
"""Of all shelves; what was written longest ago goes first."""


class StoreLost(Exception):
    """The store cannot be reached, or does not answer in time. The text says why, without credentials."""


class Forgotten(StoreLost):
    """The store does not know this process (any more): it must join again, and tell all that it holds."""


class Places(NamedTuple):
    """What a process tells of its tickets at a gate. Telling the same again changes nothing.

    `leave`: neither wait nor hold any more; `hold`: are inside; `wait`: stand in the queue, in this order;
    `behind`: wait for an empty gate only; `spare`: come in now, if nobody waits and no model has to be loaded
    for them, or not at all. `asks`: of those among them that ask for a model of a machine, or have a name.
    """

    leave: Sequence[str] = ()
    hold: Sequence[str] = ()
    wait: Sequence[str] = ()
    behind: Sequence[str] = ()
    spare: Sequence[str] = ()
    asks: Mapping[str, Ask] = MappingProxyType({})


class Note(NamedTuple):
    """Something to be found again, by its key or by its marks. `marks`: each once."""

    key: str
    value: str
    marks: Sequence[str] = ()


class SharedStore(Protocol):
    """One process's view of what is shared. Each method is short, may be called from any thread, and raises
    StoreLost; those that write for a process that the store does not know write nothing and raise Forgotten.

    `shared`: other processes may be behind it; `many_machines`: on other machines, too.
    """

    shared: bool
    many_machines: bool

    def join(self) -> None:
        """This process lives from now on; what it wrote before is void. Asked before anything else."""
        ...

    def beat(self) -> bool:
        """This process lives. False: the store does not know it (any more), and it must join again."""
        ...

    def put(self, kind: str, key: str, value: str) -> str | None:
        """Write a record, over anybody's. The value that a living process had there, or None."""
        ...

    def add(self, kind: str, key: str, value: str) -> bool:
        """Write a record unless a living process has one there. True also when it is this very record."""
        ...

    def find(self, kind: str, key: str) -> str | None:
        """The value of a living process's record."""
        ...

    def remove(self, kind: str, key: str, value: str) -> None:
        """Remove this process's record if it still has this value."""
        ...

    def turns(
        self,
        gate: str,
        limit: int,
        places: Places,
        one_model: bool = False,
        when_queued: Callable[[], object] | None = None,
    ) -> list[str]:
        """Tell of tickets; those of this process that have come in by it, at most `limit` holders in all.

        Whose turn it is over all processes: `turns.py`. Others whose turn has come are told `gate <gate>`.
        `one_model`: two models of a machine are never inside at the same time. `when_queued`: a store far
        away calls it when it is sure to hear of this before all that it is told later.
        """
        ...

    def waiting(self, gate: str, before: str = "", name: str | None = None) -> int:
        """How many tickets of all living processes wait, without those behind. `before`: a ticket of this
        process: only those that came before it, 0 when it does not wait (any more). `name`: only those of
        this name.
        """
        ...

    def holding(self, gates: Sequence[str]) -> list[int]:
        """How many tickets of all living processes are inside each of these gates."""
        ...

    def crowd(self, gate: str, key: str) -> tuple[int, int]:
        """How many tickets of all living processes are inside and wait, those behind among them, that have
        this name or one that begins with it and a blank.
        """
        ...

    def take(self, name: str, size: int, at_most: float, wanted: int = 1) -> Bucket:
        """Take one out of a bucket that holds `size`, is full at first and within a minute again. `at_most`:
        no more can be in it. `wanted`: one, or none: it is only looked into.
        """
        ...

    def count(self, name: str, day: str, amounts: Mapping[str, int], known: Mapping[str, int]) -> Sums:
        """Add to the sums of a name's day; gives all of them. `known`: they are no less."""
        ...

    def keep_note(self, shelf: str, note: Note) -> None:
        """Write a note, over the one of this key on this shelf."""
        ...

    def find_note(self, shelf: str, key: str) -> str | None:
        """The value of a note."""
        ...

    def nearest_note(self, shelf: str, marks: Sequence[str]) -> tuple[str, str] | None:
        """Key and value of the note that has most of these marks, of several the one that was written last;
        None: no note has any.
        """
        ...

    def tell(self, message: str) -> None:
        """Send a text to all processes, this one among them."""
        ...

    def receive(self, wait_s: float) -> list[str]:
        """The messages since the last call, or the kept ones; waits for one at most so long."""
        ...


# --------------------------------------------------------------------------
# What processes share when there is one: tables in its memory. Nothing is polled, nothing beats.


@dataclass(slots=True)
class _Gate:
    """Tickets with their owners, in the order in which they came, and what they ask for. `came`: when, of
    those that have asked for a background turn.
    """

    holding: dict[str, str] = field(default_factory=dict)
    waiting: dict[str, str] = field(default_factory=dict)
    behind: dict[str, str] = field(default_factory=dict)
    asks: dict[str, Ask] = field(default_factory=dict)
    came: dict[str, float] = field(default_factory=dict)
    rounds: Rounds = field(default_factory=Rounds)

    def all(self) -> tuple[dict[str, str], ...]:
        return self.holding, self.waiting, self.behind

    @property
    def is_empty(self) -> bool:
        return not (self.holding or self.waiting or self.behind)

    def note_asks(self, asks: Mapping[str, Ask], now: float) -> None:
        self.asks.update(asks)
        for ticket, ask in asks.items():
            if ask.background:
                self.came.setdefault(ticket, now)

    def forget_ask(self, ticket: str) -> None:
        self.asks.pop(ticket, None)
        self.came.pop(ticket, None)


@dataclass(slots=True)
class Tables:
    """`beats`: owner -> time of its last beat. `records`: (kind, key) -> (owner, value). `rows`: gate ->
    machine -> its row; a gate that nobody uses keeps it, as the machine keeps its model. `notes`: (shelf,
    key) -> note, and when it was written; the last one at the end. `buckets`: name -> level, and when it was
    so. `days`: (name, day) -> its sums.
    """

    beats: dict[str, float] = field(default_factory=dict)
    records: dict[tuple[str, str], tuple[str, str]] = field(default_factory=dict)
    gates: dict[str, _Gate] = field(default_factory=dict)
    rows: dict[str, dict[str, Row]] = field(default_factory=dict)
    inboxes: dict[str, list[str]] = field(default_factory=dict)
    notes: dict[tuple[str, str], tuple[Note, float]] = field(default_factory=dict)
    buckets: dict[str, tuple[float, float]] = field(default_factory=dict)
    days: dict[tuple[str, str], Sums] = field(default_factory=dict)
    changed: threading.Condition = field(default_factory=threading.Condition)


class MemoryStore:
    """The view of one owner. `tables` None: its own, which no other process sees and in which nobody dies."""

    many_machines = False

    def __init__(
        self, owner: str = "", tables: Tables | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.shared = tables is not None
        self._owner, self._tables, self._clock = owner, tables or Tables(), clock
        self._lock = self._tables.changed
        if self.shared:
            self._tables.inboxes[owner] = []

    def join(self) -> None:
        with self._lock:
            self._drop({self._owner})
            self._tables.beats[self._owner] = self._clock()

    def beat(self) -> bool:
        with self._lock:
            self._bury()
            if self._owner not in self._tables.beats:
                return False
            self._tables.beats[self._owner] = self._clock()
            return True

    def put(self, kind: str, key: str, value: str) -> str | None:
        with self._lock:
            self._check_known()
            before = self._tables.records.pop((kind, key), None)
            self._tables.records[kind, key] = (self._owner, value)
        return before[1] if before else None

    def add(self, kind: str, key: str, value: str) -> bool:
        with self._lock:
            self._check_known()
            mine = (self._owner, value)
            return self._tables.records.setdefault((kind, key), mine) == mine

    def find(self, kind: str, key: str) -> str | None:
        with self._lock:
            self._bury()
            found = self._tables.records.get((kind, key))
        return found[1] if found else None

    def remove(self, kind: str, key: str, value: str) -> None:
        with self._lock:
            if self._tables.records.get((kind, key)) == (self._owner, value):
                del self._tables.records[kind, key]

    def turns(
        self,
        gate: str,
        limit: int,
        places: Places,
        one_model: bool = False,
        when_queued: Callable[[], object] | None = None,
    ) -> list[str]:
        with self._lock:
            self._check_known()
            there = self._tables.gates.get(gate)
            if there is None or there.is_empty:  # the dead may have left an empty one
                there = self._tables.gates[gate] = _Gate()
            self._place(there, places)
            rows, waited_s = self._tables.rows.get(gate, {}), self._waited_s(there)
            queue = Queue(
                limit,
                there.holding,
                there.waiting,
                there.behind,
                there.asks,
                rows,
                one_model,
                there.rounds,
                waited_s,
            )
            turns = next_turns(queue)
            mine = [ticket for ticket in turns if self._owner_in(there, ticket) == self._owner]
            self._let_in(there, mine)
            if there.asks and mine:
                self._note_turns(gate, there, mine)
            if places.leave and len(mine) < len(turns):
                self._tell(f"gate {gate}")
            mine += self._spare_turns(there, queue, places)
            if there.is_empty:
                del self._tables.gates[gate]
        return mine

    def _waited_s(self, gate: _Gate) -> Mapping[str, float]:
        if not gate.came:
            return gate.came
        now = self._clock()
        return {ticket: now - came for ticket, came in gate.came.items()}

    def _note_turns(self, name: str, gate: _Gate, tickets: Sequence[str]) -> None:
        """What these turns change."""
        rows = self._tables.rows.get(name, {})
        if grown := grow_rows(rows, map(gate.asks.get, tickets)):
            self._tables.rows.setdefault(name, {}).update(grown)
        for ticket in tickets:
            gate.rounds.note_turn(gate.asks.get(ticket))

    @staticmethod
    def _owner_in(gate: _Gate, ticket: str) -> str | None:
        return gate.waiting[ticket] if ticket in gate.waiting else gate.behind.get(ticket)

    def _let_in(self, gate: _Gate, tickets: Sequence[str]) -> None:
        for ticket in tickets:
            gate.waiting.pop(ticket, None)
            gate.behind.pop(ticket, None)
            gate.holding[ticket] = self._owner

    def _spare_turns(self, gate: _Gate, queue: Queue, places: Places) -> list[str]:
        """Those of `spare` that come in. The queue looks at the gate's own tables."""
        came = []
        for ticket in places.spare:
            if may_take_spare_turn(queue, places.asks.get(ticket)):
                gate.holding[ticket] = self._owner
                came.append(ticket)
            else:
                gate.forget_ask(ticket)
        return came

    def _place(self, gate: _Gate, places: Places) -> None:
        for ticket in places.leave:
            gate.forget_ask(ticket)
            for table in gate.all():
                table.pop(ticket, None)
        if places.asks:
            gate.note_asks(places.asks, self._clock())
        for ticket in places.hold:
            gate.waiting.pop(ticket, None)
            gate.behind.pop(ticket, None)
            gate.holding[ticket] = self._owner
        for ticket in places.wait:
            gate.behind.pop(ticket, None)
            if ticket not in gate.holding:
                gate.waiting.setdefault(ticket, self._owner)
        for ticket in places.behind:
            if ticket not in gate.holding:
                gate.behind.setdefault(ticket, self._owner)

    def waiting(self, gate: str, before: str = "", name: str | None = None) -> int:
        with self._lock:
            there = self._tables.gates.get(gate)
            if there is None or (before and before not in there.waiting):
                return 0
            tickets = list(there.waiting)
            if before:
                tickets = tickets[: tickets.index(before)]
            if name is None:
                return len(tickets)
            return sum(there.asks.get(ticket, NOTHING).name == name for ticket in tickets)

    def holding(self, gates: Sequence[str]) -> list[int]:
        with self._lock:
            self._bury()
            there = [self._tables.gates.get(gate) for gate in gates]
            return [len(gate.holding) if gate else 0 for gate in there]

    def keep_note(self, shelf: str, note: Note) -> None:
        with self._lock:
            notes = self._tables.notes
            notes.pop((shelf, note.key), None)
            notes[shelf, note.key] = (note, self._clock())
            while len(notes) > MOST_NOTES:
                del notes[next(iter(notes))]

    def find_note(self, shelf: str, key: str) -> str | None:
        with self._lock:
            note, written = self._tables.notes.get((shelf, key), (None, 0.0))
        return note.value if note and written >= self._clock() - NOTE_LIFE_S else None

    def nearest_note(self, shelf: str, marks: Sequence[str]) -> tuple[str, str] | None:
        wanted, end = frozenset(marks), self._clock() - NOTE_LIFE_S
        with self._lock:
            newest_first = [
                note
                for (place, _), (note, written) in reversed(self._tables.notes.items())
                if place == shelf and written >= end
            ]
        nearest = max(newest_first, key=lambda note: len(wanted.intersection(note.marks)), default=None)
        if nearest is None or wanted.isdisjoint(nearest.marks):
            return None
        return nearest.key, nearest.value

    def crowd(self, gate: str, key: str) -> tuple[int, int]:
        with self._lock:
            self._bury()
            there = self._tables.gates.get(gate) or _Gate()
            of_key = {t for t, ask in there.asks.items() if is_of_key(ask.name, key)}
            inside = len(of_key.intersection(there.holding))
            return inside, len(of_key.intersection([*there.waiting, *there.behind]))

    def take(self, name: str, size: int, at_most: float, wanted: int = 1) -> Bucket:
        with self._lock:
            now = self._clock()
            level, at = self._tables.buckets.get(name, (float(size), now))
            taken = take_from(min(refill(level, size, now - at), at_most), wanted)
            self._tables.buckets[name] = taken.level, now
        return taken

    def count(self, name: str, day: str, amounts: Mapping[str, int], known: Mapping[str, int]) -> Sums:
        with self._lock:
            days = self._tables.days
            sums = days.get((name, day))
            if sums is None:
                for old in [one for one in days if one[0] == name and one[1] < day]:
                    del days[old]
                sums = days[name, day] = {}
            merge_sums(sums, amounts, known)
            return dict(sums)

    def tell(self, message: str) -> None:
        with self._lock:
            self._tell(message)

    def _tell(self, message: str) -> None:
        for inbox in self._tables.inboxes.values():
            inbox.append(message)
        self._lock.notify_all()

    def receive(self, wait_s: float) -> list[str]:
        with self._lock:
            inbox = self._tables.inboxes.get(self._owner, [])
            if not inbox and wait_s:
                self._lock.wait(wait_s)
            heard, inbox[:] = inbox[:], []
        return heard

    def _bury(self) -> None:
        """What the dead left is gone. Alone in its tables nobody dies."""
        if self.shared:
            end = self._clock() - LEASE_S
            if dead := {owner for owner, beat in self._tables.beats.items() if beat < end}:
                self._drop(dead)

    def _check_known(self) -> None:
        self._bury()
        if self.shared and self._owner not in self._tables.beats:
            raise Forgotten(f"{self._owner} has not joined")

    def _drop(self, owners: set[str]) -> None:
        """Forget processes; those who waited for what they held are told."""
        for owner in owners:
            self._tables.beats.pop(owner, None)
        self._tables.records = {k: v for k, v in self._tables.records.items() if v[0] not in owners}
        for name, gate in self._tables.gates.items():
            for table in gate.all():
                for ticket in [ticket for ticket, owner in table.items() if owner in owners]:
                    del table[ticket]
                    gate.forget_ask(ticket)
            self._tell(f"gate {name}")
