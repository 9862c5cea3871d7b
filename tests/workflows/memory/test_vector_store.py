"""The database of vector memories: its tables, one chunk in one step, and what it never touches.

Source: spec memory.md 8.1, 8.2, 18.1 (7), 18.2 (10), 18.5.
"""

from __future__ import annotations

import json
import shutil
import sqlite3
import stat
import struct
import threading
from contextlib import closing
from datetime import datetime

import pytest

from Middleware.services.discussion_store import DiscussionStore
from Middleware.workflows.memory import vector_store
from Middleware.workflows.memory.vector_store import (
    ChunkRecord,
    NotADatabaseOfMemories,
    VectorDatabase,
    connect_read_only,
    index_text,
)

FACT = {
    "title": "Debt",
    "summary": "Theo owes.",
    "entities": ["Theo", 'the "fox"'],
    "key_phrases": ["ferry ticket", "debt"],
}
CHUNK = ChunkRecord("h2", ("h1", "h2"))
PEER_SCHEMA = """
CREATE TABLE memories (id INTEGER PRIMARY KEY, discussion_id TEXT NOT NULL, memory_text TEXT NOT NULL,
    date_added TEXT NOT NULL, metadata_json TEXT);
CREATE VIRTUAL TABLE memories_fts USING fts5(title, summary, entities, key_phrases, memory_text_unweighted,
    tokenize='porter');
CREATE TABLE vector_memory_hash_log (id INTEGER PRIMARY KEY AUTOINCREMENT, discussion_id TEXT NOT NULL,
    message_hash TEXT NOT NULL, timestamp DATETIME NOT NULL);
"""
PEER_TABLES = f"""{PEER_SCHEMA}
INSERT INTO vector_memory_hash_log (discussion_id, message_hash, timestamp) VALUES ('d', 'old', '2031-01-01T00:00:00');
"""


@pytest.fixture
def store(tmp_path):
    return DiscussionStore(tmp_path / "discussions", "d", install=tmp_path / "install")


@pytest.fixture
def database(store):
    return VectorDatabase(store)


def newest(database):
    with database.reading() as log:
        return log.newest()


