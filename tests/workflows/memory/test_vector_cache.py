"""Vectors kept in memory: always what the file holds, never more than the bound. Source: spec memory.md 18.4."""

from __future__ import annotations

import sqlite3
from contextlib import closing

import pytest

from Middleware.services.discussion_store import DiscussionStore
from Middleware.utilities import vector_math
from Middleware.workflows.memory import vector_cache as module
from Middleware.workflows.memory.vector_cache import VectorCache
from Middleware.workflows.memory.vector_store import VectorDatabase

QUERY = [1.0, 0.0]


@pytest.fixture
def make(tmp_path):
    def database(name="d", **vectors):
        made = VectorDatabase(DiscussionStore(tmp_path / "discussions", name, install=tmp_path / "install"))
        made.save_vectors("m", {int(key[1:]): vector for key, vector in vectors.items()})
        return made

    return database


@pytest.fixture
def cache():
    made = VectorCache()
    yield made
    made.close()


def ids(cache, database, query=QUERY, limit=10, model="m"):
    return [each for each, _ in cache.nearest(database.path, model, query, limit)]


def is_open(connection):
    try:
        return bool(connection.execute("SELECT 1"))
    except sqlite3.ProgrammingError:
        return False


class TestFreshness:
    """What others write is seen at once."""

    def test_rows_that_were_added_are_found(self, cache, make):
        database = make(v1=[0.0, 1.0])
        assert ids(cache, database) == [1]
        database.save_vectors("m", {2: [1.0, 0.0]})
        assert ids(cache, database) == [2, 1]

    def test_a_vector_that_was_replaced_is_found_as_it_is_now(self, cache, make):
        database = make(v1=[0.0, 1.0], v2=[1.0, 0.0])
        ids(cache, database)
        database.save_vectors("m", {1: [1.0, 0.0], 2: [0.0, 1.0]})
        assert ids(cache, database) == [1, 2]

    def test_a_vector_that_was_deleted_is_gone(self, cache, make):
        database = make(v1=[0.0, 1.0], v2=[1.0, 0.0])
        ids(cache, database)
        with closing(sqlite3.connect(database.path)) as connection, connection:
            connection.execute("DELETE FROM memory_embeddings WHERE memory_id = 2")
        assert ids(cache, database) == [1]

    def test_an_unchanged_file_is_not_read_again(self, cache, make, monkeypatch):
        database = make(v1=[0.0, 1.0])
        ids(cache, database)
        monkeypatch.setattr(module, "_blocks", None)
        assert ids(cache, database) == [1]

    def test_a_new_file_in_the_place_of_an_old_one_is_read(self, cache, make):
        database, other = make(v1=[1.0, 0.0]), make("other", v9=[1.0, 0.0])
        ids(cache, database)
        other.path.replace(database.path)
        assert ids(cache, database) == [9]


class TestKinds:
    """Only vectors of one model and one length are compared."""

    def test_other_models_and_lengths_are_left_out(self, cache, make):
        database = make(v1=[0.5, 0.5], v2=[1.0, 0.0, 0.0])
        database.save_vectors("other", {3: [1.0, 0.0]})
        assert ids(cache, database) == [1]
        assert ids(cache, database, model="other") == [3]
        assert ids(cache, database, [1.0, 0.0, 0.0]) == [2]

    def test_a_model_that_changed_under_its_name_is_told_once(self, cache, make, caplog):
        database = make(v1=[0.5, 0.5], v2=[1.0, 0.0, 0.0])
        ids(cache, database)
        database.save_vectors("m", {3: [1.0, 0.0]})
        ids(cache, database)
        assert caplog.text.count("1 vectors of model 'm' are left out, because their length is not 2") == 1

    def test_a_damaged_vector_is_left_out(self, cache, make):
        database = make(v1=[0.5, 0.5], v2=[1.0, 0.0])
        with closing(sqlite3.connect(database.path)) as connection, connection:
            connection.execute("UPDATE memory_embeddings SET vector = x'00' WHERE memory_id = 2")
        assert ids(cache, database) == [1]

    def test_a_limit_of_nothing_finds_nothing(self, cache, make):
        assert ids(cache, make(v1=[1.0, 0.0]), limit=0) == []


