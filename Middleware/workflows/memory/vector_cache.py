"""The vectors of databases, kept in memory as matrices so that a search reads only what is new.

Source: spec memory.md 8.4, 18.4.
"""

from __future__ import annotations

import logging
import os
import sqlite3
import threading
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from Middleware.utilities import vector_math
from Middleware.utilities.file_utils import beside_the_loop
from Middleware.workflows.memory.vector_store import GROUP, connect_read_only, has_table

logger = logging.getLogger(__name__)

BLOCK_ROWS = 16_384
LIMIT_BYTES = 512 * 1024 * 1024

_ROWS = "SELECT memory_id, vector, rowid FROM memory_embeddings WHERE rowid > ? AND model = ? AND dim = ?"
_STATE = "SELECT count(*), total(memory_id), coalesce(max(rowid), 0) FROM memory_embeddings"
_ADDED = "SELECT count(*), total(memory_id) FROM memory_embeddings WHERE rowid > ?"


@dataclass(frozen=True, slots=True)
class MatrixKey:
    """What a matrix holds. `inode`: a file that was put in the place of another one is another file."""

    path: str
    inode: int
    model: str
    dim: int


@dataclass
class Matrix:
    """The vectors of one key, as of `version` of the database; `blocks`: (ids, matrix) pairs.

    `count`, `id_sum`, `newest`: how many vectors there were of all models, the sum of their memories' ids,
    and the last row. `foreign`: vectors of the model that have another length; `told`: of them.
    """

    connection: sqlite3.Connection
    version: int = -1
    count: int = 0
    id_sum: float = 0.0
    newest: int = 0
    blocks: list[tuple[Any, Any]] = field(default_factory=list)
    too_big: bool = False
    foreign: int = 0
    told: bool = False
    guard: threading.Lock = field(default_factory=threading.Lock)

    @property
    def size(self) -> int:
        return sum(matrix.nbytes + ids.nbytes for ids, matrix in self.blocks)


class VectorCache:
    """Matrices of this process. Thread-safe; searches in different databases do not wait for each other."""

    def __init__(self, limit_bytes: int = LIMIT_BYTES) -> None:
        self._limit = limit_bytes
        self._matrices: OrderedDict[MatrixKey, Matrix] = OrderedDict()
        self._guard = threading.Lock()

    def nearest(self, path: Path, model: str, query: Sequence[float], limit: int) -> vector_math.Ranked:
        """The memories of a database whose vectors of this model are nearest to `query`.

        Vectors of another length are left out. Raises `sqlite3.Error`, OSError.
        """
        if limit < 1:
            return []
        key = MatrixKey(str(path), os.stat(path).st_ino, model, len(query))
        with self._hold_matrix(key, path) as entry:
            found = beside_the_loop(lambda: self._search(entry, key, query, limit))
            _tell_of_foreign(entry, key)
        self._make_room(key)
        return found

    @contextmanager
    def _hold_matrix(self, key: MatrixKey, path: Path) -> Iterator[Matrix]:
        """The matrix of a key, for this thread alone; one that was forgotten meanwhile is loaded again."""
        while True:
            entry = self._entry(key, path)
            with entry.guard:
                if self._matrices.get(key) is entry:
                    yield entry
                    return

    def _entry(self, key: MatrixKey, path: Path) -> Matrix:
        with self._guard:
            entry = self._matrices.get(key)
            if entry is None:
                entry = self._matrices[key] = Matrix(connect_read_only(path, any_thread=True))
            self._matrices.move_to_end(key)
            return entry

    def _make_room(self, newest: MatrixKey) -> None:
        """Forget the least used matrices while all are more than the bound, or more files than 64 are
        open.
        """
        with self._guard:
            while len(self._matrices) > 1 and (
                len(self._matrices) > 64 or sum(entry.size for entry in self._matrices.values()) > self._limit
            ):
                key = next(iter(self._matrices))
                if key == newest:
                    return
                entry = self._matrices.pop(key)
                with entry.guard:
                    entry.connection.close()

    def close(self) -> None:
        """Forget everything."""
        with self._guard:
            for entry in self._matrices.values():
                entry.connection.close()
            self._matrices.clear()

    def _search(
        self, entry: Matrix, key: MatrixKey, query: Sequence[float], limit: int
    ) -> vector_math.Ranked:
        connection = entry.connection
        connection.execute("BEGIN")
        try:
            if not has_table(connection, "memory_embeddings"):
                return []
            if vector_math.numpy_module() is None:
                rows = (
                    (each, vector) for each, vector, _ in connection.execute(_ROWS, (-1, key.model, key.dim))
                )
                return vector_math.rank_rows(query, rows, limit)
            near = self._nearest_ids(entry, key, query, limit)
            return vector_math.rank_rows(query, _stored_vectors(connection, key.model, near), limit)
        finally:
            connection.execute("COMMIT")

    def _nearest_ids(self, entry: Matrix, key: MatrixKey, query: Sequence[float], limit: int) -> list[int]:
        """Ids among which the nearest are, from the matrices or, if these would be too big, from the file."""
        self._refresh(entry, key)
        blocks = _blocks(entry.connection, key, 0) if entry.too_big else entry.blocks
        best: list[tuple[int, float]] = []
        for ids, matrix, *_ in blocks:
            best += vector_math.candidates(query, matrix, ids, limit)
        if len(best) > 4 * limit + 4000:
            best.sort(key=lambda pair: (-pair[1], pair[0]))
            del best[2 * limit + 2000 :]
        return [each for each, _ in best]

    def _refresh(self, entry: Matrix, key: MatrixKey) -> None:
        """Bring a matrix up to date: nothing if nobody wrote, the new rows if rows were only added."""
        connection = entry.connection
        version = connection.execute("PRAGMA data_version").fetchone()[0]
        if version == entry.version:
            return
        count, id_sum, newest = connection.execute(_STATE).fetchone()
        added, added_sum = connection.execute(_ADDED, (entry.newest,)).fetchone()
        was_only_added_to = (count, id_sum) == (entry.count + added, entry.id_sum + added_sum)
        if entry.version == -1 or newest < entry.newest or not was_only_added_to:
            entry.blocks, entry.newest = [], 0
        rows = connection.execute(
            "SELECT count(*) FROM memory_embeddings WHERE model = ?", (key.model,)
        ).fetchone()[0]
        entry.too_big = rows * (key.dim * vector_math.FLOAT_BYTES + 8) > self._limit
        if entry.too_big:
            entry.blocks = []
        else:
            for ids, matrix, _ in _blocks(connection, key, entry.newest):
                _add(entry.blocks, ids, matrix)
            entry.foreign = rows - sum(len(ids) for ids, _ in entry.blocks)
        entry.newest, entry.count, entry.id_sum, entry.version = newest, count, id_sum, version