class TestSaving:
    """Rows of three tables in one transaction."""

    def test_a_memory_is_a_row_in_both_tables(self, database, ask):
        """The whole object as metadata; lists as words without double quotes."""
        assert database.save(CHUNK, [FACT], after=None) == {1: "Theo owes."}
        assert ask("SELECT discussion_id, memory_text, metadata_json FROM memories") == [
            ("d", "Theo owes.", json.dumps(FACT))
        ]
        assert ask("SELECT rowid, * FROM memories_fts") == [
            (1, "Debt", "Theo owes.", "Theo the fox", "ferry ticket debt", "Theo owes.")
        ]

    def test_dates_are_utc_with_offset_and_microseconds(self, database, ask):
        database.save(CHUNK, [FACT], after=None)
        ((date,),) = ask("SELECT date_added FROM memories")
        assert datetime.fromisoformat(date).utcoffset().total_seconds() == 0
        assert len(date) == len("2031-05-04T10:20:30.123456+00:00")

    def test_topics_are_indexed_on_wish(self, database, ask):
        database.save(CHUNK, [{**FACT, "topics": ["coast"]}, FACT], after=None, index_topics=True)
        assert ask("SELECT key_phrases FROM memories_fts") == [
            ("ferry ticket debt coast",),
            ("ferry ticket debt",),
        ]

    def test_the_chunk_is_logged_with_its_messages(self, database):
        database.save(CHUNK, [], after=None)
        with database.reading() as log:
            assert (list(log.chunk_hashes()), log.chunks()) == (["h2"], [("h1", "h2")])

    def test_a_chunk_made_from_an_older_state_is_not_stored(self, database, ask):
        """Another one was faster."""
        database.save(CHUNK, [FACT], after=None)
        assert database.save(ChunkRecord("h3", ("h3",)), [FACT], after=None) is None
        assert ask("SELECT count(*) FROM memories") == [(1,)]

    def test_a_failure_in_the_middle_stores_nothing(self, database, ask):
        """Neither the first memory nor the log."""
        with pytest.raises(sqlite3.Error):
            database.save(CHUNK, [FACT, {**FACT, "title": {"not": "text"}}], after=None)
        assert ask("SELECT count(*) FROM memories") == [(0,)]
        assert newest(database) is None

    def test_whatever_goes_wrong_is_undone_and_goes_on(self, database, ask):
        """The very failure, and the database can be written again."""
        database.save(CHUNK, [FACT], after=None)
        failure = LookupError("it broke")
        with pytest.raises(LookupError) as caught, database.writing() as connection:
            connection.execute("DELETE FROM memories")
            raise failure
        assert caught.value is failure
        assert ask("SELECT count(*) FROM memories") == [(1,)]
        assert database.save(ChunkRecord("h3", ("h3",)), [], after="h2") == {}

    def test_the_newest_chunk_is_the_one_logged_last(self, database):
        database.save(CHUNK, [], after=None)
        database.save(ChunkRecord("h3", ("h3",)), [], after="h2")
        assert newest(database) == "h3"

    def test_two_chunks_that_end_alike_are_both_known(self, database):
        database.save(ChunkRecord("ok", ("a", "ok")), [], after=None)
        database.save(ChunkRecord("ok", ("b", "ok")), [], after="ok")
        with database.reading() as log:
            assert log.chunks() == [("a", "ok"), ("b", "ok")]

    def test_the_newest_chunk_is_not_the_one_with_the_latest_time(self, database, ask):
        """A clock was ahead once."""
        database.save(CHUNK, [], after=None)
        with closing(sqlite3.connect(database.path)) as connection, connection:
            connection.execute("UPDATE vector_memory_hash_log SET timestamp = '2099-01-01T00:00:00+00:00'")
        database.save(ChunkRecord("h3", ("h3",)), [], after="h2")
        assert newest(database) == "h3"

    def test_a_memory_that_is_stored_for_the_chunk_is_not_stored_again(self, database, ask):
        """Case and blanks make no other memory; another chunk does."""
        database.save(CHUNK, [FACT], after=None)
        again = {**FACT, "summary": "THEO  owes."}
        assert database.save(CHUNK, [again, {**FACT, "summary": "new"}], after="h2") == {2: "new"}
        assert database.save(ChunkRecord("h3", ("h3",)), [again], after="h2") == {3: "THEO  owes."}

    def test_chunks_of_a_database_that_held_a_message_once_are_told_apart(self, database):
        """Ours of before left out what the first of two chunks with one hash had."""
        database.save(ChunkRecord("ok", ("a", "ok")), [], after=None)
        database.save(ChunkRecord("z", ("z",)), [], after="ok")
        database.save(ChunkRecord("ok", ("b", "ok")), [], after="z")
        with closing(sqlite3.connect(database.path)) as connection, connection:
            connection.execute("DELETE FROM memory_chunks WHERE chunk_hash = 'ok' AND ord = 3")
        with database.reading() as log:
            assert log.chunks() == [("a", "ok"), ("z",), ("b", "ok")]

    def test_a_chunk_that_another_program_stored_is_known_by_its_end(self, database):
        database.save(CHUNK, [], after=None)
        with closing(sqlite3.connect(database.path)) as connection, connection:
            connection.execute(
                "INSERT INTO vector_memory_hash_log (discussion_id, message_hash, timestamp) VALUES ('d', 'h2', '')"
            )
        with database.reading() as log:
            assert log.chunks() == [("h1", "h2"), (None, "h2")]

    def test_two_threads_make_one_database(self, store):
        """Each stores what it may, and none sees a half-made file."""
        results = []
        start = threading.Barrier(4)

        def save() -> None:
            start.wait()
            results.append(VectorDatabase(store).save(CHUNK, [FACT], after=None))

        threads = [threading.Thread(target=save) for _ in range(4)]
        [thread.start() for thread in threads]
        [thread.join() for thread in threads]
        assert sorted(results, key=bool) == [None, None, None, {1: "Theo owes."}]


