"""What runs took and cost, over months: one SQLite file in the folder of `--history`.

Numbers and names of the configuration alone: no text, no discussion id. Written behind the answers by one
thread a process, which no answer ever waits for: what cannot be written waits, and what can wait no longer is
counted as lost. Source: spec operate.md 5.
"""

from __future__ import annotations

import atexit
import logging
import os
import sqlite3
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager, suppress
from functools import partial
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from Middleware.common.constants import HISTORY_DAYS
from Middleware.common.costs import Cost
from Middleware.services.node_trace import NodeTrace
from Middleware.services.run_trace import RunTrace
from Middleware.utilities.file_locks import Identity, identity_of, is_damage, set_aside
from Middleware.utilities.file_utils import beside_the_loop, network_file_system
from Middleware.utilities.text_utils import count_of

logger = logging.getLogger(__name__)

FILE_NAME = "history.db"
MOST_ROWS = 1_000_000
MOST_WAITING = 10_000
"""So many runs wait to be written; those that come then are lost."""
DAY_S = 86_400
BUSY_S = 2.0
"""So long a write waits for one of another process."""
RETRY_S = 2.0
MOST_AT_ONCE = 1_000
MOST_INTEGER = 2**53
"""So large a number can be: many of them can still be added in the database."""
CLOSE_S = 3.0

_TABLES = """
CREATE TABLE IF NOT EXISTS runs (
    id INTEGER PRIMARY KEY, at REAL NOT NULL, user TEXT NOT NULL, workflow TEXT NOT NULL, key TEXT NOT NULL,
    state TEXT NOT NULL, took_s REAL NOT NULL, first_s REAL, prompt INTEGER NOT NULL,
    completion INTEGER NOT NULL, held INTEGER, endpoint TEXT NOT NULL, stood_out TEXT NOT NULL);
CREATE INDEX IF NOT EXISTS runs_by_time ON runs (at);
CREATE TABLE IF NOT EXISTS costs (
    run INTEGER NOT NULL, currency TEXT NOT NULL, millionths INTEGER NOT NULL, about INTEGER NOT NULL,
    PRIMARY KEY (run, currency)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS lost (at REAL NOT NULL, runs INTEGER NOT NULL);
"""
_INSERT = (
    "INSERT INTO runs (at, user, workflow, key, state, took_s, first_s, prompt, completion, held, endpoint, "
    "stood_out) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
)


class HistoryRow(NamedTuple):
    """One run that ended.

    `at`: Unix seconds of its arrival. `key`: the name of the client's key; empty: it has none. `state`:
    `done`, `failed`, `cancelled`, `refused`. `took_s`: until the client had its answer; `first_s`: until its
    first word, None: there was none. `prompt`, `completion`: tokens of all calls to models. `held`: tokens
    of prompts that backends still held, None: none of them said. `endpoint`: of the node that answered.
    `stood_out`: names of rules. `costs`: a sum for each currency.
    """

    at: float
    user: str
    workflow: str
    key: str
    state: str
    took_s: float
    first_s: float | None
    prompt: int
    completion: int
    held: int | None
    endpoint: str
    stood_out: tuple[str, ...] = ()
    costs: tuple[Cost, ...] = ()


# --------------------------------------------------------------------------
# The file.


def history_file(folder: Path) -> Path:
    """The database of a folder of histories."""
    return folder / FILE_NAME


def why_no_history(folder: Path) -> str | None:
    """Why no history can be kept in this folder, which is made if need be; None: it can. What is wrong with
    a database that is there is no reason: the writer sees to it.
    """
    kind = network_file_system(folder)
    if kind is not None:
        return f"{folder} is on a network file system ({kind}); name a folder on a disk of this machine"
    try:
        _make_file(folder)
    except OSError as error:
        return f"{folder} cannot be used: {error.strerror or error}"
    return None


