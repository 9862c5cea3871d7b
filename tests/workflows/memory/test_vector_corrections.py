"""A user's changes to vector memories: a text, a pin, what is forgotten, what is copied. Source: spec operate.md 6."""

from __future__ import annotations

import json
import sqlite3
from array import array
from contextlib import closing

import pytest

from Middleware.services.discussion_store import DiscussionStore
from Middleware.utilities.hashing_utils import sha256_hex
from Middleware.workflows.memory import vector_tables
from Middleware.workflows.memory.vector_corrections import Fact, VectorCorrections, copied_hash, copied_source
from Middleware.workflows.memory.vector_store import ChunkRecord, VectorDatabase
from Middleware.workflows.memory.vector_tables import StateReach

FACTS = [{"title": name, "summary": f"{name} came."} for name in ("Ann", "Ben", "Cid")]


def bench_of(tmp_path, discussion_id="d"):
    store = DiscussionStore(tmp_path / "discussions", discussion_id)
    return VectorDatabase(store), VectorCorrections(store)


@pytest.fixture
def database(tmp_path):
    """Three memories of two chunks; the first has a vector."""
    made, _ = bench_of(tmp_path)
    made.save(ChunkRecord("h1", ("h1",)), FACTS[:2], after=None)
    made.save(ChunkRecord("h2", ("h2",)), FACTS[2:], after="h1")
    made.save_vectors("m", {1: [1.0, 2.0], 2: [3.0]})
    return made


@pytest.fixture
def corrections(database, tmp_path):
    return bench_of(tmp_path)[1]


def texts(corrections):
    return [fact.text for fact in corrections.facts()[0]]


class TestWithout:
    """A database that is not there, or that another program made."""

    def test_a_database_there_is_nothing(self, tmp_path):
        """Nor is one made."""
        database, corrections = bench_of(tmp_path)
        assert (corrections.facts(), corrections.rows()) == (([], []), ([], []))
        assert corrections.forgotten_ids() == corrections.without_source({1}) == set()
        corrections.wipe_free_pages()
        assert not corrections.exists and not database.path.exists()

    def test_tables_of_ours(self, tmp_path):
        """What is not there says nothing."""
        database, corrections = bench_of(tmp_path)
        database.path.parent.mkdir(parents=True)
        with closing(sqlite3.connect(database.path)) as connection, connection:
            connection.execute("CREATE TABLE other (x)")
        assert (corrections.facts(), corrections.rows()) == (([], []), ([], []))
        assert corrections.forgotten_ids() == corrections.without_source({1}) == set()
        with closing(sqlite3.connect(database.path)) as connection, connection:
            connection.execute(
                "CREATE TABLE memories (id INTEGER PRIMARY KEY, discussion_id, memory_text, date_added, metadata_json)"
            )
            connection.execute("INSERT INTO memories VALUES (7, 'd', 'theirs', '2031-01-01', NULL)")
        assert corrections.facts() == ([Fact(7, "theirs", "2031-01-01")], [])
        assert corrections.without_source({7, 8}) == {7}
        (row,), pinned = corrections.rows()
        assert (row.text, row.index, row.vectors, row.source, pinned) == ("theirs", (), (), "", [])


class TestEdited:
    def test_the_text_in_its_row_its_facts_and_its_index(self, corrections, ask):
        """The other facts stay."""
        corrections.edit(1, "Ann left.", {})
        assert texts(corrections) == ["Ann left.", "Ben came.", "Cid came."]
        assert json.loads(ask("SELECT metadata_json FROM memories WHERE id = 1")[0][0]) == {
            "title": "Ann",
            "summary": "Ann left.",
        }
        index = ask("SELECT title, summary, memory_text_unweighted FROM memories_fts WHERE rowid = 1")
        assert index == [("Ann", "Ann left.", "Ann left.")]
        assert ask("SELECT memory_id FROM memory_embeddings") == [(2,)]

    def test_it_has_new_vectors_and_no_others(self, corrections, ask):
        """Under row numbers that none had: whoever keeps vectors sees by it what is new."""
        corrections.edit(1, "Ann left.", {"m": [5.0, 6.0], "n": [7.0]})
        rows = ask("SELECT rowid, memory_id, model, dim, vector FROM memory_embeddings ORDER BY rowid")
        assert rows == [
            (2, 2, "m", 1, array("f", [3.0]).tobytes()),
            (3, 1, "m", 2, array("f", [5.0, 6.0]).tobytes()),
            (4, 1, "n", 1, array("f", [7.0]).tobytes()),
        ]

    @pytest.mark.parametrize("metadata", [None, "", "{", "[1]", "[" * 100_000], ids=lambda m: str(m)[:5])
    def test_facts_that_cannot_be_read_are_replaced(self, corrections, database, ask, metadata):
        with closing(sqlite3.connect(database.path)) as connection, connection:
            connection.execute("UPDATE memories SET metadata_json = ?", (metadata,))
        corrections.edit(1, "Ann left.", {})
        assert ask("SELECT metadata_json FROM memories WHERE id = 1") == [('{"summary": "Ann left."}',)]


