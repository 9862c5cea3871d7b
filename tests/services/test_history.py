"""The history of runs: what is written, for how long, and that no answer waits for it."""

from __future__ import annotations

import logging
import os
import sqlite3
import sys
import threading
from contextlib import closing
from types import SimpleNamespace

import pytest

from Middleware.common.costs import Cost
from Middleware.services import history as module
from Middleware.services.history import (
    DAY_S,
    HistoryFile,
    HistoryRow,
    HistoryWriter,
    history_file,
    open_history,
    read_history,
    why_no_history,
)
from Middleware.services.run_trace import Observers
from tests.patience import PATIENCE_S

NOW = 1_760_000_000.0


def row(at=NOW, user="mira", **facts):
    given = {
        **{"workflow": "Main", "key": "", "state": "done", "took_s": 6.3, "first_s": 0.8},
        **{"prompt": 100, "completion": 20, "held": None, "endpoint": "Big"},
        **facts,
    }
    return HistoryRow(at=at, user=user, **given)


def rows_in(folder, columns="user"):
    with read_history(folder) as sql:
        return sql.execute(f"SELECT {columns} FROM runs ORDER BY id").fetchall()


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "history"


@pytest.fixture
def file(folder):
    made = HistoryFile(folder, clock=lambda: NOW)
    yield made
    made.close()


class TestFile:
    def test_a_row(self, file, folder):
        """Every number, and what stood out by the names of the rules."""
        costs = (Cost("EUR", 3, True), Cost("USD", 7))
        file.write([row(stood_out=("slot", "thinking"), held=40, costs=costs)])
        [told] = rows_in(folder, "*")
        numbers = (NOW, "mira", "Main", "", "done", 6.3, 0.8, 100, 20, 40, "Big", "slot thinking")
        assert told == (1, *numbers)
        with read_history(folder) as sql:
            assert sql.execute("SELECT * FROM costs").fetchall() == [(1, "EUR", 3, 1), (1, "USD", 7, 0)]

    @pytest.mark.skipif(sys.platform == "win32", reason="this system has no modes")
    def test_is_the_owners_alone(self, file, folder):
        """The database and what SQLite keeps beside it."""
        file.write([row()])
        assert {path.stat().st_mode & 0o777 for path in folder.iterdir()} == {0o600}

    def test_the_oldest_go_by_time(self, file, folder):
        """After 90 days, with their costs."""
        old = row(NOW - 90 * DAY_S - 1, "old", costs=(Cost("USD", 1),))
        file.write([old, row(NOW - 90 * DAY_S + 1, "new")])
        assert rows_in(folder) == [("new",)]
        with read_history(folder) as sql:
            assert sql.execute("SELECT count(*) FROM costs").fetchone() == (0,)

    def test_the_oldest_go_by_number(self, file, folder, monkeypatch):
        """Also when the clock was set back: then their time says nothing."""
        monkeypatch.setattr(module, "MOST_ROWS", 3)
        file.write([row(NOW - i, str(i), costs=(Cost("USD", i),)) for i in range(5)])
        assert rows_in(folder) == [("2",), ("3",), ("4",)]

    def test_a_clock_that_is_set_back(self, folder):
        """What is written then is kept, and so is what was written before."""
        clock = iter([NOW, NOW - 365 * DAY_S])
        file = HistoryFile(folder, clock=lambda: next(clock))
        file.write([row(NOW, "before")])
        file.write([row(NOW - 365 * DAY_S, "after")])
        file.close()
        assert rows_in(folder) == [("before",), ("after",)]

    def test_all_or_nothing(self, file, folder):
        """A row that cannot be written takes the others with it; they come again."""
        file.write([row(user="first")])
        with pytest.raises(sqlite3.Error):
            file.write([row(user="second"), row(user=None)])
        assert rows_in(folder) == [("first",)]
        file.write([row(user="second")])
        assert rows_in(folder) == [("first",), ("second",)]

    def test_a_file_that_was_exchanged(self, file, folder):
        """What stands under the name now is written to."""
        file.write([row(user="first")])
        os.replace(folder, folder.with_name("away"))
        file.write([row(user="second")])
        assert rows_in(folder) == [("second",)]

    def test_two_processes(self, folder):
        """Both write to one file."""
        files = [HistoryFile(folder, clock=lambda: NOW) for _ in range(2)]
        for number, one in enumerate(files * 2):
            one.write([row(user=str(number))])
        assert rows_in(folder) == [("0",), ("1",), ("2",), ("3",)]

    def test_where_there_is_none(self, folder):
        """Reading makes no file."""
        assert history_file(folder) == folder / "history.db"
        with (
            pytest.raises(FileNotFoundError, match=rf"^{history_file(folder)}: there is no such file$"),
            read_history(folder),
        ):
            pass
        assert not folder.exists()

    def test_it_keeps_its_writes_in_a_log_of_its_own(self, folder):
        """Readers and a writer are not in each other's way, and a write does not wait for the disk."""
        with closing(open_history(folder)) as sql:
            assert sql.execute("PRAGMA journal_mode").fetchone() == ("wal",)
            assert sql.execute("PRAGMA synchronous").fetchone() == (1,)
            assert sql.execute("PRAGMA busy_timeout").fetchone() == (2000,)

    def test_readers_cannot_write(self, file, folder):
        """Whatever they ask."""
        file.write([row()])
        with read_history(folder) as sql, pytest.raises(sqlite3.Error):
            sql.execute("DELETE FROM runs")


