"""The memories of an old chat go before those of a new one. Source: spec operate.md 6."""

from __future__ import annotations

import json

import pytest

from Middleware.services.discussion_store import ChunkList, DiscussionStore, Entry
from Middleware.services.file_memories import FileMemories, end_at
from Middleware.utilities.hashing_utils import sha256_hex
from Middleware.workflows.memory.copying import Copied, copy_memories
from Middleware.workflows.memory.corrections import Corrections
from Middleware.workflows.memory.file_writer import read_tracker_hash, save_tracker
from Middleware.workflows.memory.reader import MemoryReader
from Middleware.workflows.memory.vector_search import MemoryQuery, VectorSearch
from Middleware.workflows.memory.vector_store import ChunkRecord, VectorDatabase
from Middleware.workflows.memory.vector_tables import StateReach
from tests.workflows.memory.conftest import hash_of, talk


def fact(text):
    return {"title": "t", "summary": text, "entities": [], "key_phrases": []}


def copied(old_hash):
    """The hash of what is copied from discussion `old`."""
    return sha256_hex(f"copied\nold\n{old_hash}")


@pytest.fixture
def old(discussion):
    """File memories `o1` to `o4`, of which `o3` was forgotten; a summary of three; vector memories."""
    store = DiscussionStore(discussion.store.target.parent, "old")
    memories = FileMemories(store)
    hashes = [f"h{at}" for at in range(1, 5)]
    for at in range(1, 5):
        memories.append(f"o{at}", end_at(hashes, at - 1, at), after=memories.load())
    MemoryReader(store).save_summary("old summary", 2, "h3")
    save_tracker(store, "h2")
    Corrections(store).forget(["f3"])
    database = VectorDatabase(store)
    database.save(ChunkRecord("c1", ("a", "c1")), [fact("Theo owes."), fact("Mara pays.")], after=None)
    database.save_vectors("m", {1: [1.0], 2: [2.0]})
    return store


@pytest.fixture
def new(discussion):
    return discussion.store


@pytest.mark.parametrize("preview", [True, False])
def test_nobody_writes_to_either_meanwhile(old, new, monkeypatch, preview):
    """A preview writes nothing, not even a lock."""
    locked, lock = [], DiscussionStore.lock
    monkeypatch.setattr(
        DiscussionStore, "lock", lambda store: locked.append(store.discussion_id) or lock(store)
    )
    copy_memories(old, new, preview=preview)
    assert locked == [] if preview else {"old", new.discussion_id} <= set(locked)


class TestFiles:
    """File memories."""

    def test_they_come_first_with_hashes_of_their_own(self, old, new, discussion):
        discussion.put_memories(("n1", "g1"))
        assert copy_memories(old, new).files == 3
        assert discussion.texts == ["o1", "o2", "o4", "n1"]
        assert discussion.hashes == [copied("h1"), copied("h2"), copied("h4"), "g1"]

    def test_twice_is_once(self, old, new, discussion):
        """What the old chat remembered since then is copied, too."""
        copy_memories(old, new)
        assert copy_memories(old, new) == Copied(0, 0, summary=False, state=False)
        memories = FileMemories(old)
        memories.append("o5", end_at(["h5"], 0, 1), after=memories.load())
        assert copy_memories(old, new).files == 1
        assert discussion.texts == ["o1", "o2", "o4", "o5"]

    def test_the_summary_covers_the_copies_of_what_it_covered(self, old, new):
        """Its memory was forgotten: the one before stands for it."""
        copy_memories(old, new)
        reader = MemoryReader(new)
        assert (reader.summary(), reader.summary_entries()[0].hash) == ("old summary", copied("h2"))
        assert [entry.text for _, entry in reader.not_summarised()] == ["o4"]

    def test_so_does_the_mark_of_condensing(self, old, new):
        copy_memories(old, new)
        assert read_tracker_hash(new) == copied("h2")

    def test_a_summary_that_is_there_stays(self, old, new):
        ChunkList(new, "chat_summary.json").replace(Entry("mine", "g1"))
        assert not copy_memories(old, new).summary
        assert MemoryReader(new).summary() == "mine"

    def test_a_pin_comes_along_behind_those_that_are_there(self, old, new, discussion):
        discussion.put_memories(("n1", "g1"), ("n2", "g2"))
        Corrections(new).pin("f1")
        Corrections(old).pin("f2")
        copy_memories(old, new)
        assert MemoryReader(new).last_memories(1) == ["n1", "o2"]

    def test_the_new_chat_is_remembered_as_if_nothing_had_been_copied(self, old, discussion, model):
        """Nothing of it counts as done, and nothing twice; also where every message is the same."""
        discussion.settings(chunkEstimatedTokenSize=2, lookbackStartTurn=0, prompt="[TextChunk]")
        model.reply = lambda call: call.conversation[-1]["content"]
        copy_memories(old, discussion.store)
        say = [{"role": "user", "content": "go on"} for _ in range(6)]
        for count in range(3, 7):
            discussion.turn(say[:count])
        assert discussion.texts == ["o1", "o2", "o4", *["go on"] * 6]

    def test_copies_can_be_condensed(self, old, discussion, model):
        """What is condensed of copies and own memories covers the own messages."""
        discussion.settings(chunkEstimatedTokenSize=2, lookbackStartTurn=0, prompt="[TextChunk]")
        model.reply = lambda call: call.conversation[-1]["content"]
        copy_memories(old, discussion.store)
        discussion.turn(talk(3))
        memories = FileMemories(discussion.store)
        assert memories.condense(2, memories.load()[2:4], "o4 and word 0")
        discussion.turn(talk(4))
        assert discussion.texts == ["o1", "o2", "o4 and word 0", "word 1", "word 2", "word 3"]
        assert memories.ends(memories.load())[2].messages == (hash_of(0),)

    def test_the_old_chat_is_not_changed(self, old, new):
        before = {path.name: path.read_bytes() for path in old.folder.iterdir() if path.suffix == ".json"}
        copy_memories(old, new)
        assert {path.name: path.read_bytes() for path in old.folder.glob("*.json")} == before


