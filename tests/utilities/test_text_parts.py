"""Ranks of memories for what the full-text index cannot find. Source: spec memory.md 8.3, 18.2 (19)."""

from __future__ import annotations

import sqlite3
from contextlib import closing

import pytest

from Middleware.utilities.search_utils import Terms, ranks
from Middleware.workflows.memory.vector_tables import DEFINITIONS


@pytest.fixture
def connection():
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        connection.executescript(DEFINITIONS)
        yield connection


@pytest.fixture
def put(connection):
    """Stores texts as summaries, with ids from 1."""

    def run(*texts):
        for each, text in enumerate(texts, 1):
            connection.execute("INSERT INTO memories VALUES (?, 'd', ?, '', '{}')", (each, text))
            connection.execute("INSERT INTO memories_fts (rowid, summary) VALUES (?, ?)", (each, text))

    return run


def parts(*terms):
    return Terms((), terms)


def phrases(*terms):
    return Terms(terms, ())


def test_a_rare_term_weighs_more_than_a_common_one(connection, put):
    put("東京", "東京", "京都", "奈良", "大阪")
    found = ranks(connection, parts("東京", "奈良"), None)
    assert found[4] < found[1] == found[2] < 0
    assert sorted(found) == [1, 2, 4]


def test_a_term_that_every_memory_holds_still_finds_it(connection, put):
    put("東京")
    assert ranks(connection, parts("東京"), None)[1] < 0


def test_more_hits_weigh_more_and_a_term_that_is_asked_for_twice_counts_twice(connection, put):
    put("東京東京", "東京", "奈良", "奈良", "奈良", "大阪")
    once, twice = ranks(connection, parts("東京"), None), ranks(connection, parts("東京", "東京"), None)
    assert once[1] < once[2]
    assert twice[2] == pytest.approx(2 * once[2])


@pytest.mark.parametrize("weight", [0.0, -1.2])
def test_a_column_that_counts_nothing_still_finds(connection, put, weight):
    put("東京", "奈良")
    assert ranks(connection, parts("東京"), (1.0, weight, 1.0, 1.0, 1.0)) == {1: 0.0}


def test_words_that_the_index_finds_are_not_counted_twice(connection, put):
    """Only what touches writing without blanks is looked for here."""
    put("重跑gen後", "gen alone 後", "engen後")
    assert list(ranks(connection, phrases("gen"), None)) == [1]


@pytest.mark.parametrize("texts", [(), ("Theo owes Mara.", "Ế Việt")], ids=["no-memories", "other-writing"])
def test_without_such_writing_no_text_is_looked_at(connection, put, texts):
    """At 100 000 memories that would take most of a second."""
    put(*texts)
    statements = []
    connection.set_trace_callback(statements.append)
    assert ranks(connection, phrases("theo", "việt"), None) == {}
    assert not [statement for statement in statements if "instr" in statement]


def test_a_database_can_be_read_that_nobody_may_write(tmp_path):
    """The name of the index of words is a table of the connection alone."""
    path = tmp_path / "v.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(DEFINITIONS)
    before = path.read_bytes()
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as connection:
        assert ranks(connection, phrases("gen"), None) == {}
    assert path.read_bytes() == before
