"""What is special about the file that workers share: it may be busy, gone, or made by many at once."""

from __future__ import annotations

import sqlite3
import threading
from contextlib import closing

import pytest

from Middleware.services.shared_state import sqlite_store
from Middleware.services.shared_state.sqlite_store import SqliteStore
from Middleware.services.shared_state.store import StoreLost


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


def test_a_file_that_is_none_of_ours(tmp_path, monkeypatch):
    """It is left as it is."""
    monkeypatch.setattr(sqlite_store, "BUSY_TIMEOUT_S", 0.1)
    file = tmp_path / "workers.sqlite"
    file.write_bytes(b"something else" * 100)
    with pytest.raises(StoreLost, match="not a database"):
        SqliteStore(file, "one").join()
    assert file.read_bytes() == b"something else" * 100


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


def test_one_that_is_busy_while_it_is_opened(store, tmp_path):
    """Another worker makes it ready: this one waits."""
    store.join()
    late = SqliteStore(tmp_path / "workers.sqlite", "late")
    with closing(sqlite3.connect(tmp_path / "workers.sqlite", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        joining = threading.Thread(target=late.join)
        joining.start()
        other.execute("ROLLBACK")
        joining.join(20)
    assert late.beat()
    late.close()


def test_many_make_it_at_once(tmp_path):
    """All workers start in the same moment."""
    stores = [SqliteStore(tmp_path / "workers.sqlite", str(number)) for number in range(8)]
    threads = [threading.Thread(target=store.join) for store in stores]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
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
