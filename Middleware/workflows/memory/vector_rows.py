"""Vector memories as whole rows: a memory with its index, its vectors, its source and its pin.

Works on an open connection, within the transaction of whoever calls. What writes needs all tables.
Source: spec memory.md 8.1, operate.md 6.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Any

COPIED = "copied:"
"""Begins the source of a memory that comes from another discussion."""
_HAS_PINS = "SELECT 1 FROM sqlite_master WHERE name = 'memory_pins'"
_INDEX = "title, summary, entities, key_phrases, memory_text_unweighted"
ID_COLUMNS = {
    "memories": "id",
    "memories_fts": "rowid",
    "memory_embeddings": "memory_id",
    "memory_sources": "memory_id",
    "memory_pins": "memory_id",
}
"""The tables that say something of each memory, and the column of its id."""


@dataclass(frozen=True, slots=True)
class MemoryRow:
    """`index`: title, summary, entities, key phrases and text as they are searched; none: not indexed.
    `vectors`: model, length and bytes of each. `source`: name of the chunk ("": not known).
    """

    id: int
    discussion_id: str
    text: str
    date: str
    metadata: str | None
    index: tuple[str, ...]
    vectors: tuple[tuple[str, int, bytes], ...]
    source: str


def read_rows(connection: sqlite3.Connection, ids: Iterable[int] | None = None) -> list[MemoryRow]:
    """The memories with these ids (None: all), oldest first."""
    known = [each for (each,) in connection.execute("SELECT id FROM memories ORDER BY id")]
    wanted = known if ids is None else sorted(set(ids).intersection(known))
    tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    return [_read_row(connection, each, tables) for each in wanted]


def _read_row(connection: sqlite3.Connection, memory_id: int, tables: Collection[str]) -> MemoryRow:
    def rows(table: str, columns: str) -> list[Any]:
        if table not in tables:
            return []
        statement = f"SELECT {columns} FROM {table} WHERE {ID_COLUMNS[table]} = ? ORDER BY rowid"
        return connection.execute(statement, (memory_id,)).fetchall()

    ((discussion_id, text, date, metadata),) = rows(
        "memories", "discussion_id, memory_text, date_added, metadata_json"
    )
    index, source = rows("memories_fts", _INDEX), rows("memory_sources", "chunk_name")
    return MemoryRow(
        memory_id,
        discussion_id,
        text,
        date,
        metadata,
        index=index[0] if index else (),
        vectors=tuple(rows("memory_embeddings", "model, dim, vector")),
        source=source[0][0] if source else "",
    )


def insert_rows(connection: sqlite3.Connection, rows: Sequence[MemoryRow], first: int) -> None:
    """Put rows in, with ids from `first` on in the place of their own."""
    for memory_id, row in enumerate(rows, first):
        connection.execute(
            "INSERT INTO memories (id, discussion_id, memory_text, date_added, metadata_json) "
            "VALUES (?, ?, ?, ?, ?)",
            (memory_id, row.discussion_id, row.text, row.date, row.metadata),
        )
        if row.index:
            connection.execute(
                f"INSERT INTO memories_fts (rowid, {_INDEX}) VALUES (?, ?, ?, ?, ?, ?)",
                (memory_id, *row.index),
            )
        connection.executemany(
            "INSERT INTO memory_embeddings (memory_id, model, dim, vector) VALUES (?, ?, ?, ?)",
            [(memory_id, *vector) for vector in row.vectors],
        )
        if row.source:
            connection.execute(
                "INSERT INTO memory_sources (memory_id, chunk_name) VALUES (?, ?)", (memory_id, row.source)
            )


def delete_rows(connection: sqlite3.Connection, ids: Iterable[int]) -> None:
    """Remove memories with all that belongs to them."""
    values = [(each,) for each in ids]
    for table, column in ID_COLUMNS.items():
        connection.executemany(f"DELETE FROM {table} WHERE {column} = ?", values)


def shift_ids(connection: sqlite3.Connection, by: int, behind: int) -> None:
    """Give all memories behind an id ids that are greater by so much. The state document knows the same ones
    as before.
    """
    for table, column in (*ID_COLUMNS.items(), ("memory_forgotten", "memory_id")):
        connection.execute(f"UPDATE {table} SET {column} = -{column} WHERE {column} > ?", (behind,))
        connection.execute(f"UPDATE {table} SET {column} = ? - {column} WHERE {column} < 0", (by,))
    for column in ("memory_id", "written_id"):
        connection.execute(
            f"UPDATE state_document_reach SET {column} = {column} + ? WHERE {column} > ?", (by, behind)
        )


def last_copy(connection: sqlite3.Connection) -> int:
    """Id of the last of the memories from another discussion with which the memories begin; 0: of none."""
    found = connection.execute(
        "SELECT id, coalesce(chunk_name, '') FROM memories LEFT JOIN memory_sources ON memory_id = id "
        "ORDER BY id"
    )
    return max((each for each, _ in takewhile(lambda row: row[1].startswith(COPIED), found)), default=0)


def lasting_rows(connection: sqlite3.Connection) -> list[MemoryRow]:
    """What a rebuild cannot make: memories from another discussion, and what is left of a chunk of which a
    memory was forgotten.
    """
    rows = connection.execute(
        "SELECT memory_id FROM memory_sources WHERE chunk_name LIKE ? OR chunk_name IN "
        "(SELECT chunk_name FROM memory_forgotten)",
        (f"{COPIED}%",),
    ).fetchall()
    return read_rows(connection, [each for (each,) in rows])


# --- pins ---


def pinned_ids(connection: sqlite3.Connection) -> list[int]:
    """Ids of the pinned memories, newest pin first; the database may be one that knows no pins."""
    if not connection.execute(_HAS_PINS).fetchall():
        return []
    return [each for (each,) in connection.execute("SELECT memory_id FROM memory_pins ORDER BY ord DESC")]


def pin(connection: sqlite3.Connection, memory_id: int) -> None:
    """Make it the newest pin."""
    newest = connection.execute("SELECT coalesce(max(ord), 0) FROM memory_pins").fetchone()[0]
    connection.execute(
        "INSERT OR REPLACE INTO memory_pins (memory_id, ord) VALUES (?, ?)", (memory_id, newest + 1)
    )


def pin_oldest(connection: sqlite3.Connection, ids: Sequence[int]) -> None:
    """Pin memories, newest pin first, before all that are pinned."""
    oldest = connection.execute("SELECT coalesce(min(ord), 0) FROM memory_pins").fetchone()[0]
    connection.executemany(
        "INSERT OR REPLACE INTO memory_pins (memory_id, ord) VALUES (?, ?)",
        [(memory_id, oldest - place) for place, memory_id in enumerate(ids, 1)],
    )


def unpin(connection: sqlite3.Connection, ids: Collection[int]) -> None:
    connection.executemany("DELETE FROM memory_pins WHERE memory_id = ?", [(each,) for each in ids])


def pinned_texts(connection: sqlite3.Connection) -> list[str]:
    """Texts of the pinned memories, oldest pin first."""
    return [
        text
        for (text,) in connection.execute(
            "SELECT memory_text FROM memory_pins JOIN memories ON id = memory_id ORDER BY ord"
        )
    ]


def pin_texts(connection: sqlite3.Connection, texts: Iterable[str]) -> None:
    """Pin the memory that has each of these texts, where there is one."""
    for text in texts:
        row = connection.execute("SELECT id FROM memories WHERE memory_text = ?", (text,)).fetchone()
        if row is not None:
            pin(connection, row[0])
