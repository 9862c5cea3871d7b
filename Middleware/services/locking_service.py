"""Workflow locks in a SQLite file, over all processes that share it. Knows nothing of workflows or requests.

A lock is held while the process that took it lives and its run lasts. Whether the process lives is asked of
the system where that can tell; elsewhere (another machine, another program) the time in the row decides,
which the owner renews in the background. Where servers of several machines share their state, a lock is a
record of theirs, too; while they cannot be reached the file alone counts. Source: spec workflows.md 11
and 16.10.
"""

from __future__ import annotations

import logging
import os
import platform
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

from Middleware.services.shared_state.member import Member, this_process
from Middleware.utilities.datetime_utils import time_passed
from Middleware.utilities.file_locks import Identity, identity_of, is_damage, set_aside

logger = logging.getLogger(__name__)

LIFETIME = timedelta(minutes=10)
RENEW_EVERY_S = 60.0
DEAD_AFTER_S = 180.0
"""An instance whose heartbeat is older is dead."""
BUSY_TIMEOUT_S = 5.0
LOCK = "lock"
"""Kind of the record of a lock that machines share."""

_TABLES = """
CREATE TABLE IF NOT EXISTS WorkflowLocks (
    Id INTEGER PRIMARY KEY AUTOINCREMENT, WilmerSessionId NVARCHAR(50), WorkflowId NVARCHAR(50),
    WorkflowLockId NVARCHAR(500), ExpirationDate DATETIME);
CREATE TABLE IF NOT EXISTS Instances (
    WilmerSessionId NVARCHAR(50) PRIMARY KEY, Host TEXT, Pid INTEGER, Heartbeat REAL);
CREATE TABLE IF NOT EXISTS InstanceStarts (
    WilmerSessionId NVARCHAR(50) PRIMARY KEY, Started TEXT);
"""


def lock_database(folder: Path, user: str, *, install: Path | None = None) -> Path:
    """`WilmerDb.<user>.sqlite` in `folder`; if it is not there but in the working directory or the install
    folder, that. `install`: None: `folder` is the only place.
    """
    name = f"WilmerDb.{user}.sqlite"
    places = [folder / name]
    if install is not None:
        places += [Path.cwd() / name, install / name]
    return next((place for place in places if place.exists()), places[0])