class TestFolder:
    def test_one_that_can_be_used(self, folder):
        """It is made, and so are those that hold it; one that is there is used."""
        for place in (folder, folder, folder / "of" / "mira"):
            assert why_no_history(place) is None
            assert history_file(place).exists()

    def test_a_network_file_system(self, folder, monkeypatch):
        """SQLite cannot be shared there."""
        monkeypatch.setattr(module, "network_file_system", lambda folder: "nfs4")
        assert why_no_history(folder) == (
            f"{folder} is on a network file system (nfs4); name a folder on a disk of this machine"
        )

    def test_no_folder(self, folder):
        """The reason is the system's."""
        folder.write_text("a file")
        assert why_no_history(folder) == f"{folder} cannot be used: File exists"


def ended_run(observers, user="mira"):
    run = observers.begin("r1", "/v1/chat/completions")
    run.user = user
    run.end("done")
    run.settle()
    return run


@pytest.fixture
def observers():
    return Observers()


@pytest.fixture
def keep(observers, file, monkeypatch):
    """`keep(row_of)`: a writer that observes, which is closed in the end."""
    monkeypatch.setattr(module, "RETRY_S", 0.01)
    made = []

    def start(row_of=lambda run: row(user=run.user), file=file):
        made.append(HistoryWriter(file, row_of))
        observers.observe(made[-1])
        return made[-1]

    yield start
    for one in made:
        one.close(PATIENCE_S)


class Stuck:
    """A file that fails so many times. `tried`: it has failed. `is_set_aside`: a new one was made."""

    def __init__(self, file, error, times=1):
        self._file, self._error, self._times = file, error, times
        self.tried, self.is_set_aside = threading.Event(), False

    def write(self, rows, lost=0):
        if self._times:
            self._times -= 1
            self.tried.set()
            raise self._error
        self._file.write(rows, lost)

    def close(self):
        self._file.close()

    def set_aside(self):
        self.is_set_aside = True
        self._file.set_aside()


