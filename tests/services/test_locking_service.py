"""Workflow locks: one holder at a time, over threads and processes, until its run ends or its process dies."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
import threading
import time
from contextlib import closing
from datetime import datetime, timedelta

import pytest

from Middleware.services import locking_service
from Middleware.services.locking_service import LockingService, lock_database, process_start
from tests.patience import PATIENCE_S

NOW = datetime(2026, 3, 5, 19, 0, 0)


@pytest.fixture
def database(tmp_path):
    return tmp_path / "locks" / "WilmerDb.ana.sqlite"


@pytest.fixture
def time_now():
    """The clock: a list of one moment, changed by a test."""
    return [NOW]


@pytest.fixture
def service(database, time_now):
    def make(instance="one", **options):
        options.setdefault("renew_every_s", None)
        return LockingService(database, instance, clock=lambda: time_now[0], **options)

    return make


@pytest.fixture
def dead_pid():
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


def rows(
    database, query="SELECT WilmerSessionId, WorkflowId, WorkflowLockId, ExpirationDate FROM WorkflowLocks"
):
    with closing(sqlite3.connect(database)) as connection:
        return connection.execute(query).fetchall()


def change(database, statement, *values):
    with closing(sqlite3.connect(database)) as connection, connection:
        connection.execute(statement, values)


class TestWhere:
    """The database file of a user."""

    def test_it_stands_in_the_lock_folder(self, tmp_path):
        assert (
            lock_database(tmp_path / "f", "Ana", install=tmp_path) == tmp_path / "f" / "WilmerDb.Ana.sqlite"
        )

    def test_an_old_place_is_used_if_it_is_only_there(self, tmp_path, monkeypatch):
        (tmp_path / "cwd").mkdir()
        monkeypatch.chdir(tmp_path / "cwd")
        installed = tmp_path / "WilmerDb.ana.sqlite"
        installed.touch()
        assert lock_database(tmp_path / "f", "ana", install=tmp_path) == installed
        (tmp_path / "cwd" / "WilmerDb.ana.sqlite").touch()
        assert lock_database(tmp_path / "f", "ana", install=tmp_path).parent.name == "cwd"

    def test_without_an_old_place_the_folder_is_the_only_one(self, tmp_path, monkeypatch):
        """Another installation's database in the working directory is not this one's."""
        monkeypatch.chdir(tmp_path)
        (tmp_path / "WilmerDb.ana.sqlite").touch()
        assert lock_database(tmp_path / "f", "ana").parent == tmp_path / "f"


class TestHolding:
    """Acquire, refuse, release, expire."""

    def test_a_free_lock_is_taken_for_ten_minutes(self, service, database):
        assert service().acquire("nightly", "run-1") is True
        assert rows(database) == [("one", "run-1", "nightly", "2026-03-05T19:10:00")]

    @pytest.mark.parametrize("instance", ["one", "two"])
    def test_a_held_lock_is_refused_to_everybody(self, service, instance):
        service().acquire("nightly", "run-1")
        assert service(instance).acquire("nightly", "run-2") is False

    def test_locks_are_not_reentrant(self, service):
        locks = service()
        assert [locks.acquire("nightly", "run-1"), locks.acquire("nightly", "run-1")] == [True, False]

    def test_other_locks_are_free(self, service):
        locks = service()
        assert locks.acquire("a", "run-1") and locks.acquire("A", "run-1")

    def test_an_expired_lock_of_nobody_known_is_taken_over(self, service, database, time_now):
        service().acquire("nightly", "run-1")
        change(database, "DELETE FROM Instances")
        time_now[0] += timedelta(minutes=10)
        assert service("two").acquire("nightly", "run-2") is True
        assert [row[1] for row in rows(database)] == ["run-2"]

    @pytest.mark.parametrize(
        "end", ["2026-03-05 19:09:59", "nonsense", None], ids=["blank-form", "text", "null"]
    )
    def test_rows_of_others_are_understood(self, service, database, end):
        service().acquire("other", "x")
        change(
            database,
            "INSERT INTO WorkflowLocks (WilmerSessionId, WorkflowId, WorkflowLockId, ExpirationDate)"
            " VALUES ('peer', 'w', 'nightly', ?)",
            end,
        )
        assert service().acquire("nightly", "run-1") is (end != "2026-03-05 19:09:59")

    @pytest.mark.skipif(not hasattr(time, "tzset"), reason="the zone of a process cannot be set")
    @pytest.mark.parametrize(
        ("taken", "later"),
        [
            (datetime(2026, 3, 29, 1, 55), datetime(2026, 3, 29, 3, 4)),
            (datetime(2026, 10, 25, 2, 55), datetime(2026, 10, 25, 2, 4, fold=1)),
        ],
        ids=["spring", "autumn"],
    )
    def test_a_change_of_the_clock_ends_no_lock(self, service, database, time_now, berlin, taken, later):
        """Nine minutes have passed, then more than an hour."""
        time_now[0] = taken
        service().acquire("nightly", "run-1")
        change(database, "DELETE FROM Instances")
        time_now[0] = later
        assert service("two").acquire("nightly", "run-2") is False
        time_now[0] = later + timedelta(hours=1, minutes=2)
        assert service("two").acquire("nightly", "run-2") is True

    def test_release_gives_back_all_locks_of_a_run_and_no_other(self, service, database):
        locks = service()
        for lock_id, run in (("a", "run-1"), ("b", "run-1"), ("c", "run-2")):
            locks.acquire(lock_id, run)
        locks.release("run-1")
        assert [row[2] for row in rows(database)] == ["c"]

    def test_a_run_that_took_none_costs_nothing(self, service, database):
        service().release("run-1")
        assert not database.exists()

    def test_only_one_of_many_threads_gets_it(self, service):
        locks, got = service(), []
        threads = [
            threading.Thread(target=lambda n=n: got.append(locks.acquire("x", f"run-{n}"))) for n in range(8)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(got) == [False] * 7 + [True]


class TestLife:
    """Whoever wants a lock asks whether its owner lives; the clock decides only where nobody can tell."""

    @pytest.mark.parametrize("wanting", ["one", "two"], ids=["same-server", "other-server"])
    def test_the_clock_takes_no_lock_from_a_living_process(self, service, time_now, wanting):
        """A machine that slept, or whose clock was set, comes back with its locks."""
        owner = service("one")
        owner.acquire("nightly", "run-1")
        time_now[0] += timedelta(days=1)
        taker = {"one": owner, "two": service("two")}[wanting]
        assert taker.acquire("nightly", "run-2") is False

    def test_a_running_server_frees_the_lock_of_a_process_that_is_gone(self, service, database, dead_pid):
        """Without waiting for the time to run out, or for a restart."""
        service("gone").acquire("nightly", "run-1")
        change(database, "UPDATE Instances SET Pid = ?", dead_pid)
        assert service("two").acquire("nightly", "run-2") is True
        assert [row[:2] for row in rows(database)] == [("two", "run-2")]

    @pytest.mark.skipif(not process_start(os.getpid()).strip(), reason="this system does not tell")
    @pytest.mark.parametrize("part", [0, 2], ids=["boot", "start"])
    def test_a_number_that_another_process_has_now_is_no_life(self, service, database, part):
        """The process that took the lock is gone, after a restart of the machine or without one."""
        service("gone").acquire("nightly", "run-1")
        known = process_start(os.getpid()).split(" ")
        known[part] = "0"
        change(database, "UPDATE InstanceStarts SET Started = ?", " ".join(known))
        assert service("two").acquire("nightly", "run-2") is True

    @pytest.mark.skipif(not process_start(os.getpid()).strip(), reason="this system does not tell")
    def test_no_container_outlives_the_machine(self, service, database):
        """What could not be seen is gone with it."""
        service("far").acquire("nightly", "run-1")
        *_, tick = process_start(os.getpid()).split(" ")
        change(database, "UPDATE InstanceStarts SET Started = ?", f"0 elsewhere {tick}")
        assert service("two").acquire("nightly", "run-2") is True

    @pytest.mark.skipif(not process_start(os.getpid()).strip(), reason="this system does not tell")
    @pytest.mark.parametrize(("minutes", "free"), [(9, False), (11, True)], ids=["in-time", "expired"])
    def test_a_process_that_cannot_be_seen_has_its_time(
        self, service, database, dead_pid, time_now, minutes, free
    ):
        """In another container that shares the machine's name a number says nothing."""
        service("far").acquire("nightly", "run-1")
        boot, _, tick = process_start(os.getpid()).split(" ")
        change(database, "UPDATE InstanceStarts SET Started = ?", f"{boot} elsewhere {tick}")
        change(database, "UPDATE Instances SET Pid = ?", dead_pid)
        time_now[0] += timedelta(minutes=minutes)
        assert service("two").acquire("nightly", "run-2") is free

    @pytest.mark.parametrize(("minutes", "free"), [(9, False), (11, True)], ids=["in-time", "expired"])
    def test_where_the_system_does_not_tell_the_time_decides(
        self, service, time_now, monkeypatch, minutes, free
    ):
        """A living number alone is no proof."""
        monkeypatch.setattr(locking_service, "process_start", lambda pid: "  ")
        service("one").acquire("nightly", "run-1")
        time_now[0] += timedelta(minutes=minutes)
        assert service("two").acquire("nightly", "run-2") is free

    def test_a_process_that_is_gone_has_no_start(self, dead_pid):
        """Its number may be anybody's next."""
        assert process_start(dead_pid).strip() == ""


