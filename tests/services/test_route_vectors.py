"""Vectors of routing examples in a file: what is kept, what is dropped, and trouble that costs nothing."""

from __future__ import annotations

import hashlib
import logging
import os
import sqlite3
import sys
from array import array
from concurrent.futures import ThreadPoolExecutor

import pytest

from Middleware.services import route_vectors
from Middleware.services.route_vectors import RouteVectors, vector_key


@pytest.fixture
def store(tmp_path):
    return RouteVectors(tmp_path / "SqlLiteDBs" / "ana_routes.db")


def test_what_is_kept_is_found(store):
    """As 32-bit numbers; of a key that was kept twice the last."""
    store.keep({"a": [1.0, 2.5], "b": [3.0]})
    store.keep({"a": [4.0]})
    assert store.find(["a", "b", "c"]) == {"a": array("f", [4.0]), "b": array("f", [3.0])}


def test_looking_makes_no_file(store):
    assert store.find(["a"]) == {}
    assert not store.database.exists()


def test_more_keys_than_a_statement_takes(store):
    store.keep({str(n): [float(n)] for n in range(1200)})
    assert len(store.find([str(n) for n in range(1200)])) == 1200


def test_forgotten(store):
    store.keep({"a": [1.0], "b": [2.0]})
    store.forget(["a", "nothing"])
    assert set(store.find(["a", "b"])) == {"b"}


def test_the_first_ones_go(store, monkeypatch):
    """A file that people edit for years stays small."""
    monkeypatch.setattr(route_vectors, "MOST_ROWS", 3)
    for n in range(5):
        store.keep({str(n): [float(n)]})
    assert set(store.find("01234")) == {"2", "3", "4"}


@pytest.mark.skipif(sys.platform == "win32", reason="has no such modes")
def test_only_its_owner_can_read_it(store):
    store.keep({"a": [1.0]})
    assert os.stat(store.database).st_mode & 0o777 == 0o600


@pytest.mark.parametrize("column", ["x", b"", b"123"])
def test_a_row_that_holds_no_vector(store, column):
    """It counts as missing."""
    store.keep({"a": [1.0]})
    with sqlite3.connect(store.database) as sql:
        sql.execute("UPDATE vectors SET vector = ?", (column,))
    assert store.find(["a"]) == {}


def test_a_busy_file(store, monkeypatch, caplog):
    """Another process writes: what could not be kept is said, and nothing fails."""
    monkeypatch.setattr(route_vectors, "BUSY_TIMEOUT_S", 0.01)
    store.keep({"a": [1.0]})
    with sqlite3.connect(store.database) as other:
        other.execute("BEGIN EXCLUSIVE")
        store.keep({"b": [1.0]})
        assert store.find(["a"]) == {}
        store.forget(["a"])
    assert [record.levelno for record in caplog.records] == [logging.WARNING] * 3
    assert caplog.messages == [
        f"the vectors of routing examples could not be {what}: {store.database}: database is locked"
        for what in ("kept", "read", "forgotten")
    ]
    assert set(store.find(["a", "b"])) == {"a"}


def test_several_at_once(store):
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda n: store.keep({str(n): [float(n)]}), range(40)))
    assert len(store.find([str(n) for n in range(40)])) == 40


def test_keys_tell_everything_apart():
    """Where one part ends and the next begins, too; half a character is no trouble."""
    keys = {
        vector_key(*parts)
        for parts in (("a", "b", "c"), ("ab", "", "c"), ("a", "bc", ""), ("a", "b", "\ud800"))
    }
    assert len(keys) == 4
    assert vector_key("a", "b", "c") == hashlib.sha256(b'["a", "b", "c"]').hexdigest()


def test_its_limits():
    """Twenty thousand rows, and two seconds for others who write."""
    assert (route_vectors.MOST_ROWS, route_vectors.BUSY_TIMEOUT_S) == (20_000, 2.0)


def test_a_damaged_file_is_made_anew(store, caplog):
    """Nothing of it stays: all that was in it can be made again."""
    store.database.parent.mkdir(parents=True)
    store.database.write_bytes(b"no database at all" * 100)
    store.keep({"a": [1.0]})
    assert "could not be kept" in caplog.text
    assert list(store.database.parent.iterdir()) == []
    store.keep({"a": [1.0]})
    assert store.find(["a"]) == {"a": array("f", [1.0])}