class TestBounds:
    """Memory and open files."""

    @pytest.mark.parametrize(("spare", "too_big"), [(0, False), (-1, True)])
    def test_the_bound_counts_as_fitting(self, make, spare, too_big):
        """Two vectors of two numbers, each with its id."""
        cache = VectorCache(limit_bytes=2 * (2 * 4 + 8) + spare)
        assert ids(cache, make(v1=[1.0, 0.0], v2=[0.0, 1.0])) == [1, 2]
        [entry] = cache._matrices.values()
        assert entry.too_big is too_big
        cache.close()

    def test_what_is_too_big_is_scanned_in_blocks(self, make, monkeypatch):
        """With the same result."""
        monkeypatch.setattr(module, "BLOCK_ROWS", 2)
        cache = VectorCache(limit_bytes=40)
        database = make(v1=[0.0, 1.0], v2=[1.0, 0.0], v3=[0.5, 0.5], v4=[1.0, 0.1], v5=[0.9, 0.5])
        assert ids(cache, database) == [2, 4, 5, 3, 1]
        assert next(iter(cache._matrices.values())).size == 0
        cache.close()

    def test_the_least_used_matrix_is_forgotten(self, make):
        cache = VectorCache(limit_bytes=40)
        first, second = make("a", v1=[1.0, 0.0], v2=[0.0, 1.0]), make("b", v1=[1.0, 0.0])
        ids(cache, first)
        ids(cache, second)
        assert [key.path for key in cache._matrices] == [str(second.path)]
        assert ids(cache, first) == [1, 2]
        cache.close()

    def test_a_matrix_that_is_forgotten_lets_its_file_go(self, make):
        """To make room for others, and at the end; the connections are held here."""
        cache = VectorCache(limit_bytes=40)
        first, second = make("a", v1=[1.0, 0.0], v2=[0.0, 1.0]), make("b", v1=[1.0, 0.0])
        ids(cache, first)
        held = [entry.connection for entry in cache._matrices.values()]
        ids(cache, second)
        held += [entry.connection for entry in cache._matrices.values()]
        assert [is_open(each) for each in held] == [False, True]
        cache.close()
        assert [is_open(each) for each in held] == [False, False]

    def test_a_matrix_that_was_forgotten_while_it_was_waited_for_is_made_anew(self, cache, make):
        """Its file is closed by then."""
        database = make(v1=[1.0, 0.0])
        ids(cache, database)
        (entry,) = cache._matrices.values()

        class Waiting:
            """A lock that another search holds until the matrix is forgotten."""

            def __enter__(self):
                cache.close()

            def __exit__(self, *error):
                pass

        entry.guard = Waiting()
        assert ids(cache, database) == [1]
        assert entry not in cache._matrices.values()

    def test_blocks_are_filled_before_new_ones_begin(self, cache, make, monkeypatch):
        monkeypatch.setattr(module, "BLOCK_ROWS", 2)
        database = make(v1=[1.0, 0.0])
        ids(cache, database)
        database.save_vectors("m", {2: [0.9, 0.1]})
        ids(cache, database)
        database.save_vectors("m", {3: [0.5, 0.5]})
        assert ids(cache, database) == [1, 2, 3]
        (entry,) = cache._matrices.values()
        assert [len(block) for block, _ in entry.blocks] == [2, 1]

    def test_many_candidates_of_many_blocks_are_thinned(self, cache, make, monkeypatch):
        monkeypatch.setattr(module, "BLOCK_ROWS", 700)
        database = make()
        database.save_vectors("m", {i: [1.0, i / 1000] for i in range(5000)})
        assert ids(cache, database, limit=600)[:3] == [0, 1, 2]

    def test_without_numpy_the_order_is_the_same(self, cache, make, monkeypatch):
        database = make(v1=[0.0, 1.0], v2=[1.0, 0.0], v3=[0.5, 0.5])
        monkeypatch.setattr(vector_math, "numpy_module", lambda: None)
        assert ids(cache, database) == [2, 3, 1]


def test_what_many_blocks_find_is_cut(cache, make, monkeypatch):
    """To the best, and of equals to the oldest: more than are needed, so that rounding costs none of them."""
    path = make(r1=[1.0, 0.0], r2=[0.0, 1.0]).path
    found = [(number, number % 2) for number in range(9000)]
    kept = []
    monkeypatch.setattr(vector_math, "candidates", lambda query, matrix, ids, limit: found[::-1])
    monkeypatch.setattr(module, "_stored_vectors", lambda connection, model, near: kept.extend(near) or [])
    cache.nearest(path, "m", QUERY, 10)
    assert kept[:3] == [1, 3, 5] and len(kept) == 2020