class TestFailures:
    """Chunks that gave no memory."""

    def test_a_failure_is_remembered_with_its_messages(self, database):
        assert database.record_failure(CHUNK, "no JSON") == 1
        assert database.record_failure(CHUNK, "still none") == 2
        with database.reading() as log:
            (failure,) = log.failures()
        assert (failure.chunk, failure.attempts, failure.error, failure.may_be_tried) == (
            CHUNK,
            2,
            "still none",
            True,
        )

    def test_after_three_retries_it_is_given_up(self, database):
        [database.record_failure(CHUNK, "no") for _ in range(4)]
        with database.reading() as log:
            assert not log.failures()[0].may_be_tried

    def test_a_retry_that_succeeds_is_not_the_newest_chunk(self, database):
        """Later chunks are done already; the log must not lead back before them."""
        database.save(CHUNK, [], after=None)
        older = ChunkRecord("h0", ("h0",))
        database.record_failure(older, "no")
        assert database.save(older, [FACT], after="h2", retried=True) == {1: "Theo owes."}
        with database.reading() as log:
            assert (log.newest(), log.failures()[0].may_be_tried) == ("h2", False)


class TestFile:
    """Whose file it is, and what is left alone."""

    def test_reading_makes_no_file(self, database, store):
        with database.reading() as log:
            assert (log.newest(), log.chunks(), log.failures()) == (None, [], [])
        assert not store.folder.exists()

    def test_ours_has_a_write_ahead_log_and_is_for_the_owner_only(self, database, ask):
        database.save(CHUNK, [], after=None)
        assert ask("PRAGMA journal_mode") == [("wal",)]
        assert stat.S_IMODE(database.path.stat().st_mode) == 0o600

    def test_an_old_database_is_completed_and_keeps_its_ways(self, database, ask):
        """Missing tables are added; the journal mode stays."""
        database.path.parent.mkdir(parents=True)
        with closing(sqlite3.connect(database.path)) as connection:
            connection.executescript(PEER_TABLES)
        assert newest(database) == "old"
        assert database.save(CHUNK, [FACT], after="old") == {1: "Theo owes."}
        assert ask("PRAGMA journal_mode") == [("delete",)]
        assert ask("SELECT count(*) FROM memory_embeddings") == [(0,)]

    def test_a_database_of_something_else_is_never_altered(self, database):
        database.path.parent.mkdir(parents=True)
        with closing(sqlite3.connect(database.path)) as connection:
            connection.execute("CREATE TABLE other (x)")
        before = database.path.read_bytes()
        with pytest.raises(NotADatabaseOfMemories, match="not a database of memories"):
            database.save(CHUNK, [], after=None)
        assert database.path.read_bytes() == before

    def test_what_a_killed_writer_left_half_done_is_undone_by_the_next_reader(self, database, tmp_path):
        """A database with a journal, as other programs write it: a read alone could not open it for good."""
        live = tmp_path / "live.db"
        database.path.parent.mkdir(parents=True)
        with closing(sqlite3.connect(live, isolation_level=None)) as writer:
            writer.executescript(PEER_TABLES)
            writer.execute("PRAGMA cache_size = 1")
            writer.execute("BEGIN IMMEDIATE")
            writer.executemany(
                "INSERT INTO memories VALUES (?, 'd', ?, '2031', '{}')", [(i, "t" * 3000) for i in range(100)]
            )
            for tail in ("", "-journal"):
                shutil.copy(f"{live}{tail}", f"{database.path}{tail}")
        assert newest(database) == "old"
        assert database.count() == 0

    def test_an_empty_file_becomes_a_database(self, database):
        """Other programs leave one behind after a search."""
        database.path.parent.mkdir(parents=True)
        database.path.touch()
        assert newest(database) is None
        assert database.save(CHUNK, [FACT], after=None) == {1: "Theo owes."}


