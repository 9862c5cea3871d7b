"""Memories made anew: beside the old ones, and in their place when they are whole. Source: spec memory.md 15."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing

import pytest

from Middleware.common.errors import MiddlewareError
from Middleware.services.chunk_list import ChunkList, Entry
from Middleware.services.discussion_folders import DiscussionFolders
from Middleware.workflows.managers.memory_rebuild import Rebuild
from Middleware.workflows.memory.vector_store import ChunkRecord, VectorDatabase

FILES = {
    "chunkEstimatedTokenSize": 2,
    "lookbackStartTurn": 0,
    "prompt": "[TextChunk]",
    "endpointName": "chat",
}
VECTORS = {
    "useVectorForQualityMemory": True,
    "vectorMemoryChunkEstimatedTokenSize": 2,
    "lookbackStartTurn": 0,
    "endpointName": "chat",
    "useStateDocument": True,
    "stateDocumentWorkflowName": "Nobody",
}
TALK = [{"role": "user", "content": f"word {i}"} for i in range(3)]


@pytest.fixture
def folders(tmp_path):
    return DiscussionFolders(tmp_path / "DiscussionIds", install=tmp_path / "install")


@pytest.fixture
def rebuild(house, folders):
    house.user["discussionIdMemoryFileWorkflowSettings"] = "Memory"

    def made(settings):
        house.write("Workflows/ana/Memory", settings)
        return Rebuild(house.manager(), folders, "d", [dict(message) for message in TALK])

    return made


@pytest.fixture
def store(folders):
    return folders.store("d")


def nothing(done, whole):
    """Nobody listens."""


def texts(store):
    return [entry.text for entry in ChunkList(store, "memories.json").load()]


def summaries(path):
    with closing(sqlite3.connect(path)) as connection:
        return [row[0] for row in connection.execute("SELECT memory_text FROM memories ORDER BY id")]


class TestFiles:
    """File memories."""

    def test_the_new_ones_take_the_place_of_the_old(self, rebuild, store, model, folders):
        """One version before is kept; nothing stays beside it."""
        ChunkList(store, "memories.json").replace(Entry("old", "h"))
        model.replies = ["m0", "m1", "m2"]
        told = []
        assert rebuild(FILES).run(lambda done, whole: told.append((done, whole))) == 0
        assert texts(store) == ["m0", "m1", "m2"]
        assert json.loads((store.folder / "memories.json.bak").read_text())[0]["text_block"] == "old"
        assert told == [(1, 3), (2, 3), (3, 3)]
        assert folders.ids() == ["d"]
        assert [path.name for path in folders.root.iterdir()] == ["d"]

    def test_broken_off_work_goes_on(self, rebuild, store, model, failure):
        """The old memories stay until then."""
        ChunkList(store, "memories.json").replace(Entry("old", "h"))
        model.replies = ["m0", failure(), "m1", "m2"]
        with pytest.raises(MiddlewareError):
            rebuild(FILES).run(nothing)
        assert texts(store) == ["old"]
        assert rebuild(FILES).run(nothing) == 0
        assert texts(store) == ["m0", "m1", "m2"]

    def test_what_gives_no_memory_is_left(self, rebuild, store, model):
        model.replies = ["m0", " "]
        assert rebuild(FILES).run(nothing) == 2
        assert texts(store) == []

    def test_the_tracker_is_that_of_the_new_memories(self, rebuild, store):
        """Or forgotten: it named an old one."""
        store.update_json("condensation_tracker.json", lambda _: {"lastCondensationHash": "old"})
        rebuild(FILES).run(nothing)
        assert store.read_json("condensation_tracker.json", None) == {}
        rebuild({**FILES, "condenseMemories": True, "memoriesBeforeCondensation": 9}).run(nothing)
        assert store.read_json("condensation_tracker.json", None)["lastCondensationHash"]

    def test_a_plan_changes_nothing(self, rebuild, store):
        assert rebuild(FILES).planned() == 3
        assert rebuild({**FILES, "chunkEstimatedTokenSize": 1000}).planned() == 0
        assert not store.folder.exists()


class TestVectors:
    """Vector memories."""

    def test_the_new_database_takes_the_place_of_the_old(self, rebuild, store, model):
        """The state document is none of them, and no workflow is asked for it."""
        VectorDatabase(store).save(ChunkRecord("h", ("h",)), [{"title": "t", "summary": "old"}], after=None)
        model.replies = [json.dumps({"summary": f"s{i}"}) for i in range(3)]
        assert rebuild(VECTORS).run(nothing) == 0
        assert summaries(VectorDatabase(store).path) == ["s0", "s1", "s2"]
        assert summaries(store.folder / "vector_memory.db.bak") == ["old"]
        assert store.read_text("state_document.md") is None

    def test_nothing_takes_the_place_of_memories(self, rebuild, store, model):
        """A model that gives no facts at all: the old ones stay, and the status says so."""
        VectorDatabase(store).save(ChunkRecord("h", ("h",)), [{"title": "t", "summary": "old"}], after=None)
        model.replies = ["I am sorry, I cannot do that."] * 40
        assert rebuild(VECTORS).run(nothing) > 0
        assert rebuild(VECTORS).run(nothing) > 0
        assert summaries(VectorDatabase(store).path) == ["old"]

    def test_a_chunk_without_memory_is_tried_again(self, rebuild, store, model):
        fact = json.dumps({"summary": "s"})
        model.replies = ["none", fact, fact, fact]
        assert rebuild(VECTORS).run(nothing) == 0
        assert len(summaries(VectorDatabase(store).path)) == 3

    def test_a_plan_changes_nothing(self, rebuild, store):
        assert rebuild(VECTORS).planned() == 3
        assert not store.folder.exists()
