"""One database of vector memories gets what another one has, in one step, under whoever uses it.

The file stays the same: a server that has it open goes on in it. Source: spec memory.md 15, 18.1 (7).
"""

from __future__ import annotations

import logging
import os
import sqlite3
import tempfile
from contextlib import closing, suppress
from datetime import datetime
from pathlib import Path

from Middleware.workflows.memory import state_reach
from Middleware.workflows.memory.state_reach import StateReach
from Middleware.workflows.memory.vector_store import (
    NotADatabaseOfMemories,
    VectorDatabase,
    connect_read_only,
    tables_of,
)

logger = logging.getLogger(__name__)

_COPIED = {
    "memories": "id, discussion_id, memory_text, date_added, metadata_json",
    "memories_fts": "rowid, title, summary, entities, key_phrases, memory_text_unweighted",
    "vector_memory_hash_log": "discussion_id, message_hash, timestamp",
    "memory_embeddings": "rowid, memory_id, model, dim, vector",
    "memory_chunks": "chunk_hash, message_hash, ord",
    "memory_failures": "chunk_hash, attempts, last_error",
    "memory_sources": "memory_id, chunk_name",
}
"""What one database takes over from another."""


def is_sound(database: VectorDatabase) -> bool:
    """False: the file is damaged. Raises NotADatabaseOfMemories for a sound one of something else."""
    if not database.exists:
        return True
    try:
        with closing(connect_read_only(database.path)) as connection:
            sound = bool(connection.execute("PRAGMA quick_check(1)").fetchone()[0] == "ok")
            tables = tables_of(connection)
    except sqlite3.OperationalError:
        raise
    except sqlite3.DatabaseError:
        return False
    if sound and tables and "memories" not in tables:
        raise NotADatabaseOfMemories(database.path)
    return sound


def take_over(place: VectorDatabase, new: VectorDatabase) -> None:
    """Replace what is in `place` by what is in `new`.

    What was there is kept as `<name>.bak`, a damaged file as `<name>.corrupt-<time>`. Raises `sqlite3.Error`,
    OSError, NotADatabaseOfMemories.
    """
    if not is_sound(place):
        _put_aside(place.path)
    if place.exists:
        _back_up(place.path)
    with closing(connect_read_only(new.path)) as source, place.writing() as target:
        waiting = _waiting_for_document(target)
        newest = target.execute("SELECT max(rowid) FROM memory_embeddings").fetchone()[0] or 0
        for table, columns in _COPIED.items():
            # no vector gets a row number that was in use: who keeps vectors sees by it what is new
            shift = f" + {newest}" if table == "memory_embeddings" else ""
            first, rest = columns.split(", ", 1)
            marks = ", ".join("?" * len(columns.split(", ")))
            target.execute(f"DELETE FROM {table}")
            target.executemany(
                f"INSERT INTO {table} ({columns}) VALUES ({marks})",
                source.execute(f"SELECT {first}{shift}, {rest} FROM {table} ORDER BY rowid"),
            )
        if waiting is not None:
            state_reach.write(target, StateReach(max(0, state_reach.newest_memory(target) - waiting)))


def _waiting_for_document(connection: sqlite3.Connection) -> int | None:
    """How many memories the state document lacks; as many of the newest are then given to it. None: there is
    no document.
    """
    reach = state_reach.read_reach(connection)
    return None if reach is None else len(state_reach.waiting(connection, reach))


def _put_aside(path: Path) -> None:
    aside = f"{path.name}.corrupt-{datetime.now():%Y%m%d-%H%M%S-%f}"
    for tail in ("", "-wal", "-shm"):
        with suppress(FileNotFoundError):
            os.replace(path.with_name(path.name + tail), path.with_name(aside + tail))
    logger.error("%s was damaged and is kept as %s", path, aside)


def _back_up(path: Path) -> None:
    handle, name = tempfile.mkstemp(".tmp", f".{path.name}.", path.parent)
    os.close(handle)
    try:
        with closing(connect_read_only(path)) as source, closing(sqlite3.connect(name)) as copy:
            source.backup(copy)
        os.replace(name, path.with_name(path.name + ".bak"))
    finally:
        Path(name).unlink(missing_ok=True)
