"""What the workers of one machine share: a SQLite file. Whoever waits for messages asks every `POLL_S`.

Each call is one short transaction. Nothing needs to outlive the processes, so nothing is synced to the disk.
"""

from __future__ import annotations

import logging
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from Middleware.services.shared_state.budgets import Bucket, Sums, merge_sums, refill, take_from
from Middleware.services.shared_state.store import (
    LEASE_S,
    MESSAGE_LIFE_S,
    MOST_NOTES,
    NOTE_LIFE_S,
    Forgotten,
    Note,
    Places,
    StoreLost,
)
from Middleware.services.shared_state.turns import (
    NOTHING,
    Ask,
    Queue,
    Rounds,
    Row,
    grow_rows,
    may_take_spare_turn,
    next_turns,
)
from Middleware.utilities.file_locks import Identity, identity_of, is_damage, set_aside

logger = logging.getLogger(__name__)

POLL_S = 0.05
BUSY_TIMEOUT_S = 1.0
"""Transactions take well under a millisecond: who waits so long for one has no working file."""
BLOCK_S = 0.02
"""So long SQLite itself waits, in which a worker of gevent does nothing else; the rest is slept away."""
_PEOPLE = ""
"""In the place of a name in LastTurns: how many turns in a row went to people."""

_TABLES = """
CREATE TABLE IF NOT EXISTS Members (Owner TEXT PRIMARY KEY, Beat REAL);
CREATE TABLE IF NOT EXISTS Records (Kind TEXT, Key TEXT, Owner TEXT, Value TEXT, PRIMARY KEY (Kind, Key));
CREATE TABLE IF NOT EXISTS Places (
    Number INTEGER PRIMARY KEY AUTOINCREMENT, Gate TEXT, Ticket TEXT, Owner TEXT, State TEXT,
    UNIQUE (Gate, Ticket));
CREATE INDEX IF NOT EXISTS PlacesByState ON Places (Gate, State, Number);
CREATE TABLE IF NOT EXISTS Asks (
    Gate TEXT, Ticket TEXT, Machine TEXT, Model TEXT, Name TEXT, Background INTEGER, Came REAL,
    PRIMARY KEY (Gate, Ticket));
CREATE TABLE IF NOT EXISTS MachineRows (
    Gate TEXT, Machine TEXT, Model TEXT, Turns INTEGER, PRIMARY KEY (Gate, Machine));
CREATE TABLE IF NOT EXISTS LastTurns (Gate TEXT, Name TEXT, Number INTEGER, PRIMARY KEY (Gate, Name));
CREATE TABLE IF NOT EXISTS Buckets (Name TEXT PRIMARY KEY, Level REAL, At REAL);
CREATE TABLE IF NOT EXISTS Days (
    Name TEXT, Day TEXT, What TEXT, Total INTEGER, PRIMARY KEY (Name, Day, What));
CREATE TABLE IF NOT EXISTS Messages (Number INTEGER PRIMARY KEY AUTOINCREMENT, Text TEXT, Told REAL);
CREATE TABLE IF NOT EXISTS Notes (
    Number INTEGER PRIMARY KEY AUTOINCREMENT, Shelf TEXT, Key TEXT, Value TEXT, Written REAL,
    UNIQUE (Shelf, Key));
CREATE TABLE IF NOT EXISTS Marks (Note INTEGER, Mark TEXT, PRIMARY KEY (Note, Mark));
CREATE INDEX IF NOT EXISTS NotesByMark ON Marks (Mark);
"""


