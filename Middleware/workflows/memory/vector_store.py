"""The database of a discussion's vector memories: its tables, what is written into it, what is read from it.

Searching is `vector_search.py`. One chunk of messages is stored in one transaction, so that a crash can
neither lose nor repeat it. What is the newest follows the order of the rows, never a time: clocks go wrong.
A reader makes no file. Source: spec memory.md 8.1, 8.2, 18.1 (7), 18.2 (9, 10, 16, 21, 23, 24), 18.5.
"""

from __future__ import annotations

import json
import logging
import os
import sqlite3
import tempfile
from array import array
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any
from urllib.parse import quote

from Middleware.services.discussion_store import VECTOR_DATABASE, DiscussionStore
from Middleware.utilities.hashing_utils import sha256_hex
from Middleware.workflows.memory import vector_rows, vector_tables
from Middleware.workflows.memory.extraction import fold_case
from Middleware.workflows.memory.vector_tables import DEFINITIONS, OUR_TABLES, StateReach

logger = logging.getLogger(__name__)

BUSY_TIMEOUT_MS = 5000
MAX_RETRIES = 3
"""How often a chunk that gave no memory is tried again on later runs."""
_ANY_READ = "SELECT 1 FROM sqlite_master LIMIT 1"
GROUP = 500
"""Ids in one statement."""

_LACKING = "LEFT JOIN memory_embeddings e ON e.memory_id = m.id AND e.model = ? WHERE e.memory_id IS NULL"


@dataclass(frozen=True, slots=True)
class ChunkRecord:
    """A chunk of messages: its hash (of its last message), and the hashes of all its messages."""

    hash: str
    messages: tuple[str, ...]

    @property
    def with_unique_name(self) -> ChunkRecord:
        """The same under a name that no other chunk has: several may end with the same words."""
        return ChunkRecord(self.name, self.messages)

    @property
    def name(self) -> str:
        """Of all its messages."""
        return sha256_hex("\n".join(self.messages))


@dataclass(frozen=True, slots=True)
class Failure:
    """A chunk that gave no memory yet, by a name of its own. `error`: why; "" when a later try succeeded."""

    chunk: ChunkRecord
    attempts: int
    error: str

    @property
    def may_be_tried(self) -> bool:
        return bool(self.error) and self.attempts <= MAX_RETRIES


class NotADatabaseOfMemories(ValueError):
    """The file is something else; it is never changed."""

    def __init__(self, path: Path) -> None:
        super().__init__(f"{path} is not a database of memories and was left unchanged")


