"""How far the state document knows the memories: the mark of each merge, kept beside the memories themselves.

One row, or none: then there is no document, or no memory was stored since there is one. What is written to
the file is marked before and after, so that a kill between the two neither loses nor repeats a fact. Ids of
memories rise; where the highest were deleted by hand, the mark goes back with them. Source: spec memory.md
18.2 (23).
"""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass

MOST_REFUSALS = 3
"""So often a document that shrank too far is refused before the facts count as known."""


@dataclass(frozen=True, slots=True)
class StateReach:
    """`memory_id`: the newest memory that the document knows. `refusals`: how often a merge of what comes
    after was refused. `written_id`: up to where a document reaches that was about to be written, and that
    has `written_hash`.
    """

    memory_id: int
    refusals: int = 0
    written_id: int | None = None
    written_hash: str | None = None


def read_reach(connection: sqlite3.Connection) -> StateReach | None:
    """None: nothing waits for the document."""
    row = connection.execute(
        "SELECT memory_id, refusals, written_id, written_hash FROM state_document_reach"
    ).fetchone()
    return None if row is None else StateReach(*row)


def write(connection: sqlite3.Connection, reach: StateReach | None) -> None:
    connection.execute("DELETE FROM state_document_reach")
    if reach is not None:
        connection.execute(
            "INSERT INTO state_document_reach (memory_id, refusals, written_id, written_hash) "
            "VALUES (?, ?, ?, ?)",
            (reach.memory_id, reach.refusals, reach.written_id, reach.written_hash),
        )


def begin(connection: sqlite3.Connection, *, wanted: bool) -> None:
    """Before memories are stored: the document knows all that are there when it is switched on."""
    newest = newest_memory(connection)
    reach = read_reach(connection) if wanted else None
    if wanted and (reach is None or reach.memory_id > newest):
        reach = StateReach(newest)
    write(connection, reach)


def waiting(connection: sqlite3.Connection, reach: StateReach) -> list[tuple[int, str]]:
    """The memories (id, text) that the document does not know, oldest first."""
    return connection.execute(
        "SELECT id, memory_text FROM memories WHERE id > ? ORDER BY id", (reach.memory_id,)
    ).fetchall()


def newest_memory(connection: sqlite3.Connection) -> int:
    """Its id; 0: there is none."""
    return int(connection.execute("SELECT coalesce(max(id), 0) FROM memories").fetchone()[0])
