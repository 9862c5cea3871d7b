"""The one interface behind which processes share what they must know of each other.

Three kinds of facts: records (which request runs, which one holds a key), places in the queues of gates, and
messages. All that a process wrote is void once it has not beaten for `LEASE_S`: a killed one frees what it
held by itself. Stores know nothing of requests; `member.py` puts them to use.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

BEAT_S = 2.0
"""How often a process that holds something says that it lives."""

LEASE_S = 7.0
"""A process that was not heard of for so long is dead."""

MESSAGE_LIFE_S = 30.0
"""So long a message is kept for processes that did not read it yet."""


class StoreLost(Exception):
    """The store cannot be reached, or does not answer in time. The text says why, without credentials."""


class Forgotten(StoreLost):
    """The store does not know this process (any more): it must join again, and tell all that it holds."""


class Places(NamedTuple):
    """What a process tells of its tickets at a gate. Telling the same again changes nothing.

    `leave`: neither wait nor hold any more; `hold`: are inside; `wait`: stand in the queue, in this order;
    `behind`: wait for an empty gate only.
    """

    leave: Sequence[str] = ()
    hold: Sequence[str] = ()
    wait: Sequence[str] = ()
    behind: Sequence[str] = ()


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

    def turns(self, gate: str, limit: int, places: Places) -> list[str]:
        """Tell of tickets; those of this process that have come in by it, at most `limit` holders in all.

        First come, first served over all processes. Others whose turn has come are told `gate <gate>`.
        """
        ...

    def waiting(self, gate: str) -> int:
        """How many tickets of all living processes wait, without those behind."""
        ...

    def tell(self, message: str) -> None:
        """Send a text to all processes, this one among them."""
        ...

    def receive(self, wait_s: float) -> list[str]:
        """The messages since the last call, or the kept ones; waits for one at most so long."""
        ...