class VectorDatabase:
    """The vector memories of a discussion. Making one touches no disk. Methods raise `sqlite3.Error`,
    OSError,
    NotADatabaseOfMemories.
    """

    def __init__(self, store: DiscussionStore) -> None:
        self._store = store

    @property
    def path(self) -> Path:
        return self._store.path(VECTOR_DATABASE)

    @property
    def exists(self) -> bool:
        return os.path.exists(self.path)

    @contextmanager
    def reading(self) -> Iterator[Log]:
        """What the database knows of chunks; an empty log when there is no database."""
        if not self.exists:
            yield Log(None, self._store.discussion_id)
            return
        with closing(connect_read_only(self.path)) as connection:
            yield Log(connection, self._store.discussion_id)

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """A transaction on a database that has all tables; made if need be, of mode 0600."""
        self._store.make_folder()
        self._store.settle()
        path = self.path
        with suppress(FileExistsError):
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
        with closing(sqlite3.connect(path, isolation_level=None)) as connection:
            connection.execute(f"PRAGMA busy_timeout = {BUSY_TIMEOUT_MS}")
            connection.execute("PRAGMA trusted_schema = OFF")
            self._prepare(connection, path)
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield connection
            except BaseException:
                connection.execute("ROLLBACK")
                raise
            connection.execute("COMMIT")

    def _prepare(self, connection: sqlite3.Connection, path: Path) -> None:
        tables = tables_of(connection)
        if tables and "memories" not in tables:
            raise NotADatabaseOfMemories(path)
        if not tables:
            with self._store.lock():
                connection.execute("PRAGMA journal_mode = WAL")
        if connection.execute("PRAGMA journal_mode").fetchone()[0] == "wal":
            connection.execute("PRAGMA synchronous = NORMAL")
        if not tables >= OUR_TABLES:
            connection.executescript(f"BEGIN IMMEDIATE; {DEFINITIONS} COMMIT;")

    def save(
        self,
        chunk: ChunkRecord,
        memories: Sequence[Mapping[str, Any]],
        *,
        after: str | None,
        index_topics: bool = False,
        retried: bool = False,
        document: bool = False,
    ) -> dict[int, str] | None:
        """Store a chunk's memories and that it is done, all or nothing; the new ones, id -> text.

        A memory that is already stored for the chunk is left out. None: nothing was stored, the newest chunk
        is not `after` any more. `retried`: a chunk that failed before, under its name there; it does not
        become the newest one, and messages that are not among its own any more are forgotten. `document`:
        there is a state document, which must get to know these memories.
        """
        with self.writing() as connection:
            log = Log(connection, self._store.discussion_id)
            if log.newest() != after:
                return None
            vector_tables.begin(connection, wanted=document)
            name = chunk.hash if retried else chunk.name
            known = {fold_case(text) for text in log.texts_of(name)}
            new = [memory for memory in memories if fold_case(memory["summary"]) not in known]
            stored = {self._insert(connection, memory, index_topics): memory["summary"] for memory in new}
            connection.executemany(
                "INSERT OR REPLACE INTO memory_sources (memory_id, chunk_name) VALUES (?, ?)",
                [(each, name) for each in stored],
            )
            if retried:
                connection.execute("DELETE FROM memory_chunks WHERE chunk_hash = ?", (chunk.hash,))
            _remember_chunk(connection, chunk)
            if retried:
                connection.execute(
                    "UPDATE memory_failures SET last_error = '' WHERE chunk_hash = ?", (chunk.hash,)
                )
            else:
                connection.execute(
                    "INSERT INTO vector_memory_hash_log (discussion_id, message_hash, timestamp) "
                    "VALUES (?, ?, ?)",
                    (self._store.discussion_id, chunk.hash, now_text()),
                )
            return stored

    def record_failure(self, chunk: ChunkRecord, error: str) -> int:
        """Remember that a chunk gave no memory; how often that was."""
        with self.writing() as connection:
            if not Log(connection, self._store.discussion_id).messages_of(chunk.hash):
                _remember_chunk(connection, chunk)
            connection.execute(
                "INSERT INTO memory_failures (chunk_hash, attempts, last_error) VALUES (?, 1, ?)"
                " ON CONFLICT (chunk_hash) DO UPDATE SET attempts = attempts + 1, last_error = "
                "excluded.last_error",
                (chunk.hash, error),
            )
            row = connection.execute(
                "SELECT attempts FROM memory_failures WHERE chunk_hash = ?", (chunk.hash,)
            )
            return int(row.fetchone()[0])

    def _insert(self, connection: sqlite3.Connection, memory: Mapping[str, Any], index_topics: bool) -> int:
        text = memory["summary"]
        cursor = connection.execute(
            "INSERT INTO memories (id, discussion_id, memory_text, date_added, metadata_json) VALUES (?, "
            "?, ?, ?, ?)",
            (
                vector_tables.next_memory(connection),
                self._store.discussion_id,
                text,
                now_text(),
                json.dumps(memory),
            ),
        )
        phrases = index_text(memory.get("key_phrases"))
        if index_topics and (topics := index_text(memory.get("topics"))):
            phrases = f"{phrases} {topics}"
        connection.execute(
            "INSERT INTO memories_fts (rowid, title, summary, entities, key_phrases, memory_text_unweighted)"
            " VALUES (?, ?, ?, ?, ?, ?)",
            (
                cursor.lastrowid,
                memory.get("title", ""),
                text,
                index_text(memory.get("entities")),
                phrases,
                text,
            ),
        )
        assert cursor.lastrowid is not None  # an INSERT has one
        return cursor.lastrowid

    def unmerged_memories(self) -> tuple[StateReach | None, list[tuple[int, str]]]:
        """How far the state document knows the memories, and those (id, text) that it does not know."""
        if not self.exists:
            return None, []
        with closing(connect_read_only(self.path)) as connection:
            known = has_table(connection, "state_document_reach")
            reach = vector_tables.read_reach(connection) if known else None
            return reach, vector_tables.waiting(connection, reach) if reach is not None else []

    def mark_merged(self, reach: StateReach) -> None:
        """Remember how far the state document knows the memories."""
        with self.writing() as connection:
            vector_tables.write(connection, reach)

    def pass_over(self, chunks: Sequence[ChunkRecord]) -> None:
        """Have no memories made of these chunks, which are in no log."""
        if not chunks:
            return
        with self.writing() as connection:
            for chunk in chunks:
                if not Log(connection, self._store.discussion_id).messages_of(chunk.hash):
                    _remember_chunk(connection, chunk)

    def try_failures_again(self) -> None:
        """Let chunks that gave no memory be tried as often as new ones."""
        if self.exists:
            with self.writing() as connection:
                connection.execute("UPDATE memory_failures SET attempts = 0 WHERE last_error <> ''")

    def count(self) -> int:
        """How many memories there are; 0 also in a file that is no database of memories."""
        if not self.exists:
            return 0
        with closing(connect_read_only(self.path)) as connection:
            return _count(connection, "memories") if has_table(connection, "memories") else 0

    def count_lacking(self, model: str) -> int:
        """How many memories have no vector of this model."""
        with closing(connect_read_only(self.path)) as connection:
            if not has_table(connection, "memory_embeddings"):
                return _count(connection, "memories")
            counted = _counted_lacking(connection, model)
            if counted is not None:
                return counted
            statement = f"SELECT count(*) FROM memories m {_LACKING}"
            return int(connection.execute(statement, (model,)).fetchone()[0])

    def without_vector(self, model: str, limit: int, leave_out: Iterable[int] = ()) -> list[tuple[int, str]]:
        """Up to `limit` memories (id, text) that have no vector of this model, oldest first."""
        left_out = set(leave_out)
        with closing(connect_read_only(self.path)) as connection:
            has_vectors = has_table(connection, "memory_embeddings")
            if has_vectors and _counted_lacking(connection, model) == 0:
                return []
            lacking, values = (_LACKING, (model,)) if has_vectors else ("", ())
            rows = connection.execute(
                f"SELECT m.id, m.memory_text FROM memories m {lacking} ORDER BY m.id LIMIT ?",
                (*values, limit + len(left_out)),
            ).fetchall()
        return [(each, text) for each, text in rows if each not in left_out][:limit]

    def save_vectors(self, model: str, vectors: Mapping[int, Sequence[float]]) -> None:
        """Store vectors by memory id, in place of older ones of this model."""
        with self.writing() as connection:
            connection.executemany(
                "INSERT OR REPLACE INTO memory_embeddings (memory_id, model, dim, vector) VALUES (?, "
                "?, ?, ?)",
                [(each, model, len(v), array("f", v).tobytes()) for each, v in vectors.items()],
            )