class TestFacts:
    """Vector memories."""

    def test_they_come_first_with_index_and_vectors(self, old, new):
        database = VectorDatabase(new)
        database.save(ChunkRecord("n", ("n",)), [fact("New fear.")], after=None)
        database.save_vectors("m", {1: [9.0]})
        assert copy_memories(old, new).facts == 2
        facts = [each for each in Corrections(new).all() if each.number.startswith("v")]
        assert [each.text for each in facts] == ["Theo owes.", "Mara pays.", "New fear."]
        search = VectorSearch(new, lambda text: ("m", [1.0]))
        assert [row.text for row in search.find(MemoryQuery("pays"))] == ["Mara pays."]
        assert [row.id for row in search.find(MemoryQuery("fear"))] == [3]
        assert database.without_vector("m", 9) == []

    def test_no_message_counts_as_done(self, old, new):
        copy_memories(old, new)
        with VectorDatabase(new).reading() as log:
            assert (list(log.chunk_hashes()), log.chunks_beside([])) == ([], [])

    def test_twice_is_once(self, old, new):
        copy_memories(old, new)
        assert copy_memories(old, new).facts == 0
        assert VectorDatabase(new).count() == 2

    def test_what_was_corrected_since_is_not_copied_again(self, old, new):
        """Neither what was forgotten or edited in the new chat, nor what was edited in the old one."""
        copy_memories(old, new)
        Corrections(new).forget(["f1", "v1"])
        Corrections(new).edit("v2", "Mara paid.")
        Corrections(old).edit("v2", "Mara will pay.")
        assert copy_memories(old, new) == Copied(0, 0, summary=False, state=False)
        assert [each.text for each in Corrections(new).all()][:3] == ["o2", "o4", "Mara paid."]

    def test_what_was_made_anew_in_the_old_chat_is_copied_where_it_is_new(self, old, new):
        """Its numbers are others."""
        copy_memories(old, new)
        with VectorDatabase(old).writing() as connection:
            connection.execute("UPDATE memories SET id = id + 5")
            connection.execute("UPDATE memory_sources SET memory_id = memory_id + 5")
        VectorDatabase(old).save(ChunkRecord("c2", ("c2",)), [fact("more")], after="c1")
        VectorDatabase(new).save(ChunkRecord("n", ("n",)), [fact("mine")], after=None)
        assert copy_memories(old, new).facts == 1
        facts = [each.text for each in Corrections(new).all() if each.number.startswith("v")]
        assert facts == ["Theo owes.", "Mara pays.", "more", "mine"]

    def test_the_document_knows_what_it_knew(self, old, new, discussion):
        """What waited for it in the old chat, and what is new in this one, waits."""
        source = VectorDatabase(old)
        source.save(ChunkRecord("c2", ("c2",)), [fact("waiting")], after="c1", document=True)
        old.update_text("state_document.md", lambda _: "old document")
        VectorDatabase(new).save(ChunkRecord("n", ("n",)), [fact("mine")], after=None, document=True)
        assert copy_memories(old, new).state
        assert new.read_text("state_document.md") == "old document"
        reach, waiting = VectorDatabase(new).unmerged_memories()
        assert (reach, [text for _, text in waiting]) == (StateReach(2), ["waiting", "mine"])

    def test_a_document_that_is_there_stays_and_knows_what_it_knew(self, old, new):
        database = VectorDatabase(new)
        database.save(ChunkRecord("n", ("n",)), [fact("known"), fact("waiting")], after=None, document=True)
        database.mark_merged(StateReach(1))
        new.update_text("state_document.md", lambda _: "mine")
        old.update_text("state_document.md", lambda _: "old document")
        assert not copy_memories(old, new).state
        assert [text for _, text in database.unmerged_memories()[1]] == ["waiting"]

    def test_a_turn_of_the_new_chat_makes_what_it_made(self, old, discussion, model):
        discussion.settings(
            useVectorForQualityMemory=True, vectorMemoryChunkEstimatedTokenSize=2, lookbackStartTurn=0
        )
        model.reply = lambda call: json.dumps({"summary": "fact"})
        copy_memories(old, discussion.store)
        discussion.turn(talk(3))
        discussion.turn(talk(4))
        assert VectorDatabase(discussion.store).count() == 2 + 4
