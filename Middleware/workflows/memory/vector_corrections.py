"""What a user changes in a database of vector memories: a text, a pin, what is forgotten, what comes from
another discussion. Each is one transaction.

Whoever calls holds the discussion's lock. Source: spec operate.md 6.
"""

from __future__ import annotations

import json
import sqlite3
from array import array
from collections.abc import Collection, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace

from Middleware.services.discussion_store import DiscussionStore
from Middleware.utilities.hashing_utils import sha256_hex
from Middleware.workflows.memory import vector_rows, vector_tables
from Middleware.workflows.memory.extraction import fold_case
from Middleware.workflows.memory.vector_rows import COPIED, MemoryRow
from Middleware.workflows.memory.vector_store import (
    BUSY_TIMEOUT_MS,
    VectorDatabase,
    connect_read_only,
    has_table,
)
from Middleware.workflows.memory.vector_tables import StateReach

_FACTS = "SELECT id, memory_text, date_added FROM memories ORDER BY id"


@dataclass(frozen=True, slots=True)
class Fact:
    """A vector memory as it is shown. `date`: UTC, ISO 8601."""

    id: int
    text: str
    date: str


class VectorCorrections:
    """Of one discussion. Methods raise `sqlite3.Error`, OSError, NotADatabaseOfMemories."""

    def __init__(self, store: DiscussionStore) -> None:
        self._database = VectorDatabase(store)

    @property
    def exists(self) -> bool:
        return self._database.exists

    def facts(self) -> tuple[list[Fact], list[int]]:
        """All memories, oldest first, and the ids of the pinned ones, newest pin first."""
        if not self.exists:
            return [], []
        with closing(connect_read_only(self._database.path)) as connection:
            if not has_table(connection, "memories"):
                return [], []
            facts = [Fact(*row) for row in connection.execute(_FACTS)]
            return facts, vector_rows.pinned_ids(connection)

    def forgotten_ids(self) -> set[int]:
        """Ids of the memories that were forgotten."""
        if not self.exists:
            return set()
        with closing(connect_read_only(self._database.path)) as connection:
            if not has_table(connection, "memory_forgotten"):
                return set()
            return {each for (each,) in connection.execute("SELECT memory_id FROM memory_forgotten")}

    def edit(self, memory_id: int, text: str, vectors: Mapping[str, Sequence[float]]) -> None:
        """Give a memory another text, in its row, its facts and its index, and these vectors (by model)
        instead of all that it has.
        """
        with self._database.writing() as connection:
            (metadata,) = connection.execute(
                "SELECT metadata_json FROM memories WHERE id = ?", (memory_id,)
            ).fetchone()
            connection.execute(
                "UPDATE memories SET memory_text = ?, metadata_json = ? WHERE id = ?",
                (text, _with_summary(metadata, text), memory_id),
            )
            connection.execute(
                "UPDATE memories_fts SET summary = ?, memory_text_unweighted = ? WHERE rowid = ?",
                (text, text, memory_id),
            )
            row = connection.execute("SELECT coalesce(max(rowid), 0) FROM memory_embeddings").fetchone()[0]
            connection.execute("DELETE FROM memory_embeddings WHERE memory_id = ?", (memory_id,))
            # no vector gets a row number that was in use: who keeps vectors sees by it what is new
            connection.executemany(
                "INSERT INTO memory_embeddings (rowid, memory_id, model, dim, vector) VALUES (?, ?, ?, ?, ?)",
                [
                    (row + place, memory_id, model, len(vector), array("f", vector).tobytes())
                    for place, (model, vector) in enumerate(vectors.items(), 1)
                ],
            )

    def without_source(self, ids: Collection[int]) -> set[int]:
        """Those of the memories of which it is not known what they were made of."""
        return {each for each, _, source in self._sources() if each in ids and not source}

    def _sources(self) -> list[tuple[int, str, str]]:
        """Id, text and source ("": not known) of all memories."""
        if not self.exists:
            return []
        with closing(connect_read_only(self._database.path)) as connection:
            if not has_table(connection, "memories"):
                return []
            if not has_table(connection, "memory_sources"):
                return connection.execute("SELECT id, memory_text, '' FROM memories").fetchall()
            return connection.execute(
                "SELECT id, memory_text, coalesce(chunk_name, '') FROM memories "
                "LEFT JOIN memory_sources ON memory_id = id"
            ).fetchall()

    def forget(self, ids: Collection[int]) -> None:
        """Remove memories; what is known of their chunks stays, so that they are not made again."""
        with self._database.writing() as connection:
            connection.execute("PRAGMA secure_delete = ON")
            connection.executemany(
                "INSERT OR IGNORE INTO memory_forgotten (memory_id, chunk_name) VALUES (?, coalesce("
                "(SELECT chunk_name FROM memory_sources WHERE memory_id = ?), ''))",
                [(each, each) for each in ids],
            )
            vector_rows.delete_rows(connection, ids)
            reach = vector_tables.read_reach(connection)
            newest = vector_tables.newest_memory(connection)
            if reach is not None and reach.memory_id > newest:
                vector_tables.write(connection, replace(reach, memory_id=newest))

    def set_pin(self, memory_id: int, *, pinned: bool) -> None:
        with self._database.writing() as connection:
            vector_rows.unpin(connection, [memory_id])
            if pinned:
                vector_rows.pin(connection, memory_id)

    def wipe_free_pages(self) -> None:
        """Leave nothing of what was removed in the file or beside it."""
        if not self.exists:
            return
        with closing(sqlite3.connect(self._database.path, isolation_level=None)) as connection:
            connection.execute(f"PRAGMA busy_timeout = {BUSY_TIMEOUT_MS}")
            connection.execute("PRAGMA trusted_schema = OFF")
            connection.execute("INSERT INTO memories_fts (memories_fts) VALUES ('optimize')")
            connection.execute("VACUUM")
            busy = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]
        if busy:
            raise sqlite3.OperationalError(
                "the database is in use, so parts of what was forgotten are left in it"
            )

    # --- copying ---

    def rows(self) -> tuple[list[MemoryRow], list[int]]:
        """All memories whole, oldest first, and the ids of the pinned ones, newest pin first."""
        if not self.exists:
            return [], []
        with closing(connect_read_only(self._database.path)) as connection:
            if not has_table(connection, "memories"):
                return [], []
            return vector_rows.read_rows(connection), vector_rows.pinned_ids(connection)

    def missing_rows(self, rows: Sequence[MemoryRow], old: DiscussionStore) -> list[MemoryRow]:
        """Those of the `rows` of discussion `old` that were not copied yet, as they are when they are.

        One that was edited or forgotten since it was copied is not copied again.
        """
        copies = [(source, text) for _, text, source in self._sources() if source.startswith(COPIED)]
        sources = {source for source, _ in copies} | self._forgotten_sources()
        texts = {fold_case(text) for _, text in copies}
        made = [replace(row, source=copied_source(old.discussion_id, row)) for row in rows]
        return [row for row in made if row.source not in sources and fold_case(row.text) not in texts]

    def _forgotten_sources(self) -> set[str]:
        if not self.exists:
            return set()
        with closing(connect_read_only(self._database.path)) as connection:
            if not has_table(connection, "memory_forgotten"):
                return set()
            return {name for (name,) in connection.execute("SELECT chunk_name FROM memory_forgotten")}

    def put_first(self, rows: Sequence[MemoryRow], discussion_id: str, pinned: Sequence[int]) -> None:
        """Have the rows before one's own, behind those that were copied before.

        `pinned`: places in `rows` of those that are, newest pin first.
        """
        with self._database.writing() as connection:
            behind = vector_rows.last_copy(connection)
            vector_rows.shift_ids(connection, len(rows), behind)
            own = [replace(row, discussion_id=discussion_id) for row in rows]
            vector_rows.insert_rows(connection, own, behind + 1)
            vector_rows.pin_oldest(connection, [behind + 1 + place for place in pinned])

    def set_reach(self, known: int) -> None:
        """The state document was copied along: it knows so many of the oldest memories."""
        with self._database.writing() as connection:
            vector_tables.write(connection, StateReach(known))


def copied_source(discussion_id: str, row: MemoryRow) -> str:
    """The source of a memory that is copied from a discussion: one that nothing else has."""
    return COPIED + copied_hash(discussion_id, f"{row.source} v{row.id}")


def copied_hash(discussion_id: str, old: str) -> str:
    """The hash that stands for `old` of a discussion in another one. Source: spec operate.md 6."""
    return sha256_hex("\n".join(("copied", discussion_id, old)))


def _with_summary(metadata: str | None, text: str) -> str:
    """The facts of a memory with another summary; what cannot be read is replaced."""
    try:
        facts = json.loads(metadata or "{}")
    except (ValueError, RecursionError):
        facts = {}
    return json.dumps({**(facts if isinstance(facts, dict) else {}), "summary": text})