class Log:
    """What a database knows of the chunks that were done; without a connection: nothing."""

    def __init__(self, connection: sqlite3.Connection | None, discussion_id: str) -> None:
        self._connection, self._discussion_id = connection, discussion_id

    def chunk_hashes(self) -> Iterator[str]:
        """Hashes of the chunks that are done, newest first."""
        yield from self._column(
            "vector_memory_hash_log",
            "SELECT message_hash FROM vector_memory_hash_log WHERE discussion_id = ? ORDER BY id DESC",
            self._discussion_id,
        )

    def newest(self) -> str | None:
        return next(self.chunk_hashes(), None)

    def chunks(self) -> list[tuple[str | None, ...]]:
        """The messages of the chunks that are done, oldest chunk first; each ends with its hash. One that
        another program stored is only known by its end; before that stands None.
        """
        names = [*self.chunk_hashes()][::-1]
        stored = self._messages
        parts = {
            name: vector_tables.parts_of(stored.get(name, ()), name, count)
            for name, count in Counter(names).items()
        }
        return [parts[name].popleft() for name in names]

    def chunks_beside(self, failures: Sequence[Failure]) -> list[tuple[str, ...]]:
        """The messages of chunks that are in no log: first those that failed, as they are given, then others
        that are known.
        """
        names = {*self.chunk_hashes(), *(failure.chunk.hash for failure in failures)}
        rest = [tuple(messages) for name, messages in self._messages.items() if name not in names]
        return [*(failure.chunk.messages for failure in failures), *rest]

    @cached_property
    def _messages(self) -> dict[str, list[str]]:
        """The hash of each chunk -> those of its messages, in order."""
        found: dict[str, list[str]] = defaultdict(list)
        if self._connection is not None and self._has("memory_chunks"):
            statement = "SELECT chunk_hash, message_hash FROM memory_chunks ORDER BY chunk_hash, ord"
            for name, message in self._connection.execute(statement):
                found[name].append(message)
        return found

    def texts_of(self, name: str) -> Iterator[str]:
        """The memories that are stored for a chunk; none that another program stored."""
        return self._column(
            "memory_sources",
            "SELECT m.memory_text FROM memory_sources s JOIN memories m ON m.id = s.memory_id "
            "WHERE s.chunk_name = ?",
            name,
        )

    def failures(self) -> list[Failure]:
        """The chunks that ever failed, in order of the first failure."""
        if self._connection is None or not self._has("memory_failures"):
            return []
        rows = self._connection.execute(
            "SELECT chunk_hash, attempts, last_error FROM memory_failures ORDER BY rowid"
        ).fetchall()
        return [
            Failure(ChunkRecord(covered, tuple(self._messages.get(covered, ()))), attempts, error)
            for covered, attempts, error in rows
        ]

    def forgotten_chunks(self) -> list[ChunkRecord]:
        """The chunks of which a memory was forgotten, by names that no other chunk has."""
        names = self._column("memory_forgotten", "SELECT DISTINCT chunk_name FROM memory_forgotten")
        logged = {
            sha256_hex("\n".join(each)): each
            for chunk in self.chunks()
            if (each := vector_tables.known_messages(chunk))
        }
        found = ((name, logged.get(name) or self.messages_of(name)) for name in names)
        return [ChunkRecord(name, messages) for name, messages in found if messages]

    def messages_of(self, covered: str) -> tuple[str, ...]:
        """Hashes of the messages of a chunk, in order; none if it was stored by another program."""
        hashes = self._column(
            "memory_chunks",
            "SELECT message_hash FROM memory_chunks WHERE chunk_hash = ? ORDER BY ord",
            covered,
        )
        return tuple(hashes)

    def _column(self, table: str, statement: str, *values: str) -> Iterator[str]:
        if self._connection is not None and self._has(table):
            for (value,) in self._connection.execute(statement, values):
                yield value

    def _has(self, table: str) -> bool:
        return self._connection is not None and has_table(self._connection, table)


