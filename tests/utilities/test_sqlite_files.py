"""Damaged SQLite files: what counts as damage, and who moves the file away."""

from __future__ import annotations

import sqlite3
from contextlib import closing

import pytest

from Middleware.utilities.file_locks import identity_of, is_damage, set_aside


@pytest.fixture
def file(tmp_path):
    return tmp_path / "state.sqlite"


def error_of(file, statement="SELECT * FROM sqlite_master"):
    with closing(sqlite3.connect(file, timeout=0)) as connection, pytest.raises(sqlite3.Error) as caught:
        connection.execute(statement)
    return caught.value


def test_what_is_no_database_is_damage(file):
    file.write_bytes(b"words" * 500)
    assert is_damage(error_of(file))


def test_a_wrong_statement_and_a_busy_file_are_none(file):
    """The file is as it should be."""
    assert not is_damage(error_of(file, "SELECT * FROM nothing"))
    with closing(sqlite3.connect(file, isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        assert not is_damage(error_of(file))


def test_a_file_is_moved_away_with_what_lies_beside_it(file):
    """Else the next database of that name would be read with the old one's log."""
    for ending in ("", "-wal", "-shm", "-journal"):
        file.with_name(file.name + ending).write_bytes(b"old")
    aside = set_aside(file, identity_of(file))
    assert aside.read_bytes() == b"old"
    assert list(file.parent.iterdir()) == [aside]


def test_the_file_of_another_process_stays(file):
    """Two found the damage: the second one finds the new file already."""
    file.write_bytes(b"old")
    seen = identity_of(file)
    kept = set_aside(file, seen)
    file.write_bytes(b"new")
    assert set_aside(file, seen) is None
    assert (kept.read_bytes(), file.read_bytes()) == (b"old", b"new")


def test_a_file_that_is_not_there_is_not_moved(file):
    assert set_aside(file, identity_of(file)) is None