def _tell_of_foreign(entry: Matrix, key: MatrixKey) -> None:
    """Once: another model has taken the name of the one that made the older vectors, or it was changed."""
    if entry.foreign and not entry.told:
        entry.told = True
        logger.warning(
            "%s: %d vectors of model '%s' are left out, because their length is not %d: the "
            "model has changed",
            key.path,
            entry.foreign,
            key.model,
            key.dim,
        )


def _add(blocks: list[tuple[Any, Any]], ids: Any, matrix: Any) -> None:
    """Put rows at the end; into the last block while that is not full."""
    if blocks and len(blocks[-1][0]) + len(ids) <= BLOCK_ROWS:
        known_ids, known = blocks.pop()
        ids, matrix = vector_math.stack_rows(known_ids, ids), vector_math.stack_rows(known, matrix)
    if len(ids):
        blocks.append((ids, matrix))


def _blocks(connection: sqlite3.Connection, key: MatrixKey, after: int) -> Iterator[tuple[Any, Any, int]]:
    """The vectors behind a row, in blocks: ids, normalised matrix, the last row."""
    cursor = connection.execute(f"{_ROWS} ORDER BY rowid", (after, key.model, key.dim))
    while rows := cursor.fetchmany(BLOCK_ROWS):
        whole = [row for row in rows if len(row[1]) == key.dim * vector_math.FLOAT_BYTES]
        ids = vector_math.matrix_ids([row[0] for row in whole])
        yield ids, vector_math.normalised_matrix([row[1] for row in whole], key.dim), rows[-1][2]


def _stored_vectors(
    connection: sqlite3.Connection, model: str, ids: Sequence[int]
) -> Iterator[tuple[int, bytes]]:
    for start in range(0, len(ids), GROUP):
        part = ids[start : start + GROUP]
        marks = ",".join("?" * len(part))
        yield from connection.execute(
            f"SELECT memory_id, vector FROM memory_embeddings WHERE model = ? AND memory_id IN ({marks})",
            (model, *part),
        )


@cache
def vector_cache() -> VectorCache:
    """The matrices of this process."""
    return VectorCache()