class TestForgotten:
    def test_all_that_belongs_to_it_goes(self, corrections, ask):
        """Of what it was made stays known, so that it is not made again."""
        source = ask("SELECT chunk_name FROM memory_sources WHERE memory_id = 1")[0][0]
        corrections.set_pin(1, pinned=True)
        corrections.forget([1])
        assert texts(corrections) == ["Ben came.", "Cid came."] and corrections.forgotten_ids() == {1}
        assert ask("SELECT * FROM memory_forgotten") == [(1, source)]
        for table, column in (
            ("memories_fts", "rowid"),
            ("memory_embeddings", "memory_id"),
            ("memory_pins", "memory_id"),
        ):
            assert (1,) not in ask(f"SELECT {column} FROM {table}")

    @pytest.mark.parametrize(("reach", "left"), [(3, 2), (2, 2), (1, 1), (None, None)])
    def test_the_state_document_knows_no_memory_that_is_gone(self, corrections, database, reach, left):
        if reach is not None:
            corrections.set_reach(reach)
        corrections.forget([3])
        with closing(sqlite3.connect(database.path)) as connection:
            found = vector_tables.read_reach(connection)
        assert found == (None if left is None else StateReach(left))

    def test_its_id_is_not_given_again(self, corrections, database):
        corrections.forget([3])
        assert database.save(ChunkRecord("h3", ("h3",)), FACTS[2:], after="h2") == {4: "Cid came."}

    def test_nothing_of_it_is_left_in_the_file(self, corrections, database):
        corrections.edit(1, "a secret word", {})
        corrections.forget([1])
        corrections.wipe_free_pages()
        left = [path.read_bytes() for path in database.path.parent.iterdir() if path.is_file()]
        assert not any(b"secret" in data for data in left)

    def test_while_somebody_reads_parts_of_it_are_left(self, corrections, database, monkeypatch):
        """Which is said: it has to be done again."""
        monkeypatch.setattr("Middleware.workflows.memory.vector_corrections.BUSY_TIMEOUT_MS", 1)
        with closing(sqlite3.connect(database.path, isolation_level=None)) as reader:
            reader.execute("BEGIN")
            reader.execute("SELECT * FROM memories").fetchall()
            with pytest.raises(
                sqlite3.OperationalError, match=r"in use, so parts of what was forgotten are left"
            ):
                corrections.wipe_free_pages()

    def test_which_have_no_known_source(self, corrections, database):
        """They cannot be made again."""
        with closing(sqlite3.connect(database.path)) as connection, connection:
            connection.execute("DELETE FROM memory_sources WHERE memory_id <> 1")
        assert corrections.without_source({1, 2, 9}) == {2}


class TestPins:
    def test_the_newest_pin_is_the_first(self, corrections):
        """Pinned again it is the newest once more."""
        for memory_id in (2, 1, 2):
            corrections.set_pin(memory_id, pinned=True)
        assert corrections.facts()[1] == [2, 1]
        corrections.set_pin(2, pinned=False)
        assert corrections.facts()[1] == corrections.rows()[1] == [1]


class TestCopied:
    """Memories of another discussion come before one's own."""

    @pytest.fixture
    def other(self, tmp_path):
        return bench_of(tmp_path, "other")

    def test_rows_are_whole(self, corrections):
        first, *_ = corrections.rows()[0]
        assert (first.id, first.discussion_id, first.text) == (1, "d", "Ann came.")
        assert first.vectors == (("m", 2, array("f", [1.0, 2.0]).tobytes()),)
        assert first.index[:2] == ("Ann", "Ann came.") and first.source

    def test_they_come_first_with_their_pins(self, corrections, other, tmp_path):
        """Behind those that were copied before; each keeps its vectors, and the state document what it knew."""
        database, there = other
        database.save(
            ChunkRecord("x", ("x",)), [{"title": "Own", "summary": "Own."}], after=None, document=True
        )
        there.set_pin(1, pinned=True)
        there.set_reach(1)
        old = DiscussionStore(tmp_path / "discussions", "d")
        rows = there.missing_rows(corrections.rows()[0], old)
        there.put_first(rows[:2], "other", [1, 0])
        there.put_first(rows[2:], "other", [])
        facts, pinned = there.facts()
        assert [(fact.id, fact.text) for fact in facts] == [
            (1, "Ann came."),
            (2, "Ben came."),
            (3, "Cid came."),
            (4, "Own."),
        ]
        assert pinned == [4, 2, 1]
        assert {row.discussion_id for row in there.rows()[0]} == {"other"}
        assert there.rows()[0][0].vectors == corrections.rows()[0][0].vectors
        with closing(sqlite3.connect(database.path)) as connection:
            assert vector_tables.read_reach(connection) == StateReach(4)

    def test_none_is_copied_twice(self, corrections, other, tmp_path):
        """Nor one that was edited, or forgotten, since."""
        _, there = other
        old = DiscussionStore(tmp_path / "discussions", "d")
        rows = there.missing_rows(corrections.rows()[0], old)
        assert [row.source for row in rows] == [copied_source("d", row) for row in corrections.rows()[0]]
        there.put_first(rows, "other", [])
        there.edit(1, "Ann left.", {})
        there.forget([2])
        assert there.missing_rows(corrections.rows()[0], old) == []
        corrections.edit(3, "CID CAME.", {})
        assert there.missing_rows(corrections.rows()[0], old) == []

    def test_one_of_the_same_words_is_not_copied(self, corrections, other, tmp_path):
        """Of another discussion: they would stand there twice."""
        _, there = other
        old = DiscussionStore(tmp_path / "discussions", "d")
        there.put_first(there.missing_rows(corrections.rows()[0], old), "other", [])
        third = DiscussionStore(tmp_path / "discussions", "third")
        assert there.missing_rows(corrections.rows()[0], third) == []

    def test_a_source_is_like_no_other(self, corrections):
        (row, *_), _ = corrections.rows()
        assert copied_source("d", row) == f"copied:{copied_hash('d', f'{row.source} v1')}"
        assert copied_hash("d", "h") == sha256_hex("copied\nd\nh")