class SqliteStore:
    """The view of one owner. The file and its folder are made on first use, a damaged one is replaced.

    `clock`: seconds, the same in all processes of the machine. It is one that nobody sets: a jump of the time
    of day would make all of them dead, or a killed one immortal.
    """

    shared, many_machines = True, False

    def __init__(self, file: Path, owner: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._file, self._owner, self._clock = file, owner, clock
        self._lock = threading.Lock()
        self._connection: sqlite3.Connection | None = None
        self._opened: Identity | None = None
        """Which file the connection is to: what stands under its name may have become another."""
        self._read = 0
        """Number of the last message that was heard."""

    def join(self) -> None:
        with self._transaction() as sql:
            self._drop(sql, [(self._owner,)])
            sql.execute("INSERT INTO Members VALUES (?, ?)", (self._owner, self._clock()))
        self._read = 0

    def beat(self) -> bool:
        self._check_file()
        with self._transaction() as sql:
            self._bury(sql)
            sql.execute("DELETE FROM Messages WHERE Told < ?", (self._clock() - MESSAGE_LIFE_S,))
            found = sql.execute(
                "UPDATE Members SET Beat = ? WHERE Owner = ?", (self._clock(), self._owner)
            ).rowcount
        return found > 0

    def put(self, kind: str, key: str, value: str) -> str | None:
        with self._transaction() as sql:
            self._check_known(sql)
            before = self._living_record(sql, kind, key)
            self._write(sql, kind, key, value)
        return before[1] if before else None

    def add(self, kind: str, key: str, value: str) -> bool:
        with self._transaction() as sql:
            self._check_known(sql)
            before = self._living_record(sql, kind, key)
            if before is None:
                self._write(sql, kind, key, value)
        return before in (None, (self._owner, value))

    def find(self, kind: str, key: str) -> str | None:
        with self._transaction("DEFERRED") as sql:
            found = self._living_record(sql, kind, key)
        return found[1] if found else None

    def remove(self, kind: str, key: str, value: str) -> None:
        with self._transaction() as sql:
            sql.execute(
                "DELETE FROM Records WHERE Kind = ? AND Key = ? AND Owner = ? AND Value = ?",
                (kind, key, self._owner, value),
            )

    def _living_record(self, sql: sqlite3.Connection, kind: str, key: str) -> tuple[str, str] | None:
        found: tuple[str, str] | None = sql.execute(
            "SELECT Records.Owner, Value FROM Records JOIN Members USING (Owner)"
            " WHERE Kind = ? AND Key = ? AND Beat >= ?",
            (kind, key, self._clock() - LEASE_S),
        ).fetchone()
        return found

    def _write(self, sql: sqlite3.Connection, kind: str, key: str, value: str) -> None:
        sql.execute("INSERT OR REPLACE INTO Records VALUES (?, ?, ?, ?)", (kind, key, self._owner, value))

    def turns(
        self,
        gate: str,
        limit: int,
        places: Places,
        one_model: bool = False,
        when_queued: Callable[[], object] | None = None,
    ) -> list[str]:
        with self._transaction() as sql:
            self._bury(sql)
            self._check_known(sql)
            if places != Places():
                self._place(sql, gate, places)
            queue, owners = _queue_of(sql, gate, limit, one_model, self._clock())
            turns = next_turns(queue)
            mine = [ticket for ticket in turns if owners[ticket] == self._owner]
            _set_state(sql, gate, "holds", mine)
            if queue.asks and mine:
                _write_turns(sql, gate, queue, mine)
            if places.leave and len(mine) < len(turns):
                self._tell(sql, f"gate {gate}")
            mine += [ticket for ticket in places.spare if self._took_spare_turn(sql, gate, ticket, queue)]
        return mine

    def _took_spare_turn(self, sql: sqlite3.Connection, gate: str, ticket: str, queue: Queue) -> bool:
        queue, _ = _queue_of(sql, gate, queue.limit, queue.one_model, self._clock())
        took = may_take_spare_turn(queue, queue.asks.get(ticket))
        if took:
            insert = "INSERT OR IGNORE INTO Places (Gate, Ticket, Owner, State) VALUES (?, ?, ?, 'holds')"
            sql.execute(insert, (gate, ticket, self._owner))
        else:
            sql.execute("DELETE FROM Asks WHERE Gate = ? AND Ticket = ?", (gate, ticket))
        return took

    def _place(self, sql: sqlite3.Connection, gate: str, places: Places) -> None:
        sql.execute(
            "DELETE FROM LastTurns WHERE Gate = ? AND NOT EXISTS (SELECT 1 FROM Places WHERE Gate = ?)",
            (gate, gate),
        )
        for table in ("Places", "Asks"):
            sql.executemany(
                f"DELETE FROM {table} WHERE Gate = ? AND Ticket = ?",
                [(gate, ticket) for ticket in places.leave],
            )
        sql.executemany(
            "INSERT INTO Asks VALUES (?, ?, ?, ?, ?, ?, ?)"
            " ON CONFLICT (Gate, Ticket) DO UPDATE SET Machine = excluded.Machine, Model = excluded.Model,"
            " Name = excluded.Name, Background = excluded.Background",
            [(gate, ticket, *ask, self._clock()) for ticket, ask in places.asks.items()],
        )
        sql.executemany(
            "DELETE FROM Places WHERE Gate = ? AND Ticket = ? AND State = 'behind'",
            [(gate, ticket) for ticket in (*places.wait, *places.hold)],
        )
        for state, tickets in (("holds", places.hold), ("waits", places.wait), ("behind", places.behind)):
            sql.executemany(
                "INSERT OR IGNORE INTO Places (Gate, Ticket, Owner, State) VALUES (?, ?, ?, ?)",
                [(gate, ticket, self._owner, state) for ticket in tickets],
            )
        _set_state(sql, gate, "holds", list(places.hold))

    def waiting(self, gate: str, before: str = "", name: str | None = None) -> int:
        with self._transaction("DEFERRED") as sql:
            count = sql.execute(
                "SELECT COUNT(*) FROM Places JOIN Members USING (Owner) LEFT JOIN Asks USING (Gate, Ticket)"
                " WHERE Gate = ? AND State = 'waits' AND Beat >= ? AND (? = '' OR Number <"
                " (SELECT Number FROM Places WHERE Gate = ? AND Ticket = ? AND State = 'waits'))"
                " AND (? IS NULL OR COALESCE(Name, '') = ?)",
                (gate, self._clock() - LEASE_S, before, gate, before, name, name),
            ).fetchone()
        return int(count[0])

    def holding(self, gates: Sequence[str]) -> list[int]:
        with self._transaction("DEFERRED") as sql:
            counts = [
                sql.execute(
                    "SELECT COUNT(*) FROM Places JOIN Members USING (Owner)"
                    " WHERE Gate = ? AND State = 'holds' AND Beat >= ?",
                    (gate, self._clock() - LEASE_S),
                ).fetchone()
                for gate in gates
            ]
        return [int(count[0]) for count in counts]

    def keep_note(self, shelf: str, note: Note) -> None:
        with self._transaction() as sql:
            _remove_notes(sql, "Shelf = ? AND Key = ?", (shelf, note.key))
            number = sql.execute(
                "INSERT INTO Notes (Shelf, Key, Value, Written) VALUES (?, ?, ?, ?)",
                (shelf, note.key, note.value, self._clock()),
            ).lastrowid
            sql.executemany("INSERT INTO Marks VALUES (?, ?)", [(number, mark) for mark in note.marks])
            _remove_notes(
                sql,
                "Written < ? OR Number <= (SELECT Number FROM Notes ORDER BY Number DESC LIMIT 1 OFFSET ?)",
                (self._clock() - NOTE_LIFE_S, MOST_NOTES),
            )

    def find_note(self, shelf: str, key: str) -> str | None:
        with self._transaction("DEFERRED") as sql:
            found = sql.execute(
                "SELECT Value FROM Notes WHERE Shelf = ? AND Key = ? AND Written >= ?",
                (shelf, key, self._clock() - NOTE_LIFE_S),
            ).fetchone()
        return found[0] if found else None

    def nearest_note(self, shelf: str, marks: Sequence[str]) -> tuple[str, str] | None:
        with self._transaction("DEFERRED") as sql:
            found: tuple[str, str] | None = sql.execute(
                "SELECT Key, Value FROM Notes JOIN Marks ON Note = Number"
                f" WHERE Mark IN ({','.join('?' * len(marks))}) AND Shelf = ? AND Written >= ?"
                " GROUP BY Number ORDER BY COUNT(*) DESC, Number DESC LIMIT 1",
                (*marks, shelf, self._clock() - NOTE_LIFE_S),
            ).fetchone()
        return found

    def crowd(self, gate: str, key: str) -> tuple[int, int]:
        with self._transaction("DEFERRED") as sql:
            inside, waiting = sql.execute(
                "SELECT TOTAL(State = 'holds'), TOTAL(State <> 'holds') FROM Places"
                " JOIN Members USING (Owner) JOIN Asks USING (Gate, Ticket) WHERE Gate = ? AND Beat >= ?"
                " AND (Name = ? OR substr(Name, 1, ?) = ?)",
                (gate, self._clock() - LEASE_S, key, len(key) + 1, f"{key} "),
            ).fetchone()
        return int(inside), int(waiting)

    def take(self, name: str, size: int, at_most: float, wanted: int = 1) -> Bucket:
        with self._transaction() as sql:
            now = self._clock()
            find = "SELECT Level, At FROM Buckets WHERE Name = ?"
            level, at = sql.execute(find, (name,)).fetchone() or (float(size), now)
            taken = take_from(min(refill(level, size, now - at), at_most), wanted)
            sql.execute("INSERT OR REPLACE INTO Buckets VALUES (?, ?, ?)", (name, taken.level, now))
        return taken

    def count(self, name: str, day: str, amounts: Mapping[str, int], known: Mapping[str, int]) -> Sums:
        with self._transaction() as sql:
            find = "SELECT What, Total FROM Days WHERE Name = ? AND Day = ?"
            before: Sums = dict(sql.execute(find, (name, day)).fetchall())
            sums = dict(before)
            merge_sums(sums, amounts, known)
            if sums != before:
                sql.execute("DELETE FROM Days WHERE Name = ? AND Day < ?", (name, day))
                rows = [(name, day, what, total) for what, total in sums.items()]
                sql.executemany("INSERT OR REPLACE INTO Days VALUES (?, ?, ?, ?)", rows)
        return sums

    def tell(self, message: str) -> None:
        with self._transaction() as sql:
            self._tell(sql, message)

    def _tell(self, sql: sqlite3.Connection, message: str) -> None:
        sql.execute("INSERT INTO Messages (Text, Told) VALUES (?, ?)", (message, self._clock()))

    def receive(self, wait_s: float) -> list[str]:
        end = time.monotonic() + wait_s
        while not (news := self._news()) and (left := end - time.monotonic()) > 0:
            time.sleep(min(POLL_S, left))
        return news

    def close(self) -> None:
        """Let the file go. Another call opens it again."""
        with self._lock:
            self._drop_connection()

    def _news(self) -> list[str]:
        with self._transaction("DEFERRED") as sql:
            rows = sql.execute("SELECT Number, Text FROM Messages WHERE Number > ?", (self._read,)).fetchall()
        if rows:
            self._read = rows[-1][0]
        return [text for _, text in rows]

    def _bury(self, sql: sqlite3.Connection) -> None:
        """What the dead left is gone."""
        end = self._clock() - LEASE_S
        if dead := sql.execute("SELECT Owner FROM Members WHERE Beat < ?", (end,)).fetchall():
            self._drop(sql, dead)

    def _check_known(self, sql: sqlite3.Connection) -> None:
        if sql.execute("SELECT 1 FROM Members WHERE Owner = ?", (self._owner,)).fetchone() is None:
            raise Forgotten(f"{self._file}: {self._owner} has not joined")

    def _drop(self, sql: sqlite3.Connection, owners: list[tuple[str]]) -> None:
        """Forget processes; those who waited for what they held are told."""
        gates = sql.execute("SELECT DISTINCT Gate FROM Places").fetchall()
        for table in ("Records", "Places", "Members"):
            sql.executemany(f"DELETE FROM {table} WHERE Owner = ?", owners)
        sql.execute("DELETE FROM Asks WHERE (Gate, Ticket) NOT IN (SELECT Gate, Ticket FROM Places)")
        for (gate,) in gates:
            self._tell(sql, f"gate {gate}")

    @contextmanager
    def _transaction(self, mode: str = "IMMEDIATE") -> Iterator[sqlite3.Connection]:
        """One transaction. A SQLite or file error leaves it as StoreLost, with the connection closed."""
        with self._lock:
            try:
                if self._connection is None:
                    self._opened = identity_of(self._file)
                    self._connection = self._open_database()
                    self._opened = identity_of(self._file)
                _begin(self._connection, mode)
                yield self._connection
                self._connection.execute("COMMIT")
            except (sqlite3.Error, OSError) as error:
                self._drop_connection()
                if isinstance(error, sqlite3.Error) and is_damage(error):
                    self._replace(error)
                raise StoreLost(f"{self._file}: {error}") from error
            except BaseException:  # a server that stops its thread here
                self._drop_connection()
                raise

    def _replace(self, error: sqlite3.Error) -> None:
        """Move a damaged file away: the next call makes a new one, for all workers."""
        try:
            aside = set_aside(self._file, self._opened)
        except OSError as trouble:
            logger.warning("%s is damaged (%s) and cannot be moved away: %s", self._file, error, trouble)
            return
        if aside is not None:
            logger.warning("%s was damaged (%s) and has been renamed to %s", self._file, error, aside.name)

    def _open_database(self) -> sqlite3.Connection:
        self._file.parent.mkdir(parents=True, exist_ok=True)
        connection = sqlite3.connect(
            self._file, timeout=BLOCK_S, isolation_level=None, check_same_thread=False
        )
        try:
            _make_ready(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    def _check_file(self) -> None:
        """A file that was removed is left: workers that begin later share another one."""
        with self._lock:
            if self._connection is not None and identity_of(self._file) != self._opened:
                self._drop_connection()

    def _drop_connection(self) -> None:
        """The next call starts from the beginning. This rolls back an open transaction."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def _begin(connection: sqlite3.Connection, mode: str) -> None:
    """Begin a transaction and take its lock, for which others may have to be waited."""
    end = time.monotonic() + BUSY_TIMEOUT_S
    while True:
        try:
            connection.execute(f"BEGIN {mode}")
            connection.execute("SELECT 1 FROM Members LIMIT 1")
            return
        except sqlite3.OperationalError:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            if time.monotonic() > end:
                raise
            time.sleep(POLL_S)


def _make_ready(connection: sqlite3.Connection) -> None:
    """Another process may do the same: SQLite does not wait where the journal's mode is changed."""
    end = time.monotonic() + BUSY_TIMEOUT_S
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = OFF")
            connection.executescript(_TABLES)
            return
        except sqlite3.OperationalError:
            if time.monotonic() > end:
                raise
            time.sleep(POLL_S)


def _set_state(sql: sqlite3.Connection, gate: str, state: str, tickets: list[str]) -> None:
    sql.executemany(
        "UPDATE Places SET State = ? WHERE Gate = ? AND Ticket = ?",
        [(state, gate, ticket) for ticket in tickets],
    )


def _remove_notes(sql: sqlite3.Connection, which: str, values: tuple[object, ...]) -> None:
    """Remove notes with their marks. `which`: SQL of ours."""
    numbers = sql.execute(f"SELECT Number FROM Notes WHERE {which}", values).fetchall()
    sql.executemany("DELETE FROM Marks WHERE Note = ?", numbers)
    sql.executemany("DELETE FROM Notes WHERE Number = ?", numbers)


def _queue_of(
    sql: sqlite3.Connection, gate: str, limit: int, one_model: bool, now: float
) -> tuple[Queue, dict[str, str]]:
    """The queue of a gate as far as its next turns need it, and who owns its waiting tickets."""
    find = "SELECT Ticket, Owner FROM Places WHERE Gate = ? AND State = ? ORDER BY Number LIMIT ?"
    holding = dict(sql.execute(find, (gate, "holds", limit)).fetchall())
    queue = Queue(limit, holding, one_model=one_model)
    room = limit - len(holding)
    if room <= 0:
        return queue, {}
    _read_asks(sql, gate, queue, now)
    most = -1 if queue.asks else room  # rows and names may choose any of them
    waiting = dict(sql.execute(find, (gate, "waits", most)).fetchall())
    behind = {} if waiting else dict(sql.execute(find, (gate, "behind", -1 if queue.asks else 1)).fetchall())
    queue.waiting, queue.behind = waiting, behind
    return queue, waiting | behind


def _read_asks(sql: sqlite3.Connection, gate: str, queue: Queue, now: float) -> None:
    """What its tickets ask for, and the turns that were given so far."""
    asks, waited_s = {}, {}
    columns = "Ticket, Machine, Model, Name, Background, Came"
    for ticket, machine, model, name, background, came in sql.execute(
        f"SELECT {columns} FROM Asks WHERE Gate = ?", (gate,)
    ):
        asks[ticket] = Ask(machine, model, name, bool(background))
        if background:
            waited_s[ticket] = now - came
    if not asks:
        return
    queue.asks, queue.waited_s = asks, waited_s
    found = sql.execute("SELECT Machine, Model, Turns FROM MachineRows WHERE Gate = ?", (gate,))
    queue.rows = {machine: Row(model, turns) for machine, model, turns in found}
    last = dict(sql.execute("SELECT Name, Number FROM LastTurns WHERE Gate = ? ORDER BY Number", (gate,)))
    queue.rounds = Rounds(last, last.pop(_PEOPLE, 0))


def _write_turns(sql: sqlite3.Connection, gate: str, queue: Queue, tickets: Sequence[str]) -> None:
    """What these turns change."""
    sql.executemany(
        "INSERT OR REPLACE INTO MachineRows VALUES (?, ?, ?, ?)",
        [
            (gate, machine, *row)
            for machine, row in grow_rows(queue.rows, map(queue.asks.get, tickets)).items()
        ],
    )
    rounds = queue.rounds
    for ticket in tickets:
        rounds.note_turn(queue.asks.get(ticket))
    names = {ask.name for ticket in tickets if (ask := queue.asks.get(ticket, NOTHING)).name}
    numbers = {name: rounds.last[name] for name in names}
    sql.executemany(
        "INSERT OR REPLACE INTO LastTurns VALUES (?, ?, ?)",
        [
            (gate, name, number)
            for name, number in ({**numbers, _PEOPLE: rounds.people} if names else {}).items()
        ],
    )