class TestWriter:
    def test_every_run_that_ended(self, keep, observers, folder):
        """In their order; closing waits for what is not written yet."""
        writer = keep()
        for number in range(20):
            ended_run(observers, str(number))
        writer.close(PATIENCE_S)
        assert writer._file._connection is None
        assert rows_in(folder) == [(str(number),) for number in range(20)]

    def test_one_whose_next_prompt_is_read(self, keep, observers, folder):
        """Its row is written once, when its costs are final."""
        writer = keep(lambda run: row(user=run.user, costs=run.costs))
        run = observers.begin("r1", "/v1/chat/completions")
        run.end("done")
        ended_run(observers, "later")
        while writer._rows or writer._runs:
            threading.Event().wait(0.01)
        assert rows_in(folder) == [("later",)]
        run.user, run.costs = "mira", (Cost("USD", 5),)
        run.settle()
        run.settle()
        writer.close(PATIENCE_S)
        assert rows_in(folder) == [("later",), ("mira",)]
        with read_history(folder) as sql:
            assert sql.execute("SELECT millionths FROM costs").fetchall() == [(5,)]

    def test_one_that_does_not_settle(self, keep, observers, folder):
        """A process that ends writes what is known."""
        writer = keep()
        run = observers.begin("r1", "/v1/chat/completions")
        run.user = "mira"
        run.end("done")
        writer.close(1.0)
        run.settle()
        writer.close(PATIENCE_S)
        assert rows_in(folder) == [("mira",)]

    def test_a_run_that_has_not_ended(self, keep, observers, folder):
        """Is none, and makes no thread."""
        writer = keep()
        observers.begin("r1", "/").begin()
        writer.close(PATIENCE_S)
        assert not folder.exists()

    @pytest.mark.parametrize(
        "error",
        [OSError(28, "No space left on device"), sqlite3.OperationalError("database is locked")],
        ids=["disk-full", "locked"],
    )
    def test_what_cannot_be_written_waits(self, keep, observers, file, folder, caplog, error):
        """No answer notices; the log says so once, and when it works again."""
        caplog.set_level(logging.INFO)
        stuck = Stuck(file, error, times=3)
        writer = keep(file=stuck)
        ended_run(observers, "one")
        assert stuck.tried.wait(PATIENCE_S)
        ended_run(observers, "two")
        while writer._rows or writer._runs:
            threading.Event().wait(0.01)
        writer.close(PATIENCE_S)
        assert rows_in(folder) == [("one",), ("two",)]
        said = [record.getMessage() for record in caplog.records if "history" in record.getMessage()]
        assert len(said) == 2 and "cannot be written" in said[0] and "written again" in said[1]
        assert not stuck.is_set_aside

    def test_what_can_wait_no_longer_is_counted(self, keep, observers, file, folder, monkeypatch, caplog):
        """Those that come last are lost, and the history knows how many."""
        caplog.set_level(logging.INFO)
        monkeypatch.setattr(module, "MOST_WAITING", 2)
        monkeypatch.setattr(module, "RETRY_S", PATIENCE_S)
        stuck = Stuck(file, sqlite3.OperationalError("database is locked"))
        writer = keep(file=stuck)
        ended_run(observers, "one")
        assert stuck.tried.wait(PATIENCE_S)
        with writer._ready:  # the thread looks at nothing meanwhile
            for user in ("two", "three", "four"):
                ended_run(observers, user)
        assert writer.lost == 2
        writer.close(PATIENCE_S)
        assert rows_in(folder) == [("one",), ("two",)]
        with read_history(folder) as sql:
            assert sql.execute("SELECT runs FROM lost").fetchall() == [(2,)]
        assert "the history is written again; 2 runs were lost" in caplog.messages

    def test_its_thread_ends_with_the_process(self, keep, observers, monkeypatch):
        """It is called by its work, and holds up nobody; what waits is written at the exit."""
        kept = set()
        monkeypatch.setattr(module, "atexit", SimpleNamespace(register=kept.add, unregister=kept.discard))
        writer = keep()
        assert writer._thread is None
        ended_run(observers)
        assert (writer._thread.name, writer._thread.daemon) == ("history", True)
        assert kept == {writer.close}
        writer.close(PATIENCE_S)
        assert kept == set() and not writer._thread.is_alive()

    def test_rows_that_cannot_be_written(self, keep, observers, file, folder, caplog, monkeypatch):
        """They are lost alone, and counted."""
        writer = keep(lambda run: row(user=run.user, took_s=float("nan") if run.user == "odd" else 1.0))

        write = file.write

        def write_sound_ones(rows, lost=0):
            if any(one.took_s != one.took_s for one in rows):
                raise OverflowError("too large")
            write(rows, lost)

        monkeypatch.setattr(file, "write", write_sound_ones)
        with writer._ready:  # so that they are written together
            for user in ("one", "odd", "two"):
                ended_run(observers, user)
        while writer._rows or writer._runs:
            threading.Event().wait(0.01)
        writer.close(PATIENCE_S)
        assert rows_in(folder) == [("one",), ("two",)]
        assert caplog.text.count("a run could not be written to the history") == 1
        with read_history(folder) as sql:
            assert sql.execute("SELECT runs FROM lost").fetchall() == [(1,)]
        assert writer.lost == 0

    def test_numbers_beyond_all_sense(self, file, folder):
        """A backend's or a price list's; the database can hold them."""
        file.write([row(prompt=10**30, costs=(Cost("USD", 10**40),))])
        assert rows_in(folder, "prompt") == [(2**53,)]

    def test_a_damaged_file(self, keep, observers, folder):
        """Is set aside; a new one begins."""
        folder.mkdir()
        history_file(folder).write_bytes(b"no database, " * 100)
        writer = keep()
        ended_run(observers)
        while writer._rows or writer._runs:
            threading.Event().wait(0.01)
        writer.close(PATIENCE_S)
        assert rows_in(folder) == [("mira",)]
        assert [path.name for path in folder.iterdir() if "corrupt" in path.name]

    def test_a_run_that_makes_no_row(self, keep, observers, folder, caplog):
        """It is lost alone."""

        def row_of(run):
            if run.user == "odd":
                raise LookupError("odd")
            return row(user=run.user)

        writer = keep(row_of)
        ended_run(observers, "odd")
        ended_run(observers, "mira")
        writer.close(PATIENCE_S)
        assert rows_in(folder) == [("mira",)]
        assert "could not be written to the history" in caplog.text
        with read_history(folder) as sql:
            assert sql.execute("SELECT sum(runs) FROM lost").fetchone() == (1,)

    def test_a_file_that_stays_locked(self, keep, observers, folder):
        """Closing gives up; nothing hangs."""
        with closing(open_history(folder)) as other:
            other.execute("BEGIN EXCLUSIVE")
            writer = keep()
            ended_run(observers)
            writer.close(0.0)
            other.execute("ROLLBACK")
        writer.close(PATIENCE_S)
        assert rows_in(folder) == [("mira",)]
