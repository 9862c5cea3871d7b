"""A database gets what another one has. Source: spec memory.md 15, 18.1 (7)."""

from __future__ import annotations

import sqlite3
import stat
from contextlib import closing

import pytest

from Middleware.services.discussion_store import DiscussionStore
from Middleware.workflows.memory import vector_store as vector_takeover
from Middleware.workflows.memory.vector_cache import VectorCache
from Middleware.workflows.memory.vector_store import ChunkRecord, VectorDatabase, is_sound, take_over
from Middleware.workflows.memory.vector_tables import StateReach
from tests.workflows.memory.test_vector_store import CHUNK, FACT, PEER_TABLES, database, store

__all__ = ["database", "store"]


class TestTakingOver:
    """One database gets what another one has."""

    @pytest.fixture
    def other(self, tmp_path):
        store = DiscussionStore(tmp_path / "discussions", "d", folder_name=".making-d")
        other = VectorDatabase(store)
        other.save(ChunkRecord("n2", ("n1", "n2")), [FACT, {**FACT, "summary": "Mara pays."}], after=None)
        other.save_vectors("m", {1: [1.0], 2: [2.0]})
        other.record_failure(ChunkRecord("n3", ("n3",)), "none")
        return other

    def test_everything_is_replaced(self, database, other, ask):
        database.save(CHUNK, [FACT] * 3, after=None)
        database.save_vectors("m", {1: [0.0]})
        take_over(database, other)
        assert ask("SELECT memory_text FROM memories") == [("Theo owes.",), ("Mara pays.",)]
        assert ask("SELECT rowid FROM memories_fts WHERE memories_fts MATCH 'pays'") == [(2,)]
        assert ask("SELECT memory_id, dim FROM memory_embeddings") == [(1, 1), (2, 1)]
        with database.reading() as log:
            assert list(log.chunk_hashes()) == ["n2"]
            assert log.chunks() == [("n1", "n2")]
            assert [failure.error for failure in log.failures()] == ["none"]

    def test_the_state_document_waits_for_as_many_facts_as_before(self, database, other, ask):
        """The ids are new; the newest ones wait."""
        database.save(CHUNK, [FACT], after=None, document=True)
        take_over(database, other)
        assert database.unmerged_memories() == (StateReach(1), [(2, "Mara pays.")])

    def test_a_document_that_knows_all_memories_knows_the_new_ones(self, database, other):
        database.save(CHUNK, [FACT] * 3, after=None, document=True)
        database.mark_merged(StateReach(3))
        take_over(database, other)
        assert database.unmerged_memories() == (StateReach(2), [])

    def test_what_was_there_is_kept(self, database, other):
        database.save(CHUNK, [FACT] * 3, after=None)
        take_over(database, other)
        backup = database.path.with_name("vector_memory.db.bak")
        with closing(sqlite3.connect(backup)) as connection:
            assert connection.execute("SELECT count(*) FROM memories").fetchone() == (3,)
        assert stat.S_IMODE(backup.stat().st_mode) == 0o600
        assert not list(database.path.parent.glob(".*.tmp"))

    def test_vectors_that_are_kept_in_memory_are_read_again(self, database, other):
        """As many as before, with the numbers of before: other ones all the same."""
        cache = VectorCache()
        database.save(CHUNK, [FACT] * 2, after=None)
        database.save_vectors("m", {1: [1.0, 0.0], 2: [0.0, 1.0]})
        assert [each for each, _ in cache.nearest(database.path, "m", [1.0, 0.0], 1)] == [1]
        other.save_vectors("m", {1: [0.0, 1.0], 2: [1.0, 0.0]})
        take_over(database, other)
        assert [each for each, _ in cache.nearest(database.path, "m", [1.0, 0.0], 1)] == [2]
        cache.close()

    def test_the_journal_of_the_file_stays_as_it_is(self, database, other, ask):
        database.path.parent.mkdir(parents=True, exist_ok=True)
        with closing(sqlite3.connect(database.path)) as connection:
            connection.executescript(PEER_TABLES)
        take_over(database, other)
        assert ask("PRAGMA journal_mode") == [("delete",)]

    def test_a_reader_sees_the_old_ones_or_the_new_ones(self, database, other, monkeypatch):
        """A kill in the middle of it changes nothing."""
        database.save(CHUNK, [FACT] * 3, after=None)
        monkeypatch.setitem(vector_takeover._COPIED, "memory_failures", "no_such, column")
        with pytest.raises(sqlite3.OperationalError):
            take_over(database, other)
        assert database.count() == 3


def test_a_database_is_sound_damaged_or_something_else(database):
    assert is_sound(database)
    database.save(CHUNK, [FACT] * 300, after=None)
    with closing(sqlite3.connect(database.path)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    assert (is_sound(database), database.count()) == (True, 300)
    whole = database.path.read_bytes()
    database.path.write_bytes(whole[:8192] + b"\xff" * 8192 + whole[16384:])
    assert not is_sound(database)
    database.path.write_bytes(b"text" * 1000)
    assert not is_sound(database)