class TestRenewal:
    """The owner keeps its locks while its run lives."""

    def test_renew_gives_the_full_time_again(self, service, database, time_now):
        locks = service()
        locks.acquire("nightly", "run-1")
        time_now[0] += timedelta(minutes=9)
        locks.renew("run-1")
        assert rows(database)[0][3] == "2026-03-05T19:19:00"

    def test_held_locks_are_renewed_in_the_background_until_they_are_given_back(self, service, time_now):
        locks, renewed = service(renew_every_s=0.01), threading.Event()
        locks.renew = lambda run: renewed.set()
        locks.acquire("nightly", "run-1")
        keepers = [t for t in threading.enumerate() if t.name == "lock-renewal"]
        locks.acquire("other", "run-2")
        assert renewed.wait(PATIENCE_S) and len(keepers) == 1
        locks.release("run-1")
        assert keepers[0].is_alive()
        locks.release("run-2")
        keepers[0].join(PATIENCE_S)
        assert not keepers[0].is_alive()


class TestTrouble:
    """A database that cannot be used does not stop a chat."""

    def test_without_a_database_the_workflow_goes_on(self, tmp_path, caplog):
        (tmp_path / "file").touch()
        locks = LockingService(tmp_path / "file" / "db.sqlite", "one")
        assert locks.acquire("nightly", "run-1") is True
        assert "without lock" in caplog.text

    @pytest.mark.parametrize("damage", ["another-file", "broken-page"])
    def test_a_damaged_database_is_replaced(self, database, service, caplog, damage):
        """It is kept under another name, and locks hold again."""
        if damage == "another-file":
            database.parent.mkdir()
            broken = b"this is not a database at all" * 50
        else:
            service().acquire("nightly", "run-0")
            service().release("run-0")
            broken = database.read_bytes()[:4096] + b"\xff" * 4096 * 7
        database.write_bytes(broken)
        assert [service().acquire("nightly", run) for run in ("run-1", "run-2")] == [True, False]
        (aside,) = database.parent.glob("*.corrupt-*")
        assert (aside.read_bytes(), "was damaged" in caplog.text) == (broken, True)

    def test_a_damaged_database_is_replaced_at_the_start_too(self, database, service):
        database.parent.mkdir()
        database.write_bytes(b"this is not a database at all" * 50)
        service().remove_dead()
        assert not database.exists()

    def test_one_that_cannot_be_moved_away_is_no_lock(self, database, service, caplog, monkeypatch):
        def refuse(file, seen):
            raise PermissionError(13, "Permission denied")

        monkeypatch.setattr(locking_service, "set_aside", refuse)
        database.parent.mkdir()
        database.write_bytes(b"this is not a database at all" * 50)
        assert service().acquire("nightly", "run-1") is True
        assert "without lock" in caplog.text and "cannot be moved away" in caplog.text

    def test_a_busy_database_counts_as_held(self, service, database, monkeypatch):
        monkeypatch.setattr(locking_service, "BUSY_TIMEOUT_S", 0.05)
        service().acquire("other", "x")
        with closing(sqlite3.connect(database, isolation_level=None)) as connection:
            connection.execute("BEGIN EXCLUSIVE")
            assert service().acquire("nightly", "run-1") is False

    def test_a_failed_release_is_a_warning(self, service, database, caplog, monkeypatch):
        monkeypatch.setattr(locking_service, "BUSY_TIMEOUT_S", 0.05)
        locks = service()
        locks.acquire("nightly", "run-1")
        with closing(sqlite3.connect(database, isolation_level=None)) as connection:
            connection.execute("BEGIN EXCLUSIVE")
            locks.release("run-1")
        assert "could not be updated" in caplog.text

    def test_an_error_rolls_everything_back(self, service, database, monkeypatch):
        locks = service()
        locks.acquire("other", "x")

        def fails(connection):
            raise sqlite3.OperationalError("disk I/O error")

        monkeypatch.setattr(locks, "_beat", fails)
        assert locks.acquire("nightly", "run-1") is True
        assert [row[2] for row in rows(database)] == ["other"]

    def test_a_full_disk_is_named(self, service, caplog, monkeypatch):
        """SQLite has rolled back by itself then; the warning still tells why."""
        locks = service()

        def fails(connection):
            connection.execute("ROLLBACK")
            raise sqlite3.OperationalError("database or disk is full")

        monkeypatch.setattr(locks, "_beat", fails)
        assert locks.acquire("nightly", "run-1") is True
        assert "disk is full" in caplog.text