def _counted_lacking(connection: sqlite3.Connection, model: str) -> int | None:
    """How many memories lack a vector, told by counting alone (an index each, no row is read).

    None: it cannot be told so: memories were deleted, and vectors may be of such.
    """

    def one(statement: str, *values: str) -> Any:
        return connection.execute(statement, values).fetchone()[0]

    memories = _count(connection, "memories")
    if not memories:
        return 0
    first, last = one("SELECT min(id) FROM memories"), one("SELECT max(id) FROM memories")
    vectors = "FROM memory_embeddings"
    low, high = one(f"SELECT min(memory_id) {vectors}"), one(f"SELECT max(memory_id) {vectors}")
    if low is None:
        return memories
    if last - first + 1 != memories or low < first or high > last:
        return None
    return memories - int(one(f"SELECT count(*) {vectors} WHERE model = ?", model))


def _count(connection: sqlite3.Connection, table: str) -> int:
    return int(connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0])


def _remember_chunk(connection: sqlite3.Connection, chunk: ChunkRecord) -> None:
    """Two chunks that end with the same words share one hash; the messages of both follow one another."""
    statement = "SELECT coalesce(max(ord) + 1, 0) FROM memory_chunks WHERE chunk_hash = ?"
    first = connection.execute(statement, (chunk.hash,)).fetchone()[0]
    connection.executemany(
        "INSERT INTO memory_chunks (chunk_hash, message_hash, ord) VALUES (?, ?, ?)",
        [(chunk.hash, each, place) for place, each in enumerate(chunk.messages, first)],
    )


def tables_of(connection: sqlite3.Connection) -> set[str]:
    return {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}


def connect_read_only(path: Path, *, any_thread: bool = False) -> sqlite3.Connection:
    """A connection that can change nothing and makes no database. Raises `sqlite3.Error`.

    What a killed writer left half done is undone first: who may only read cannot do that.
    """
    connection = _connect(path, "ro", any_thread=any_thread)
    try:
        try:
            connection.execute(_ANY_READ).fetchone()
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_READONLY:
                raise
            with closing(_connect(path, "rw")) as mending:
                mending.execute(_ANY_READ).fetchone()
    except BaseException:
        connection.close()
        raise
    return connection


