"""What is special about the file that workers share: it may be busy, gone, or made by many at once."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
import threading
import time
from contextlib import closing
from types import SimpleNamespace

import pytest

from Middleware.services.shared_state import sqlite_store
from Middleware.services.shared_state.sqlite_store import SqliteStore
from Middleware.services.shared_state.store import Note, StoreLost
from tests.clock import Clock
from tests.patience import PATIENCE_S


@pytest.fixture
def store(tmp_path):
    made = SqliteStore(tmp_path / "workers.sqlite", "one")
    yield made
    made.close()


def test_a_folder_that_cannot_be(tmp_path):
    """The error names the file."""
    (tmp_path / "taken").write_text("no folder")
    with pytest.raises(StoreLost, match=r"workers\.sqlite"):
        SqliteStore(tmp_path / "taken" / "workers.sqlite", "one").join()


def test_a_file_that_is_none_of_ours(tmp_path, caplog):
    """The call that finds it is lost; the file is kept under another name, and the next call has a new one."""
    file = tmp_path / "workers.sqlite"
    file.write_bytes(b"something else" * 100)
    made = SqliteStore(file, "one")
    with pytest.raises(StoreLost, match="not a database"):
        made.join()
    made.join()
    made.put("key", "k", "v")
    assert made.find("key", "k") == "v"
    made.close()
    (aside,) = tmp_path.glob("*.corrupt-*")
    assert (aside.read_bytes(), "was damaged" in caplog.text) == (b"something else" * 100, True)


def test_one_that_is_damaged_while_it_is_used(store, tmp_path):
    """Of several workers one moves it away, and all of them meet in the new one."""
    other = SqliteStore(tmp_path / "workers.sqlite", "two")
    store.join()
    other.join()
    for file in tmp_path.glob("workers.sqlite*"):
        file.write_bytes(b"\xff" * file.stat().st_size)
    for each in (store, other):
        with pytest.raises(StoreLost):
            for _ in range(3):
                each.put("key", "k", "v")
    store.join()
    other.join()
    store.put("key", "k", "v")
    assert other.find("key", "k") == "v"
    assert len(list(tmp_path.glob("*.corrupt-*"))) == 1
    other.close()


def test_one_that_others_hold_for_too_long(store, tmp_path, monkeypatch):
    """It counts as lost, and works again afterwards."""
    monkeypatch.setattr(sqlite_store, "BUSY_TIMEOUT_S", 0.05)
    store.join()
    with closing(sqlite3.connect(tmp_path / "workers.sqlite", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreLost, match="locked"):
            store.put("key", "k", "v")
        other.execute("ROLLBACK")
    store.put("key", "k", "v")
    assert store.find("key", "k") == "v"


class Busy:
    """A connection that others are before, so often."""

    def __init__(self, times, work="BEGIN"):
        self.times, self.work, self.in_transaction, self.said = times, work, False, []

    def execute(self, statement):
        self.said.append(statement.split()[0])
        if statement.startswith(self.work) and self.times:
            self.times -= 1
            raise sqlite3.OperationalError("database is locked")


def test_a_transaction_waits_for_those_of_others(monkeypatch):
    """Until the time is over."""
    clock, busy = Clock(), Busy(3)
    monkeypatch.setattr(
        sqlite_store,
        "time",
        SimpleNamespace(monotonic=clock, sleep=lambda seconds: setattr(clock, "now", clock.now + seconds)),
    )
    sqlite_store._begin(busy, "IMMEDIATE")
    assert busy.said == ["BEGIN"] * 4 + ["SELECT"] and clock.now == 3 * sqlite_store.POLL_S
    with pytest.raises(sqlite3.OperationalError):
        sqlite_store._begin(Busy(10**6), "IMMEDIATE")
    assert clock.now > sqlite_store.BUSY_TIMEOUT_S


@pytest.mark.parametrize("work", ["BEGIN", "PRAGMA"])
def test_the_last_try_is_when_the_time_is_over_to_the_moment(monkeypatch, work):
    """Of a transaction, and of opening the file: at 0, 0.5 and 1 second, and once more behind it."""
    clock, busy = Clock(), Busy(10**6, work)
    clock.now = 0.0
    monkeypatch.setattr(sqlite_store, "POLL_S", 0.5)
    monkeypatch.setattr(
        sqlite_store,
        "time",
        SimpleNamespace(monotonic=clock, sleep=lambda seconds: setattr(clock, "now", clock.now + seconds)),
    )
    with pytest.raises(sqlite3.OperationalError):
        sqlite_store._begin(busy, "IMMEDIATE") if work == "BEGIN" else sqlite_store._make_ready(busy)
    assert busy.said == [work] * 4 and clock.now == 1.5


def test_one_that_is_busy_while_it_is_opened(store, tmp_path):
    """Another worker makes it ready: this one waits."""
    store.join()
    late = SqliteStore(tmp_path / "workers.sqlite", "late")
    with closing(sqlite3.connect(tmp_path / "workers.sqlite", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        joining = threading.Thread(target=late.join)
        joining.start()
        other.execute("ROLLBACK")
        joining.join(PATIENCE_S)
    assert late.beat()
    late.close()


def test_between_two_tries_to_open_it_there_is_a_pause(store, tmp_path, monkeypatch):
    """In which the worker that holds it can go on: here it lets go in just that moment."""
    pauses = []
    with closing(sqlite3.connect(tmp_path / "workers.sqlite", isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")

        def pause(seconds):
            pauses.append(seconds)
            if other.in_transaction:
                other.execute("ROLLBACK")

        clock = SimpleNamespace(monotonic=time.monotonic, sleep=pause)
        monkeypatch.setattr(sqlite_store, "time", clock)
        store.join()
    assert store.beat()
    assert pauses == [sqlite_store.POLL_S]


def test_many_make_it_at_once(tmp_path):
    """All workers start in the same moment."""
    stores = [SqliteStore(tmp_path / "workers.sqlite", str(number)) for number in range(8)]
    threads = [threading.Thread(target=store.join) for store in stores]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE_S)
    assert all(store.beat() for store in stores)
    for store in stores:
        store.close()


def test_an_interrupted_call_leaves_nothing_open(store, monkeypatch):
    """The next one begins anew."""
    store.join()

    def interrupted(*given):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(store, "_write", interrupted)
        with pytest.raises(KeyboardInterrupt):
            store.put("key", "k", "v")
    assert store.find("key", "k") is None
    store.put("key", "k", "v")
    assert store.find("key", "k") == "v"


WAITS = """
import sqlite3, sys
from gevent import monkey
monkey.patch_all()
import gevent
from pathlib import Path
from Middleware.services.shared_state.sqlite_store import SqliteStore