class TestStart:
    """At start only rows that are expired, or whose process is dead, go."""

    def put(self, database, instance, *, host, pid, beat):
        change(database, "INSERT OR REPLACE INTO Instances VALUES (?, ?, ?, ?)", instance, host, pid, beat)

    def test_without_a_database_none_is_made(self, service, database):
        service().remove_dead()
        assert not database.exists()

    def test_rows_of_a_live_process_stay(self, service, database):
        service("two").acquire("nightly", "run-1")
        service("one").remove_dead()
        assert len(rows(database)) == 1

    def test_rows_of_a_dead_process_of_this_machine_go_at_once(self, service, database, dead_pid):
        service("two").acquire("nightly", "run-1")
        change(database, "UPDATE Instances SET Pid = ?", dead_pid)
        service("one").remove_dead()
        assert rows(database) == rows(database, "SELECT * FROM Instances") == []

    @pytest.mark.parametrize(("age", "left"), [(10, 1), (1000, 0)], ids=["beating", "silent"])
    def test_another_machine_is_judged_by_its_heartbeat(self, service, database, dead_pid, age, left):
        service("two").acquire("nightly", "run-1")
        change(
            database, "UPDATE Instances SET Host = 'far', Pid = ?, Heartbeat = Heartbeat - ?", dead_pid, age
        )
        service("one").remove_dead()
        assert len(rows(database)) == left

    def test_rows_of_an_unknown_instance_stay_until_they_expire(self, service, database, time_now):
        service("two").acquire("nightly", "run-1")
        change(database, "DELETE FROM Instances")
        service("one").remove_dead()
        assert len(rows(database)) == 1
        time_now[0] += timedelta(minutes=11)
        service("one").remove_dead()
        assert rows(database) == []

    @pytest.mark.parametrize(("raised", "lives"), [(PermissionError, True), (ProcessLookupError, False)])
    def test_a_process_that_may_not_be_signalled_lives(self, monkeypatch, raised, lives):
        def kill(pid, signal):
            raise raised

        monkeypatch.setattr(locking_service.os, "kill", kill)
        assert locking_service.process_lives(os.getpid()) is lives

    def test_processes_are_not_asked_where_asking_would_end_them(self, monkeypatch, dead_pid):
        monkeypatch.setattr(locking_service.os, "name", "nt")
        assert locking_service.process_lives(dead_pid) is True