def _connect(path: Path, mode: str, *, any_thread: bool = False) -> sqlite3.Connection:
    uri = f"file:{quote(str(path.absolute()))}?mode={mode}"
    connection = sqlite3.connect(uri, uri=True, isolation_level=None, check_same_thread=not any_thread)
    connection.execute(f"PRAGMA busy_timeout = {BUSY_TIMEOUT_MS}")
    connection.execute("PRAGMA trusted_schema = OFF")
    return connection


def has_table(connection: sqlite3.Connection, name: str) -> bool:
    row = connection.execute(
        "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?", (name,)
    ).fetchone()
    return row is not None


def index_text(value: Any) -> str:
    """A list as the text that is indexed: its items, without double quotes, side by side."""
    if isinstance(value, list):
        return " ".join(str(item).replace('"', "") for item in value)
    return str(value) if value else ""


def now_text() -> str:
    """Now, UTC, as dates stand in the database."""
    return datetime.now(UTC).isoformat(timespec="microseconds")


# --------------------------------------------------------------------------
# One database of vector memories gets what another one has, in one step, under whoever uses it.


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
    """Replace what is in `place` by what is in `new`. Memories that were copied from another discussion stay,
    and so does what is left of a chunk of which a memory was forgotten. A pin stays where its text does.

    What was there is kept as `<name>.bak`, a damaged file as `<name>.corrupt-<time>`. Raises `sqlite3.Error`,
    OSError, NotADatabaseOfMemories.
    """
    put_damaged_aside(place)
    if place.exists:
        _back_up(place.path)
    with closing(connect_read_only(new.path)) as source, place.writing() as target:
        waiting = _waiting_for_document(target)
        kept, pinned = vector_rows.lasting_rows(target), vector_rows.pinned_texts(target)
        _replace_tables(source, target, len(kept))
        vector_rows.insert_rows(target, kept, 1)
        vector_rows.pin_texts(target, pinned)
        if waiting is not None:
            vector_tables.write(target, StateReach(max(0, vector_tables.newest_memory(target) - waiting)))


def _replace_tables(source: sqlite3.Connection, target: sqlite3.Connection, room: int) -> None:
    """`room`: so many ids before those of the new memories stay free."""
    newest = target.execute("SELECT max(rowid) FROM memory_embeddings").fetchone()[0] or 0
    target.execute("DELETE FROM memory_pins")
    for table, columns in _COPIED.items():
        values = columns.split(", ")
        if table in vector_rows.ID_COLUMNS:
            values[values.index(vector_rows.ID_COLUMNS[table])] += f" + {room}"
        if table == "memory_embeddings":
            # no vector gets a row number that was in use: who keeps vectors sees by it what is new
            values[0] += f" + {newest}"
        marks = ", ".join("?" * len(values))
        target.execute(f"DELETE FROM {table}")
        target.executemany(
            f"INSERT INTO {table} ({columns}) VALUES ({marks})",
            source.execute(f"SELECT {', '.join(values)} FROM {table} ORDER BY rowid"),
        )


def _waiting_for_document(connection: sqlite3.Connection) -> int | None:
    """How many memories the state document lacks; as many of the newest are then given to it. None: there is
    no document.
    """
    reach = vector_tables.read_reach(connection)
    return None if reach is None else len(vector_tables.waiting(connection, reach))


def put_damaged_aside(place: VectorDatabase) -> None:
    """Rename a damaged file. Raises NotADatabaseOfMemories, OSError, `sqlite3.OperationalError`."""
    if not is_sound(place):
        _put_aside(place.path)


def _put_aside(path: Path) -> None:
    aside = f"{path.name}.corrupt-{datetime.now():%Y%m%d-%H%M%S-%f}"
    for tail in ("", "-wal", "-shm"):
        with suppress(FileNotFoundError):
            os.replace(path.with_name(path.name + tail), path.with_name(aside + tail))
    logger.error("%s was damaged and has been renamed to %s", path, aside)


def _back_up(path: Path) -> None:
    handle, name = tempfile.mkstemp(".tmp", f".{path.name}.", path.parent)
    os.close(handle)
    try:
        with closing(connect_read_only(path)) as source, closing(sqlite3.connect(name)) as copy:
            source.backup(copy)
        os.replace(name, path.with_name(path.name + ".bak"))
    finally:
        Path(name).unlink(missing_ok=True)