store = SqliteStore(Path(sys.argv[1]), "one")
store.join()
other = sqlite3.connect(sys.argv[1], isolation_level=None)
other.execute("BEGIN IMMEDIATE")
stream = gevent.spawn(other.execute, "ROLLBACK")
print(store.beat())
"""


def test_who_waits_for_the_file_lets_other_streams_go_on(tmp_path):
    """Under gevent, where they share one thread: here one of them ends the wait."""
    pytest.importorskip("gevent")
    words = [sys.executable, "-c", WAITS, str(tmp_path / "workers.sqlite")]
    done = subprocess.run(words, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert (done.stdout, done.stderr) == ("True\n", "")


def test_its_clock_is_one_that_nobody_sets(store, tmp_path):
    """The time of day jumps; then the living would be dead."""
    before = time.monotonic()
    store.join()
    with closing(sqlite3.connect(tmp_path / "workers.sqlite")) as other:
        ((beat,),) = other.execute("SELECT Beat FROM Members").fetchall()
    assert before <= beat <= time.monotonic()


@pytest.mark.parametrize("comes_back", [True, False], ids=["anew", "not-yet"])
def test_a_file_that_was_removed(store, tmp_path, comes_back):
    """With its next beat a worker goes to the one of that name, where those are that began later."""
    store.join()
    for file in tmp_path.glob("workers.sqlite*"):
        file.unlink()
    late = SqliteStore(tmp_path / "workers.sqlite", "late")
    if comes_back:
        late.join()
    assert not store.beat()
    store.join()
    late.join()
    store.put("key", "k", "v")
    assert late.find("key", "k") == "v"
    late.close()


def test_a_store_that_is_closed_lets_its_file_go(store):
    """At once, not when the garbage is collected; the connection is held here. Another call makes a new one."""
    store.join()
    held = store._connection
    store.close()
    with pytest.raises(sqlite3.ProgrammingError):
        held.execute("SELECT 1")
    store.join()
    assert store._connection is not held


def test_a_note_that_goes_takes_its_marks_along(store, tmp_path):
    """The file does not grow by what nobody can find."""
    store.join()
    for marks in (("a", "b"), ("c",)):
        store.keep_note("s", Note("k", "v", marks))
    with closing(sqlite3.connect(tmp_path / "workers.sqlite")) as connection:
        assert connection.execute("SELECT Mark FROM Marks").fetchall() == [("c",)]


@pytest.mark.parametrize(("age_s", "heard"), [(30.0, ["hello"]), (30.5, [])])
def test_a_message_is_kept_for_half_a_minute(tmp_path, age_s, heard):
    """For those who come late; a beat removes what is older."""
    now = [1000.0]
    one = SqliteStore(tmp_path / "workers.sqlite", "one", lambda: now[0])
    one.join()
    one.tell("hello")
    now[0] += age_s
    one.join()
    one.beat()
    late = SqliteStore(tmp_path / "workers.sqlite", "late", lambda: now[0])
    assert late.receive(0) == heard  # from the first one on, also before it joins
    late.close()
    one.close()


def test_the_sums_of_days_that_are_over_go(tmp_path):
    """Of the same name."""
    store = SqliteStore(tmp_path / "workers.sqlite", "one")
    store.join()
    for name, day in (("ann", "2026-11-27"), ("ben", "2026-11-27"), ("ann", "2026-11-28")):
        store.count(name, day, {"prompt": 1}, {})
    with closing(sqlite3.connect(tmp_path / "workers.sqlite")) as connection:
        rows = connection.execute("SELECT Name, Day FROM Days ORDER BY Name").fetchall()
    assert rows == [("ann", "2026-11-28"), ("ben", "2026-11-27")]
    store.close()
