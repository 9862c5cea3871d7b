"""SQLite files are copied and put back while others use them. Source: spec operate.md 3, 6."""

from __future__ import annotations

import sqlite3
import stat
import threading
from contextlib import closing

import pytest

from Middleware.utilities.file_locks import is_damage
from Middleware.utilities.sqlite_files import copy_database, restore_database


def fill(path, *values, wal=True):
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(f"PRAGMA journal_mode = {'WAL' if wal else 'DELETE'}")
        connection.execute("CREATE TABLE IF NOT EXISTS facts (value)")
        connection.executemany("INSERT INTO facts VALUES (?)", [(each,) for each in values])


def values_in(path):
    with closing(sqlite3.connect(path)) as connection:
        return [value for (value,) in connection.execute("SELECT value FROM facts ORDER BY rowid")]


@pytest.fixture
def live(tmp_path):
    fill(tmp_path / "live.db", 1, 2)
    return tmp_path / "live.db"


class TestCopying:
    """copy_database."""

    def test_a_copy_is_one_file_of_the_owner(self, live, tmp_path):
        """Also what lies in the write-ahead log of an open connection is in it."""
        with closing(sqlite3.connect(live)) as writer:
            writer.execute("INSERT INTO facts VALUES (3)")
            writer.commit()
            copy_database(live, tmp_path / "copy.db")
        assert sorted(path.name for path in tmp_path.glob("copy*")) == ["copy.db"]
        assert stat.S_IMODE((tmp_path / "copy.db").stat().st_mode) == 0o600
        assert values_in(tmp_path / "copy.db") == [1, 2, 3]

    def test_it_ends_while_somebody_writes_all_the_time(self, live, tmp_path):
        """In steps it would begin again with each write. What it holds is of one moment."""
        stop = threading.Event()

        def write():
            with closing(sqlite3.connect(live, timeout=60)) as writer:
                while not stop.is_set():
                    with writer:
                        writer.executemany("INSERT INTO facts VALUES (?)", [(0,), (0,)])

        thread = threading.Thread(target=write)
        thread.start()
        try:
            for number in range(5):
                copy_database(live, tmp_path / f"copy{number}.db")
        finally:
            stop.set()
            thread.join()
        assert all(len(values_in(tmp_path / f"copy{number}.db")) % 2 == 0 for number in range(5))

    def test_a_file_that_is_there_is_not_written_over(self, live, tmp_path):
        (tmp_path / "copy.db").write_text("mine")
        with pytest.raises(FileExistsError):
            copy_database(live, tmp_path / "copy.db")
        assert (tmp_path / "copy.db").read_text() == "mine"

    def test_what_is_no_database_leaves_no_copy(self, tmp_path):
        (tmp_path / "odd.db").write_bytes(b"text" * 1000)
        with pytest.raises(sqlite3.DatabaseError) as refused:
            copy_database(tmp_path / "odd.db", tmp_path / "copy.db")
        assert is_damage(refused.value)
        assert not (tmp_path / "copy.db").exists()

    def test_a_database_that_is_missing_is_not_made(self, tmp_path):
        with pytest.raises(sqlite3.OperationalError):
            copy_database(tmp_path / "none.db", tmp_path / "copy.db")
        assert list(tmp_path.iterdir()) == []


class TestRestoring:
    """restore_database."""

    @pytest.mark.parametrize("wal", [True, False], ids=["wal", "delete"])
    def test_an_open_connection_sees_what_was_put_back(self, live, tmp_path, wal):
        fill(tmp_path / "kept.db", 7, wal=wal)
        with closing(sqlite3.connect(live)) as reader:
            assert reader.execute("SELECT count(*) FROM facts").fetchone() == (2,)
            restore_database(tmp_path / "kept.db", live)
            assert reader.execute("SELECT value FROM facts").fetchall() == [(7,)]
            assert reader.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        assert values_in(live) == [7]

    def test_nothing_empties_it(self, live):
        restore_database(None, live)
        with closing(sqlite3.connect(live)) as reader:
            assert reader.execute("SELECT count(*) FROM sqlite_master").fetchone() == (0,)

    def test_one_that_is_missing_is_made(self, live, tmp_path):
        restore_database(live, tmp_path / "new.db")
        assert values_in(tmp_path / "new.db") == [1, 2]
