"""The tables of a discussion's vector database as they are on disk: only made where they lack.

Source: spec memory.md 8.1, 18.2 (9, 10, 21, 23), operate.md 6.
"""

from __future__ import annotations

import sqlite3
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

DEFINITIONS = """
CREATE TABLE IF NOT EXISTS memories (id INTEGER PRIMARY KEY, discussion_id TEXT NOT NULL,
    memory_text TEXT NOT NULL, date_added TEXT NOT NULL, metadata_json TEXT);
CREATE VIRTUAL TABLE IF NOT EXISTS memories_fts USING fts5(title, summary, entities, key_phrases,
    memory_text_unweighted, tokenize='porter');
CREATE TABLE IF NOT EXISTS vector_memory_hash_log (id INTEGER PRIMARY KEY AUTOINCREMENT,
    discussion_id TEXT NOT NULL, message_hash TEXT NOT NULL, timestamp DATETIME NOT NULL);
CREATE TABLE IF NOT EXISTS memory_embeddings (memory_id INTEGER NOT NULL, model TEXT NOT NULL,
    dim INTEGER NOT NULL, vector BLOB NOT NULL, PRIMARY KEY (memory_id, model));
CREATE TABLE IF NOT EXISTS memory_chunks (chunk_hash TEXT NOT NULL, message_hash TEXT NOT NULL,
    ord INTEGER NOT NULL, PRIMARY KEY (chunk_hash, ord));
CREATE TABLE IF NOT EXISTS memory_failures (chunk_hash TEXT PRIMARY KEY, attempts INTEGER NOT NULL,
    last_error TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS memory_sources (memory_id INTEGER PRIMARY KEY, chunk_name TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS state_document_reach (memory_id INTEGER NOT NULL, refusals INTEGER NOT NULL
    DEFAULT 0, written_id INTEGER, written_hash TEXT);
CREATE TABLE IF NOT EXISTS memory_pins (memory_id INTEGER PRIMARY KEY, ord INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS memory_forgotten (memory_id INTEGER NOT NULL, chunk_name TEXT NOT NULL,
    PRIMARY KEY (memory_id, chunk_name));
CREATE INDEX IF NOT EXISTS ours_sources_chunk ON memory_sources (chunk_name);
CREATE INDEX IF NOT EXISTS ours_log_newest ON vector_memory_hash_log (discussion_id, timestamp DESC);
CREATE INDEX IF NOT EXISTS ours_memories_date ON memories (date_added);
"""
OUR_TABLES = {
    "memories",
    "memories_fts",
    "vector_memory_hash_log",
    "memory_embeddings",
    "memory_chunks",
    "memory_failures",
    "memory_sources",
    "state_document_reach",
    "memory_pins",
    "memory_forgotten",
}


# --------------------------------------------------------------------------
# How far the state document knows the memories: the mark of each merge, kept beside the memories
# themselves.


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


def next_memory(connection: sqlite3.Connection) -> int:
    """The id that the next memory gets: none that a forgotten one had."""
    forgotten = connection.execute("SELECT coalesce(max(memory_id), 0) FROM memory_forgotten").fetchone()[0]
    return max(newest_memory(connection), int(forgotten)) + 1


def newest_memory(connection: sqlite3.Connection) -> int:
    """Its id; 0: there is none."""
    return int(connection.execute("SELECT coalesce(max(id), 0) FROM memories").fetchone()[0])


# --------------------------------------------------------------------------
# The messages of chunks, as they are stored.


def known_messages(chunk: Sequence[str | None]) -> tuple[str, ...]:
    """The messages of a chunk; none if they are not all known."""
    known = tuple(each for each in chunk if each is not None)
    return known if len(known) == len(chunk) else ()


def parts_of(messages: Sequence[str], name: str, count: int) -> deque[tuple[str | None, ...]]:
    """The messages that `count` chunks share one hash for, cut into those of each.

    They are cut behind each message that is the hash itself; too many parts make the first chunk longer.
    """
    parts: list[list[str]] = [[]]
    for each in messages:
        parts[-1].append(each)
        if each == name:
            parts.append([])
    if parts[-1]:
        parts[-1].append(name)  # older databases hold a message once, also if it ends a second chunk
    else:
        parts.pop()
    extra = max(0, len(parts) - count)
    whole: list[tuple[str | None, ...]] = [tuple(each for part in parts[: extra + 1] for each in part)]
    whole += map(tuple, parts[extra + 1 :])
    if not parts:
        whole = []
    unknown: list[tuple[str | None, ...]] = [(None, name)] * (count - len(whole))
    return deque([*whole, *unknown])