class LockingService:
    """The locks of one user for one server instance. Thread-safe.

    `clock`: local time, for expiry. `renew_every_s`: how often held locks are renewed in the background; None
    = only by `renew`. `member`: through which other machines know of locks, if there are any.
    """

    def __init__(
        self,
        database: Path,
        instance_id: str,
        *,
        clock: Callable[[], datetime] = datetime.now,
        renew_every_s: float | None = RENEW_EVERY_S,
        member: Callable[[], Member] = this_process,
    ) -> None:
        self._database, self._instance = database, instance_id
        self._clock, self._renew_every_s, self._member = clock, renew_every_s, member
        self._held: set[str] = set()
        self._records: dict[str, list[str]] = {}
        """Run -> keys of its records."""
        self._guard = threading.Lock()
        self._idle = threading.Event()

    def acquire(self, lock_id: str, workflow_id: str) -> bool:
        """True: the run `workflow_id` holds the lock now (or the database cannot be opened). False: somebody
        holds it.
        """
        member = self._member()
        if not member.many_machines:
            return self._acquire_file(lock_id, workflow_id)
        key = f"{self._database.name} {lock_id}"
        if not member.add(LOCK, key, workflow_id):
            return False
        if not self._acquire_file(lock_id, workflow_id):  # it counts when they are not reached any more
            member.remove(LOCK, key, workflow_id)
            return False
        with self._guard:
            self._records.setdefault(workflow_id, []).append(key)
        return True

    def _acquire_file(self, lock_id: str, workflow_id: str, *, again: bool = True) -> bool:
        """The same on this machine. `again`: a database that was moved away because it is damaged is
        created again and asked once more.
        """
        try:
            with self._transaction() as connection:
                if not self._insert(connection, lock_id, workflow_id):
                    return False
        except sqlite3.Error as error:
            if again and is_damage(error):
                return self._acquire_file(lock_id, workflow_id, again=False)
            if _is_busy(error):
                logger.info("the lock database is busy, so lock '%s' counts as held", lock_id)
                return False
            logger.warning("the workflow continues without lock '%s': %s: %s", lock_id, self._database, error)
            return True
        except OSError as error:
            logger.warning("the workflow continues without lock '%s': %s", lock_id, error)
            return True
        self._keep(workflow_id)
        return True

    def _insert(self, connection: sqlite3.Connection, lock_id: str, workflow_id: str) -> bool:
        rows = connection.execute(
            "SELECT Id, WilmerSessionId, WorkflowId, ExpirationDate FROM WorkflowLocks"
            " WHERE WorkflowLockId = ?",
            (lock_id,),
        ).fetchall()
        if rows:
            lives = self._lives(connection)
            if not all(self._is_free(row[1:], lives) for row in rows):
                return False
        connection.executemany("DELETE FROM WorkflowLocks WHERE Id = ?", [(row[0],) for row in rows])
        connection.execute(
            "INSERT INTO WorkflowLocks (WilmerSessionId, WorkflowId, WorkflowLockId, ExpirationDate)"
            " VALUES (?, ?, ?, ?)",
            (self._instance, workflow_id, lock_id, self._end()),
        )
        self._beat(connection)
        return True

    def renew(self, workflow_id: str) -> None:
        """Give all locks of a run their full time again."""
        self._change(
            "UPDATE WorkflowLocks SET ExpirationDate = ? WHERE WilmerSessionId = ? AND WorkflowId = ?",
            (self._end(), self._instance, workflow_id),
        )

    def release(self, workflow_id: str) -> None:
        """Give back all locks of a run, which has ended in whatever way. Costs nothing if it took none."""
        for key in self._records.pop(workflow_id, ()):
            self._member().remove(LOCK, key, workflow_id)
        with self._guard:
            if workflow_id not in self._held:
                return
            self._held.discard(workflow_id)
            if not self._held:
                self._idle.set()
        self._change(
            "DELETE FROM WorkflowLocks WHERE WilmerSessionId = ? AND WorkflowId = ?",
            (self._instance, workflow_id),
        )

    def remove_dead(self) -> None:
        """At server start: remove locks that have expired or whose instance is dead. Makes no database."""
        if not self._database.exists():
            return
        try:
            with self._transaction() as connection:
                lives = self._lives(connection)
                rows = connection.execute(
                    "SELECT Id, WilmerSessionId, WorkflowId, ExpirationDate FROM WorkflowLocks"
                ).fetchall()
                gone = [(row[0],) for row in rows if self._is_free(row[1:], lives)]
                dead = [(instance,) for instance, life in lives.items() if life is False]
                connection.executemany("DELETE FROM WorkflowLocks WHERE Id = ?", gone)
                for table in ("Instances", "InstanceStarts"):
                    connection.executemany(f"DELETE FROM {table} WHERE WilmerSessionId = ?", dead)
        except (sqlite3.Error, OSError) as error:
            logger.warning("old workflow locks could not be removed from %s: %s", self._database, error)

    def _is_free(self, row: tuple[str, str, object], lives: dict[str, bool | None]) -> bool:
        """Whether a lock's row (instance, run, end) no longer holds it."""
        instance, workflow_id, end = row
        life = lives.get(instance)
        if instance == self._instance:
            life = True if workflow_id in self._held else None
        return self._is_expired(end) if life is None else not life

    def _lives(self, connection: sqlite3.Connection) -> dict[str, bool | None]:
        """For each known instance whether its process lives; None: the time must tell."""
        rows = connection.execute(
            "SELECT Instances.WilmerSessionId, Host, Pid, Heartbeat, Started FROM Instances"
            " LEFT JOIN InstanceStarts USING (WilmerSessionId)"
        )
        return {name: _life(*known) for name, *known in rows}

    def _keep(self, workflow_id: str) -> None:
        """Remember what is held, and start the renewal if this is the first."""
        with self._guard:
            first = not self._held
            self._held.add(workflow_id)
            if not first or self._renew_every_s is None:
                return
            self._idle = idle = threading.Event()
        threading.Thread(target=self._renew_until, args=(idle,), name="lock-renewal", daemon=True).start()

    def _renew_until(self, idle: threading.Event) -> None:
        while not idle.wait(self._renew_every_s):
            with self._guard:
                held = sorted(self._held)
            for workflow_id in held:
                self.renew(workflow_id)

    def _change(self, statement: str, values: tuple[str, ...]) -> None:
        try:
            with self._transaction() as connection:
                connection.execute(statement, values)
                self._beat(connection)
        except (sqlite3.Error, OSError) as error:
            logger.warning("the workflow locks in %s could not be updated: %s", self._database, error)

    def _beat(self, connection: sqlite3.Connection) -> None:
        connection.execute(
            "INSERT OR REPLACE INTO Instances (WilmerSessionId, Host, Pid, Heartbeat) VALUES (?, ?, ?, ?)",
            (self._instance, platform.node(), os.getpid(), time.time()),
        )
        connection.execute(
            "INSERT OR REPLACE INTO InstanceStarts (WilmerSessionId, Started) VALUES (?, ?)",
            (self._instance, process_start(os.getpid())),
        )

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        """One immediate transaction on a connection of its own; rolled back when an error leaves it.

        A damaged database is moved away, so that locks work again.
        """
        self._database.parent.mkdir(parents=True, exist_ok=True)
        seen = identity_of(self._database)
        try:
            with self._connect() as connection:
                yield connection
        except sqlite3.Error as error:
            if is_damage(error):
                self._set_aside(seen, error)
            raise

    def _set_aside(self, seen: Identity | None, error: sqlite3.Error) -> None:
        try:
            aside = set_aside(self._database, seen)
        except OSError as trouble:
            logger.error("%s is damaged (%s) and cannot be moved away: %s", self._database, error, trouble)
            return
        if aside is not None:
            logger.error(
                "%s was damaged (%s) and has been renamed to %s; the locks in it are free",
                self._database,
                error,
                aside.name,
            )

    @contextmanager
    def _connect(self) -> Iterator[sqlite3.Connection]:
        connect = sqlite3.connect(self._database, timeout=BUSY_TIMEOUT_S, isolation_level=None)
        with closing(connect) as connection:
            connection.executescript(_TABLES)
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield connection
            except BaseException:
                if connection.in_transaction:  # SQLite has ended it itself when the disk is full
                    connection.execute("ROLLBACK")
                raise
            connection.execute("COMMIT")

    def _end(self) -> str:
        """As local time without zone, which other programs expect."""
        return (self._clock().astimezone(UTC) + LIFETIME).astimezone().replace(tzinfo=None).isoformat()

    def _is_expired(self, end: object) -> bool:
        """Where a local time comes twice, the later one counts."""
        try:
            local = datetime.fromisoformat(str(end))
        except ValueError:
            return True
        now = self._clock()
        return all(time_passed(local.replace(fold=fold), now) >= timedelta(0) for fold in (0, 1))