def _make_file(folder: Path) -> Path:
    """The database's file, for the owner alone. Raises OSError."""
    folder.mkdir(parents=True, exist_ok=True)
    file = history_file(folder)
    with suppress(FileExistsError):
        os.close(os.open(file, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    return file


def open_history(folder: Path) -> sqlite3.Connection:
    """A connection that writes; the file and its folder are made on first use, for the owner alone.

    May be used in any thread, in one at a time. Raises `sqlite3.Error`, OSError.
    """
    file = _make_file(folder)
    connection = sqlite3.connect(file, timeout=BUSY_S, isolation_level=None, check_same_thread=False)
    try:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = NORMAL")
        connection.executescript(_TABLES)
    except BaseException:
        connection.close()
        raise
    return connection


@contextmanager
def read_history(folder: Path) -> Iterator[sqlite3.Connection]:
    """Inside the block the history can be read. Raises FileNotFoundError where there is none, and
    `sqlite3.Error`."""
    file = history_file(folder)
    if not file.is_file():
        raise FileNotFoundError(f"{file}: there is no such file")
    with closing(open_history(folder)) as connection:
        connection.execute("PRAGMA query_only = ON")
        yield connection


class HistoryFile:
    """Writes rows. `days`: for so long they are kept. `clock`: Unix seconds. Used by one thread at a time."""

    def __init__(
        self, folder: Path, days: int = HISTORY_DAYS, clock: Callable[[], float] = time.time
    ) -> None:
        self._folder, self._days, self._clock = folder, days, clock
        self._connection: sqlite3.Connection | None = None
        self._opened: Identity | None = None

    def write(self, rows: Iterable[HistoryRow], lost: int = 0) -> None:
        """Write all of them or none; what is too old or too much goes. `lost`: so many runs could not be
        written before. Raises `sqlite3.Error`, OSError."""
        try:
            sql = self._open()
            sql.execute("BEGIN IMMEDIATE")
            for row in rows:
                _insert(sql, row)
            if lost:
                sql.execute("INSERT INTO lost VALUES (?, ?)", (self._clock(), lost))
            self._prune(sql)
            sql.execute("COMMIT")
        except BaseException:
            self.close()  # what was not committed is undone
            raise

    def set_aside(self) -> None:
        """The file is damaged: it gets another name, unless another process has given it one. Raises
        OSError."""
        aside = set_aside(history_file(self._folder), self._opened)
        if aside is not None:
            logger.warning("the history was damaged; it is now %s, and a new one begins", aside)

    def close(self) -> None:
        if self._connection is not None:
            with suppress(sqlite3.Error):
                self._connection.close()
        self._connection = None

    def _open(self) -> sqlite3.Connection:
        """The connection to what stands under the file's name now."""
        file = history_file(self._folder)
        if self._connection is None or self._opened != identity_of(file):
            self.close()
            self._opened = identity_of(file)
            self._connection = open_history(self._folder)
            self._opened = identity_of(file)
        return self._connection

    def _prune(self, sql: sqlite3.Connection) -> None:
        """The oldest go: by their time, and by their number, which grows whatever the clock does."""
        oldest = self._clock() - self._days * DAY_S
        [last] = sql.execute("SELECT coalesce(max(id), 0) FROM runs").fetchone()
        for where, bound in (("at < ?", oldest), ("id <= ?", last - MOST_ROWS)):
            sql.execute(f"DELETE FROM costs WHERE run IN (SELECT id FROM runs WHERE {where})", (bound,))
            sql.execute(f"DELETE FROM runs WHERE {where}", (bound,))
        sql.execute("DELETE FROM lost WHERE at < ?", (oldest,))


def _insert(sql: sqlite3.Connection, row: HistoryRow) -> None:
    *numbers, stood_out, costs = row
    fitting = [min(one, MOST_INTEGER) if isinstance(one, int) else one for one in numbers]
    run = sql.execute(_INSERT, (*fitting, " ".join(stood_out))).lastrowid
    sql.executemany(
        "INSERT INTO costs VALUES (?, ?, ?, ?)",
        [(run, cost.currency, min(cost.millionths, MOST_INTEGER), int(cost.about)) for cost in costs],
    )


# --------------------------------------------------------------------------


class HistoryWriter:
    """Writes the runs that it observes. `row_of(run)` is asked in the writing thread."""

    keeps_text = False
    changes = ("ended", "settled")

    def __init__(self, file: HistoryFile, row_of: Callable[[RunTrace], HistoryRow]) -> None:
        self._file, self._row_of = file, row_of
        self._ready = threading.Condition()
        self._open: dict[RunTrace, None] = {}  # ended, but not settled
        self._runs: deque[RunTrace] = deque()
        self._rows: deque[HistoryRow] = deque()
        self._lost = 0
        self._closing = self._in_trouble = False
        self._thread: threading.Thread | None = None

    @property
    def lost(self) -> int:
        """Runs that could not wait any longer, since the last write that worked."""
        return self._lost

    def note_change(self, run: RunTrace, what: str, node: NodeTrace | None) -> None:
        if what == "ended":
            with self._ready:
                self._open[run] = None
                self._start()
        elif what == "settled":
            self._take(run)

    def _take(self, run: RunTrace) -> None:
        """Its row is to be written, unless that was done when the process ended."""
        with self._ready:
            if run not in self._open:
                return
            del self._open[run]
            if len(self._runs) + len(self._rows) >= MOST_WAITING:
                self._lost += 1
                return
            self._runs.append(run)
            self._ready.notify_all()

    def _start(self) -> None:
        """Not before there is work: a server may fork after it was put together. The lock is held."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._write_all, name="history", daemon=True)
            self._thread.start()
            atexit.register(self.close)

    def close(self, timeout_s: float = CLOSE_S) -> None:
        """Write what waits, and end. What cannot be written in this time is lost; what does not settle in it
        is written as it is."""
        end = time.monotonic() + timeout_s
        with self._ready:
            self._ready.wait_for(lambda: not self._open, timeout_s / 2)
        for run in list(self._open):
            self._take(run)
        with self._ready:
            self._closing, thread = True, self._thread
            self._ready.notify_all()
        if thread is not None:
            thread.join(max(0.0, end - time.monotonic()))
        atexit.unregister(self.close)

    def _write_all(self) -> None:
        while not self._closing:
            self._wait_for_work()
            self._make_rows()
            self._write_rows()
        self._make_rows()  # those that came meanwhile
        self._write_rows()
        self._file.close()

    def _wait_for_work(self) -> None:
        with self._ready:
            if self._in_trouble and not self._closing:
                self._ready.wait(RETRY_S)
            while not self._runs and not self._rows and not self._closing:
                self._ready.wait()

    def _make_rows(self) -> None:
        """Runs become rows soon: a run that waits keeps its texts."""
        while self._runs:
            run = self._runs[0]
            try:
                row = self._row_of(run)
            except Exception:  # one odd run must not end the history
                logger.exception("a run could not be written to the history")
                row = None
            with self._ready:
                self._runs.popleft()
                if row is None:
                    self._lost += 1
                else:
                    self._rows.append(row)

    def _write_rows(self) -> None:
        most = MOST_AT_ONCE
        while self._rows:
            rows, lost = list(islice(self._rows, most)), self._lost
            try:
                beside_the_loop(partial(self._file.write, rows, lost))
            except (sqlite3.Error, OSError) as error:
                self._tell_of_trouble(error)
                return
            except Exception:  # one odd row must not end the history
                most = 1 if len(rows) > 1 else MOST_AT_ONCE
                if len(rows) == 1:
                    logger.exception("a run could not be written to the history")
                    self._lose_row()
                continue
            with self._ready:
                for _ in rows:
                    self._rows.popleft()
                self._lost -= lost
            self._tell_of_recovery(lost)

    def _lose_row(self) -> None:
        with self._ready:
            self._rows.popleft()
            self._lost += 1

    def _tell_of_trouble(self, error: Exception) -> None:
        """Once, until it works again. A damaged file makes room for a new one."""
        if isinstance(error, sqlite3.Error) and is_damage(error):
            with suppress(OSError):
                self._file.set_aside()
        if not self._in_trouble:
            self._in_trouble = True
            logger.warning(
                "the history cannot be written, and is tried again every %g s; answers are not affected: %s",
                RETRY_S,
                error,
            )

    def _tell_of_recovery(self, lost: int) -> None:
        if self._in_trouble:
            self._in_trouble = False
            logger.info(
                "the history is written again%s", f"; {count_of(lost, 'run')} were lost" if lost else ""
            )
