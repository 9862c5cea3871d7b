"""The vectors of a user's routing examples, kept in a database, so that none is made twice.

Holds hashes and numbers, never a text. What cannot be kept is not kept: a folder that cannot be written, a
full disk or a damaged file cost a warning, and the vectors are made again. Source: spec agents.md 8.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import sqlite3
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path

from Middleware.utilities.file_locks import identity_of, is_damage, set_aside
from Middleware.utilities.vector_math import floats

logger = logging.getLogger(__name__)

BUSY_TIMEOUT_S = 2.0
MOST_ROWS = 20_000
"""So many vectors are kept for a user; those that were made first go."""
_ASKED_AT_ONCE = 500
_TABLE = "CREATE TABLE IF NOT EXISTS vectors (key TEXT PRIMARY KEY, vector BLOB NOT NULL)"


def vector_key(server: str, model: str, text: str) -> str:
    """What a vector is kept under. `server`: the endpoint's addresses; `text`: with its prefix."""
    parts = json.dumps([server, model, text])
    return hashlib.sha256(parts.encode("ascii")).hexdigest()


class RouteVectors:
    """The vectors of one user in one file, made with the first of them. For use by several threads and
    processes. Raises nothing."""

    def __init__(self, database: Path) -> None:
        self.database = database

    def find(self, keys: Iterable[str]) -> dict[str, array[float]]:
        """Those that are kept."""
        if not self.database.exists():
            return {}
        wanted = list(keys)
        found: dict[str, array[float]] = {}
        with self._told_failures("read"), self._open() as sql:
            for start in range(0, len(wanted), _ASKED_AT_ONCE):
                part = wanted[start : start + _ASKED_AT_ONCE]
                marks = ",".join("?" * len(part))
                rows = sql.execute(f"SELECT key, vector FROM vectors WHERE key IN ({marks})", part)
                found |= {key: floats(blob) for key, blob in rows if _is_vector(blob)}
        return found

    def keep(self, vectors: Mapping[str, Sequence[float]]) -> None:
        """Keep more, in place of those of the same key."""
        rows = [(key, array("f", vector).tobytes()) for key, vector in vectors.items()]
        with self._told_failures("kept"), self._open() as sql:
            sql.executemany("INSERT OR REPLACE INTO vectors VALUES (?, ?)", rows)
            sql.execute(
                "DELETE FROM vectors WHERE rowid <= (SELECT max(rowid) FROM vectors) - ?", (MOST_ROWS,)
            )

    def forget(self, keys: Iterable[str]) -> None:
        """What is kept under these is good for nothing any more."""
        with self._told_failures("forgotten"), self._open() as sql:
            sql.executemany("DELETE FROM vectors WHERE key = ?", [(key,) for key in keys])

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        """One transaction. A damaged file is deleted: all that was in it can be made again."""
        self.database.parent.mkdir(parents=True, exist_ok=True)
        with suppress(FileExistsError):
            os.close(os.open(self.database, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
        seen = identity_of(self.database)
        try:
            with closing(sqlite3.connect(self.database, timeout=BUSY_TIMEOUT_S)) as sql, sql:
                sql.execute(_TABLE)
                yield sql
        except sqlite3.Error as error:
            if is_damage(error) and (aside := set_aside(self.database, seen)) is not None:
                aside.unlink(missing_ok=True)
            raise

    @contextmanager
    def _told_failures(self, what: str) -> Iterator[None]:
        try:
            yield
        except (sqlite3.Error, OSError) as error:
            logger.warning(
                "the vectors of routing examples could not be %s: %s: %s", what, self.database, error
            )


def _is_vector(blob: object) -> bool:
    return isinstance(blob, bytes) and bool(blob) and len(blob) % 4 == 0