def _is_busy(error: sqlite3.Error) -> bool:
    code = getattr(error, "sqlite_errorcode", None)
    return code is not None and code & 0xFF in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


def _life(host: str, pid: int, beat: float, started: str | None) -> bool | None:
    """True and False where the system can tell; None: as long as its time runs.

    The system's word counts for processes that it can see only, and True only for one that is known by its
    start: a number may have been given to another process since.
    """
    if host == platform.node():
        boot, space, _ = (started or "  ").split(" ")
        our_boot, our_space, _ = process_start(os.getpid()).split(" ")
        if boot and boot != our_boot:
            return False
        if space == our_space:
            if not process_lives(pid):
                return False
            if boot:
                return process_start(pid) == started
    return False if beat < time.time() - DEAD_AFTER_S else None


def process_start(pid: int) -> str:
    """What tells a process from any other: `<boot> <pid namespace> <tick of its start>`.

    Two blanks where the system does not say.
    """
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
        status = Path(f"/proc/{pid}/stat").read_text("utf-8", "replace")
        space = os.readlink("/proc/self/ns/pid")
    except OSError:
        return "  "
    return f"{boot} {space} {status.rpartition(')')[2].split()[19]}"


def process_lives(pid: int) -> bool:
    """Whether a process of this machine has this number; always on Windows, which does not say."""
    if os.name == "nt":
        return True
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