class TestVectors:
    """Numbers beside the memories."""

    def test_vectors_are_stored_as_float32(self, database, ask):
        database.save(CHUNK, [FACT], after=None)
        database.save_vectors("m", {1: [0.5, -2.0]})
        assert ask("SELECT * FROM memory_embeddings") == [(1, "m", 2, struct.pack("<2f", 0.5, -2.0))]

    def test_a_vector_is_replaced_and_those_of_other_models_stay(self, database, ask):
        database.save(CHUNK, [FACT], after=None)
        database.save_vectors("m", {1: [1.0]})
        database.save_vectors("other", {1: [2.0]})
        database.save_vectors("m", {1: [3.0]})
        assert ask("SELECT model, vector FROM memory_embeddings ORDER BY model") == [
            ("m", struct.pack("<f", 3.0)),
            ("other", struct.pack("<f", 2.0)),
        ]

    def test_the_oldest_without_a_vector_come_first(self, database):
        database.save(CHUNK, [{**FACT, "summary": f"s{i}"} for i in range(5)], after=None)
        database.save_vectors("m", {1: [1.0]})
        assert database.without_vector("m", 2, leave_out=[3]) == [(2, "s1"), (4, "s3")]
        assert database.without_vector("m", 0) == []
        assert database.count_lacking("m") == 4

    @pytest.mark.parametrize(
        ("with_vector", "deleted", "lacking"),
        [
            ([], [], [1, 2, 3, 4]),
            ([1, 2, 3, 4], [], []),
            ([1, 3], [], [2, 4]),
            ([1, 2, 3], [2], [4]),
            ([1, 2, 3, 4], [4], []),
            ([4], [4], [1, 2, 3]),
            ([1, 2, 3], [1], [4]),
            ([1], [1, 2, 3, 4], []),
        ],
        ids=str,
    )
    def test_counting_and_finding_agree(self, database, with_vector, deleted, lacking):
        """Also where the memory of a vector was deleted, and beside vectors of another model."""
        database.save(CHUNK, [FACT] * 4, after=None)
        database.save_vectors("m", {each: [1.0] for each in with_vector})
        database.save_vectors("other", {1: [1.0], 2: [1.0]})
        with closing(sqlite3.connect(database.path)) as connection, connection:
            connection.executemany("DELETE FROM memories WHERE id = ?", [(each,) for each in deleted])
        assert [each for each, _ in database.without_vector("m", 9)] == lacking
        assert database.count_lacking("m") == len(lacking)

    def test_that_nothing_lacks_is_told_from_indexes_alone(self, database):
        """At 100 000 memories a scan takes five times as long."""
        database.save(CHUNK, [FACT] * 4, after=None)
        database.save_vectors("m", {each: [1.0] for each in range(1, 5)})
        statements = []
        with closing(connect_read_only(database.path)) as connection:
            connection.set_trace_callback(statements.append)
            assert vector_store._counted_lacking(connection, "m") == 0
            connection.set_trace_callback(None)
            plans = [
                row[3]
                for statement in statements
                for row in connection.execute(f"EXPLAIN QUERY PLAN {statement}").fetchall()
            ]
        scans = [plan for plan in plans if "SCAN" in plan]
        assert len(scans) == 2 and all("COVERING INDEX" in plan for plan in scans)


def test_chunks_that_failed_are_tried_as_often_as_new_ones(database):
    database.try_failures_again()
    for _ in range(5):
        database.record_failure(CHUNK, "none")
    with database.reading() as log:
        assert not log.failures()[0].may_be_tried
    database.try_failures_again()
    with database.reading() as log:
        assert log.failures()[0].may_be_tried


@pytest.mark.parametrize(
    ("value", "text"), [(["a", 1], "a 1"), ("plain", "plain"), (None, ""), (5, "5"), ([], "")]
)
def test_what_is_indexed_of_a_value(value, text):
    assert index_text(value) == text
