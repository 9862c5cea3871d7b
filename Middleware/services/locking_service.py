"""Workflow locks in a SQLite file, over all processes that share it. Knows nothing of workflows or requests.

While a run holds locks they are renewed in the background, so that long work keeps them and a dead process
loses them. Source: spec workflows.md 11 and 16.10.
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
from datetime import datetime, timedelta
from pathlib import Path

from Middleware.common.instance_global_variables import INSTALL_DIRECTORY

logger = logging.getLogger(__name__)

LIFETIME = timedelta(minutes=10)
RENEW_EVERY_S = 60.0
DEAD_AFTER_S = 180.0
"""An instance whose heartbeat is older is dead."""
BUSY_TIMEOUT_S = 5.0

_TABLES = """
CREATE TABLE IF NOT EXISTS WorkflowLocks (
    Id INTEGER PRIMARY KEY AUTOINCREMENT, WilmerSessionId NVARCHAR(50), WorkflowId NVARCHAR(50),
    WorkflowLockId NVARCHAR(500), ExpirationDate DATETIME);
CREATE TABLE IF NOT EXISTS Instances (
    WilmerSessionId NVARCHAR(50) PRIMARY KEY, Host TEXT, Pid INTEGER, Heartbeat REAL);
"""


def lock_database(folder: Path, user: str, *, install: Path = INSTALL_DIRECTORY) -> Path:
    """`WilmerDb.<user>.sqlite` in `folder`; if it is not there but in the working directory or the install
    folder, that.
    """
    name = f"WilmerDb.{user}.sqlite"
    places = (folder / name, Path.cwd() / name, install / name)
    return next((place for place in places if place.exists()), places[0])


class LockingService:
    """The locks of one user for one server instance. Thread-safe.

    `clock`: local time, for expiry. `renew_every_s`: how often held locks are renewed in the background; None
    = only by `renew`.
    """

    def __init__(
        self,
        database: Path,
        instance_id: str,
        *,
        clock: Callable[[], datetime] = datetime.now,
        renew_every_s: float | None = RENEW_EVERY_S,
    ) -> None:
        self._database, self._instance = database, instance_id
        self._clock, self._renew_every_s = clock, renew_every_s
        self._held: set[str] = set()
        self._guard = threading.Lock()
        self._idle = threading.Event()

    def acquire(self, lock_id: str, workflow_id: str) -> bool:
        """True: the run `workflow_id` holds the lock now (or the database cannot be opened). False: somebody
        holds it.
        """
        try:
            with self._transaction() as connection:
                if not self._insert(connection, lock_id, workflow_id):
                    return False
        except sqlite3.Error as error:
            if _is_busy(error):
                logger.info("lock '%s' counts as held: the lock database is busy", lock_id)
                return False
            logger.warning("workflow goes on without lock '%s': %s: %s", lock_id, self._database, error)
            return True
        except OSError as error:
            logger.warning("workflow goes on without lock '%s': %s", lock_id, error)
            return True
        self._keep(workflow_id)
        return True

    def _insert(self, connection: sqlite3.Connection, lock_id: str, workflow_id: str) -> bool:
        rows = connection.execute(
            "SELECT Id, ExpirationDate FROM WorkflowLocks WHERE WorkflowLockId = ?", (lock_id,)
        ).fetchall()
        if any(not self._expired(end) for _, end in rows):
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
                dead = self._dead_instances(connection)
                rows = connection.execute(
                    "SELECT Id, WilmerSessionId, ExpirationDate FROM WorkflowLocks"
                ).fetchall()
                gone = [(row[0],) for row in rows if row[1] in dead or self._expired(row[2])]
                connection.executemany("DELETE FROM WorkflowLocks WHERE Id = ?", gone)
                connection.executemany(
                    "DELETE FROM Instances WHERE WilmerSessionId = ?", [(i,) for i in dead]
                )
        except (sqlite3.Error, OSError) as error:
            logger.warning("old workflow locks stay in %s: %s", self._database, error)

    def _dead_instances(self, connection: sqlite3.Connection) -> set[str]:
        rows = connection.execute("SELECT WilmerSessionId, Host, Pid, Heartbeat FROM Instances")
        limit = time.time() - DEAD_AFTER_S
        return {
            name
            for name, host, pid, beat in rows
            if name != self._instance
            and (beat < limit or (host == platform.node() and not _process_lives(pid)))
        }

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
            logger.warning("workflow locks in %s are not up to date: %s", self._database, error)

    def _beat(self, connection: sqlite3.Connection) -> None:
        connection.execute(
            "INSERT OR REPLACE INTO Instances (WilmerSessionId, Host, Pid, Heartbeat) VALUES (?, ?, ?, ?)",
            (self._instance, platform.node(), os.getpid(), time.time()),
        )

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        """One immediate transaction on a connection of its own; rolled back when an error leaves it."""
        self._database.parent.mkdir(parents=True, exist_ok=True)
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
        return (self._clock() + LIFETIME).isoformat()

    def _expired(self, end: object) -> bool:
        try:
            return datetime.fromisoformat(str(end)) <= self._clock()
        except ValueError:
            return True


def _is_busy(error: sqlite3.Error) -> bool:
    code = getattr(error, "sqlite_errorcode", None)
    return code is not None and code & 0xFF in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


def _process_lives(pid: int) -> bool:
    if os.name == "nt":
        return True
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
