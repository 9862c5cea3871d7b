"""Vectors for old memories. Source: spec memory.md 15."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from types import SimpleNamespace

import pytest

from Middleware.common.errors import BackendError, ConfigError
from Middleware.common.request_context import RequestContext
from Middleware.config.users import load_user
from Middleware.services.discussion_store import DiscussionStore
from Middleware.workflows.memory.upkeep import backfill, count_lacking, embeddings_endpoint, vector_count
from Middleware.workflows.memory.vector_store import ChunkRecord, VectorDatabase


class Service:
    """Embeds, or fails as often as `failures` says."""

    def __init__(self, failures=0):
        self.failures = failures
        self.endpoint = SimpleNamespace(model="m", name="e")

    def get_embeddings(self, texts):
        if self.failures:
            self.failures -= 1
            raise BackendError("e", "overloaded", "busy")
        return [[1.0] for _ in texts]


@pytest.fixture
def store(tmp_path):
    return DiscussionStore(tmp_path, "d", install=tmp_path / "install")


@pytest.fixture
def put(store):
    def facts(count):
        memories = [{"title": "t", "summary": f"s{i}"} for i in range(count)]
        VectorDatabase(store).save(ChunkRecord("h", ("h",)), memories, after=None)

    return facts


def nothing(done, whole):
    """Nobody listens."""


def test_no_database_has_no_memories(store):
    assert (vector_count(store), count_lacking(store, Service())) == (0, 0)
    assert not store.folder.joinpath("vector_memory.db").exists()


def test_a_database_of_something_else_has_none(store):
    store.make_folder()
    with closing(sqlite3.connect(store.folder / "vector_memory.db")) as connection:
        connection.execute("CREATE TABLE other (x)")
    assert vector_count(store) == 0


def test_an_older_database_lacks_all_and_is_not_changed_by_asking(store, put):
    put(2)
    with closing(sqlite3.connect(store.folder / "vector_memory.db")) as connection:
        connection.execute("DROP TABLE memory_embeddings")
    assert count_lacking(store, Service()) == 2
    assert count_lacking(store, Service()) == 2


def test_all_memories_get_a_vector(store, put):
    """Batch by batch."""
    put(70)
    told = []
    assert count_lacking(store, Service()) == 70
    assert backfill(store, Service(), lambda done, whole: told.append((done, whole))) == 0
    assert (count_lacking(store, Service()), told) == (0, [(64, 70), (70, 70)])


def test_a_batch_that_fails_is_left_and_the_others_done(store, put):
    """Halved once: three calls."""
    put(70)
    assert backfill(store, Service(failures=3), nothing) == 64


def test_after_three_failures_in_a_row_it_stops(store, put, caplog):
    put(64 * 5)
    assert backfill(store, Service(failures=9), nothing) == 64 * 5
    assert caplog.text.count("64 memories got no vector: ") >= 3


class TestTheEndpoint:
    """The one that the user's memory settings name, outside of a run."""

    @pytest.fixture
    def find(self, discussion, house):
        def endpoint(**user):
            house.user.update(user)
            snapshot = house.manager().snapshot
            user = load_user(snapshot, "ana")
            return embeddings_endpoint(user, RequestContext("r", "ana", "openai", snapshot=snapshot))

        return endpoint

    def test_it_embeds(self, discussion, house, find):
        house.write("ApiTypes/Emb", {"type": "openAIEmbeddings"})
        house.write("Endpoints/vectors", {"endpoint": "http://h", "apiTypeConfigFileName": "Emb"})
        discussion.settings(embeddingEndpointName="vectors")
        assert find().endpoint.name == "vectors"

    def test_it_must_be_named(self, find):
        with pytest.raises(
            ConfigError, match=r"embeddingEndpointName: an endpoint is required here$"
        ) as caught:
            find()
        assert caught.value.file == "Workflows/ana/Memory.json"

    def test_so_must_the_settings(self, find):
        said = "Users/ana.json: discussionIdMemoryFileWorkflowSettings: no settings file is set"
        with pytest.raises(ConfigError, match=f"^{said}$"):
            find(discussionIdMemoryFileWorkflowSettings="")
