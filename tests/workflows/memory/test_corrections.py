"""What a user corrects in the memory of a discussion, and what nodes then read. Source: spec operate.md 6."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing

import pytest

from Middleware.common.errors import BackendError
from Middleware.services.discussion_folders import ArchiveRefused
from Middleware.services.discussion_store import ChunkList, Entry
from Middleware.services.file_memories import FileMemories
from Middleware.workflows.memory.corrections import (
    Corrections,
    Edited,
    MemoryChanged,
    NoSuchMemory,
    Remembered,
)
from Middleware.workflows.memory.file_writer import batch_places
from Middleware.workflows.memory.reader import MemoryReader
from Middleware.workflows.memory.vector_search import MemoryQuery, VectorSearch
from Middleware.workflows.memory.vector_store import ChunkRecord, VectorDatabase
from Middleware.workflows.memory.vector_tables import StateReach
from tests.workflows.memory.conftest import hash_of, talk

PULL = {"type": "RecentMemorySummarizerTool", "maxTurnsToPull": 9, "maxSummaryChunksFromFile": 2}


def fact(text, **more):
    return {"title": "Title", "summary": text, "entities": ["Mara"], "key_phrases": ["phrase"], **more}


@pytest.fixture
def store(discussion):
    return discussion.store


@pytest.fixture
def corrections(store):
    return Corrections(store)


@pytest.fixture
def files(discussion):
    """Five memories, `m1` to `m5`."""
    discussion.put_memories(*[(f"m{number}", f"h{number}") for number in range(1, 6)])
    return FileMemories(discussion.store)


@pytest.fixture
def facts(store):
    """Three vector memories of two chunks."""
    database = VectorDatabase(store)
    database.save(ChunkRecord("c1", ("a", "c1")), [fact("Theo owes."), fact("Mara pays.")], after=None)
    database.save(ChunkRecord("c2", ("c2",)), [fact("Mara fears water.")], after="c1")
    database.save_vectors("m", {1: [1.0, 0.0], 2: [0.0, 1.0], 3: [0.5, 0.5]})
    return database


def ask(database, statement):
    with closing(sqlite3.connect(database.path)) as connection:
        return connection.execute(statement).fetchall()


def found(store, text, **more):
    return [row.text for row in VectorSearch(store).find(MemoryQuery(text, **more))]


class TestLooking:
    """all, search."""

    def test_everything_has_its_number(self, corrections, files, facts, store):
        ChunkList(store, "chat_summary.json").replace(Entry("so far", "h5"))
        store.update_text("state_document.md", lambda _: "now")
        numbers = [each.number for each in corrections.all()]
        assert numbers == ["f1", "f2", "f3", "f4", "f5", "v1", "v2", "v3", "summary", "state"]
        assert corrections.all()[0] == Remembered("f1", "m1")

    def test_a_reader_makes_nothing(self, corrections, store):
        assert corrections.all() == []
        assert not store.folder.exists()

    def test_a_blank_text_is_refused(self, corrections):
        with pytest.raises(ArchiveRefused):
            corrections.search(" ")


class TestEditing:
    """edit."""

    def test_a_file_memory_keeps_what_it_covers(self, corrections, files):
        before = files.ends(files.load())
        edited = corrections.edit("f2", " better ")
        assert edited == Edited(Remembered("f2", "m2"), "better")
        assert files.load()[1] == Entry("better", "h2")
        assert files.ends(files.load()) == before

    def test_a_vector_memory_is_changed_everywhere(self, store, facts):
        corrections = Corrections(store, lambda text: {"m": [0.25, 0.75]})
        corrections.edit("v2", "Nobody paid.")
        assert (found(store, "nobody"), found(store, "pays")) == (["Nobody paid."], [])
        ((metadata,),) = ask(facts, "SELECT metadata_json FROM memories WHERE id = 2")
        assert json.loads(metadata) == fact("Nobody paid.")
        assert ask(facts, "SELECT title, key_phrases FROM memories_fts WHERE rowid = 2") == [
            ("Title", "phrase")
        ]
        assert facts.without_vector("m", 9) == []

    @pytest.mark.parametrize("number", ["f2", "v2"])
    def test_half_a_character_is_none(self, corrections, files, facts, number):
        """No file and no database can hold it."""
        assert corrections.edit(number, "half \ud83d").text == "half ?"
        assert [each.text for each in corrections.all() if each.number == number] == ["half ?"]

    def test_without_an_embedding_it_has_no_vector(self, store, facts):
        """The old text's vector would find the new one by what it does not say."""

        def fails(text):
            raise BackendError("embedder", "connect_error", "refused")

        edited = Corrections(store, fails).edit("v2", "Nobody paid.")
        assert "refused" in edited.no_vector
        assert facts.without_vector("m", 9) == [(2, "Nobody paid.")]

    def test_the_summary_covers_what_it_covered(self, corrections, files, store):
        """Also where two memories end with the same words."""
        files.take_over(files)
        ChunkList(store, "memories.json").replace(*[Entry(f"m{at}", "go on") for at in range(4)])
        reader = MemoryReader(store)
        reader.save_summary("two of four", 1, "go on")
        corrections.edit("summary", "another text")
        assert (reader.summary(), reader.count_summarised()) == ("another text", 2)

    def test_a_summary_that_is_not_there_cannot_be_edited(self, corrections, files):
        with pytest.raises(ArchiveRefused):
            corrections.edit("summary", "x")

    def test_the_state_document_may_be_new(self, corrections, files, store):
        corrections.edit("state", "now")
        assert store.read_text("state_document.md") == "now"

    def test_a_merge_that_was_killed_does_not_bring_its_facts_into_what_was_edited(self, corrections, store):
        """The document was written, but not that it was."""
        from Middleware.utilities.hashing_utils import text_hash

        database = VectorDatabase(store)
        database.save(ChunkRecord("c", ("c",)), [fact("wrong")], after=None, document=True)
        store.update_text("state_document.md", lambda _: "- wrong")
        database.mark_merged(StateReach(0, written_id=1, written_hash=text_hash("- wrong")))
        corrections.edit("state", "- right")
        assert database.unmerged_memories() == (StateReach(1), [])


class TestForgetting:
    """forget: what is gone stays gone."""

    def test_no_reader_shows_it(self, corrections, files, discussion):
        corrections.forget(["f4"])
        reader = MemoryReader(discussion.store)
        assert reader.all_memories(", ") == "m1, m2, m3, m5"
        assert reader.last_memories(2) == ["m3", "m5"]
        assert discussion.turn(talk(1), PULL, {"type": "StaticResponse", "content": "{agent1Output}"}) == (
            "m3--ChunkBreak--m5"
        )

    def test_the_backup_does_not_bring_it_back(self, corrections, files, discussion):
        corrections.edit("f1", "m one")
        corrections.forget(["f4"])
        discussion.store.path("memories.json").write_text("damaged")
        assert [entry.text for entry in files.load()] == ["m one", "m2", "m3", "", "m5"]

    def test_its_messages_are_not_remembered_again(self, discussion, model):
        """In file mode: all of them, and then the newest one alone, and a new turn."""
        discussion.settings(chunkEstimatedTokenSize=2, lookbackStartTurn=0, prompt="[TextChunk]")
        model.reply = lambda call: "note: " + call.conversation[-1]["content"]
        discussion.turn(talk(4))
        Corrections(discussion.store).forget(["f1", "f4"])
        discussion.turn(talk(5))
        assert discussion.texts == ["", "note: word 1", "note: word 2", "", "note: word 4"]
        assert discussion.hashes == [hash_of(at) for at in range(5)]

    def test_nor_when_the_file_is_deleted_to_have_it_made_anew(self, discussion, model):
        """In full chunks, but for what was forgotten."""
        discussion.settings(chunkEstimatedTokenSize=2, lookbackStartTurn=0, prompt="[TextChunk]")
        model.reply = lambda call: "note: " + call.conversation[-1]["content"]
        discussion.turn(talk(5))
        Corrections(discussion.store).forget(["f2"])
        discussion.store.path("memories.json").unlink()
        discussion.turn(talk(5))
        assert discussion.texts == ["note: word 0", "", "note: word 2", "note: word 3", "note: word 4"]
        discussion.turn(talk(6))
        assert len(discussion.texts) == 6

    def test_a_vector_memory_is_not_made_again(self, discussion, model):
        discussion.settings(
            useVectorForQualityMemory=True, vectorMemoryChunkEstimatedTokenSize=2, lookbackStartTurn=0
        )
        model.reply = lambda call: json.dumps({"summary": call.conversation[-1]["content"]})
        discussion.turn(talk(3))
        before = [each.text for each in Corrections(discussion.store).all()]
        Corrections(discussion.store).forget(["v3"])
        discussion.turn(talk(4))
        after = [each.text for each in Corrections(discussion.store).all()]
        assert (len(before), after[:2], len(after)) == (3, before[:2], 3)
        assert before[2] not in after

    def test_row_index_and_vectors_go(self, corrections, store, facts):
        corrections.forget(["v2"])
        assert (found(store, "pays"), facts.count()) == ([], 2)
        assert ask(facts, "SELECT memory_id FROM memory_embeddings") == [(1,), (3,)]
        with facts.reading() as log:
            assert list(log.chunk_hashes()) == ["c2", "c1"]

    def test_its_number_is_nobodys(self, corrections, facts):
        """The newest one's id is not given to the next memory, and the state document gets to know that one."""
        facts.save(ChunkRecord("c3", ("c3",)), [fact("new")], after="c2", document=True)
        facts.mark_merged(StateReach(4))
        corrections.forget(["v4"])
        facts.save(ChunkRecord("c4", ("c4",)), [fact("newer")], after="c3", document=True)
        assert facts.unmerged_memories() == (StateReach(3), [(5, "newer")])

    def test_what_the_document_does_not_know_yet_never_gets_there(self, corrections, store):
        database = VectorDatabase(store)
        database.save(ChunkRecord("c", ("c",)), [fact("one"), fact("two")], after=None, document=True)
        corrections.forget(["v1"])
        assert [text for _, text in database.unmerged_memories()[1]] == ["two"]

    @pytest.mark.parametrize(
        ("text", "elsewhere", "holds"),
        [
            ("Theo sold the map.", "Long ago theo  SOLD the map, and wept.", True),
            ("Note: on Friday Theo sold the map to Mara.", "Then Theo sold the map to us.", True),
            ("Theo sold the map.", "Theo sold a map.", False),
            ("Theo is ill.", "Nobody knows that Theo is ill, but she does.", True),
            ("马拉害怕深水因为她小时候差点淹死", "故事:马拉害怕深水因为她小时候差点没命", True),
            ("马拉害怕深水因为她小时候差点淹死", "马拉不害怕深水", False),
        ],
        ids=str,
    )
    def test_it_says_what_still_holds_the_text(self, corrections, files, store, text, elsewhere, holds):
        """All of it or several words in a row, whatever their case."""
        corrections.edit("f2", text)
        corrections.edit("f4", elsewhere)
        store.update_text("state_document.md", lambda _: "nothing of the kind")
        done = corrections.forget(["f2"])
        assert [each.number for each in done.elsewhere] == (["f4"] if holds else [])

    def test_a_memory_of_another_program_may_come_back_by_a_rebuild(self, corrections, facts):
        """It is not known what it was made of."""
        with closing(sqlite3.connect(facts.path)) as connection, connection:
            connection.execute("DELETE FROM memory_sources WHERE memory_id = 1")
        assert corrections.forget(["v1", "v2"]).unsure == ("v1",)

    def test_a_pinned_one_is_pinned_no_more(self, corrections, files, facts, store):
        for number in ("f2", "v2"):
            corrections.pin(number)
        corrections.forget(["f2", "v2"])
        assert (files.pinned(), found(store, "nobody")) == ([], [])

    def test_all_or_nothing(self, corrections, files, facts, store, monkeypatch):
        """The database cannot be written when the files are already."""

        def fails(ids):
            raise sqlite3.OperationalError("disk full")

        monkeypatch.setattr(corrections._vectors, "forget", fails)
        with pytest.raises(sqlite3.OperationalError):
            corrections.forget(["f1", "v1"])
        assert [entry.text for entry in files.load()] == ["m1", "m2", "m3", "m4", "m5"]


class TestWhileAModelWorks:
    """What was forgotten or edited meanwhile does not come back with the model's answer."""

    def test_a_summary_of_it_is_dropped(self, discussion, files, model):
        node = {
            "type": "chatSummarySummarizer",
            "endpointName": "chat",
            "prompt": "[LATEST_MEMORIES]",
            "loopIfMemoriesExceed": 9,
        }

        def forget(call):
            Corrections(discussion.store).forget(["f2"])
            return "summary of " + call.conversation[-1]["content"]

        model.reply = forget
        discussion.turn(talk(1), node)
        assert not discussion.store.path("chat_summary.json").exists()
        model.reply = lambda call: "summary of " + call.conversation[-1]["content"]
        discussion.turn(talk(1), node)
        assert "m2" not in MemoryReader(discussion.store).summary()

    def test_so_is_a_condensed_memory(self, discussion, files, model):
        discussion.settings(
            chunkEstimatedTokenSize=2,
            lookbackStartTurn=0,
            prompt="[TextChunk]",
            condenseMemories=True,
            memoriesBeforeCondensation=3,
            condenseMemoriesPrompt="condense [MemoriesToCondense]",
        )

        def reply(call):
            asked = call.conversation[-1]["content"]
            if asked.startswith("condense"):
                Corrections(discussion.store).forget(["f1"])
            return "new: " + asked

        model.reply = reply
        discussion.turn(talk(3))
        assert discussion.texts[:5] == ["", "m2", "m3", "m4", "m5"]

    def test_so_is_a_state_document(self, discussion, model):
        discussion.settings(
            useVectorForQualityMemory=True,
            vectorMemoryChunkEstimatedTokenSize=2,
            lookbackStartTurn=0,
            useStateDocument=True,
            stateDocumentWorkflowName="Merge",
        )
        discussion.house.workflow(
            "Merge", {"type": "Standard", "endpointName": "chat", "prompt": "merge {agent1Input}"}
        )

        def reply(call):
            asked = call.conversation[-1]["content"]
            if asked.startswith("merge") and "word 0" in asked:
                Corrections(discussion.store).forget(["v1"])
            return asked if asked.startswith("merge") else json.dumps({"summary": asked})

        model.reply = reply
        discussion.turn(talk(3))
        discussion.turn(talk(4))
        assert "word 0" not in discussion.store.read_text("state_document.md")


class TestCondensing:
    """A forgotten memory is not counted and goes with its batch; a pinned one stays."""

    @pytest.mark.parametrize(
        ("texts", "pinned", "places"),
        [
            ("abcd", (), range(3)),
            ("ab", (), None),
            ("a-bc", (), range(4)),
            ("-abc", (), range(4)),
            ("abc-", (), range(3)),
            ("abcdef", (1,), range(2, 5)),
            ("abcd", (1,), None),
            ("abc", (2,), None),
        ],
        ids=str,
    )
    def test_the_batch(self, texts, pinned, places):
        entries = tuple(Entry("" if text == "-" else text, text) for text in texts)
        assert batch_places(entries, 0, pinned, 3) == places

    def test_a_turn_condenses_what_is_left(self, discussion, corrections, files, model):
        """`m2` was forgotten, `m5` is pinned: the model sees neither, and the pinned one stays as it is."""
        discussion.settings(
            chunkEstimatedTokenSize=2,
            lookbackStartTurn=0,
            prompt="[TextChunk]",
            condenseMemories=True,
            memoriesBeforeCondensation=3,
            memoryCondensationBuffer=1,
            condenseMemoriesPrompt="condense [MemoriesToCondense]",
        )
        model.reply = lambda call: call.conversation[-1]["content"]
        corrections.forget(["f2"])
        corrections.pin("f5")
        discussion.turn(talk(3))
        old = "condense " + "\n--------------\n".join(("m1", "m3", "m4"))
        assert discussion.texts == [old, "m5", "word 0", "word 1", "word 2"]
        discussion.turn(talk(4))
        new = "condense " + "\n--------------\n".join(("word 0", "word 1", "word 2"))
        assert discussion.texts == [old, "m5", new, "word 3"]

    def test_the_condensed_one_covers_what_was_forgotten(self, corrections, files):
        """So nothing is made of it again, and a rebuild knows it."""
        corrections.forget(["f2"])
        assert files.condense(0, files.load()[:3], "all")
        assert files.load()[0] == Entry("all", "h3")
        end = files.ends(files.load())[0]
        assert (end.messages, end.forgotten) == (("h1", "h2", "h3"), ((1, 2),))

    def test_one_that_was_pinned_meanwhile_is_not_condensed(self, corrections, files):
        batch = files.load()[:3]
        corrections.pin("f2")
        assert not files.condense(0, batch, "all")


class TestPins:
    """Pinned memories come first wherever a limit would drop them."""

    def test_the_newest_pin_is_first(self, corrections, files, store):
        corrections.pin("f1")
        corrections.pin("f3")
        reader = MemoryReader(store)
        assert reader.last_memories(3) == ["m3", "m1", "m5"]
        assert reader.last_memories(1) == ["m3", "m1"]
        assert reader.last_memories(-1) == ["m1", "m2", "m3", "m4", "m5"]

    def test_it_is_a_pin_of_the_memory_and_not_of_its_place(self, corrections, files, store):
        corrections.pin("f4")
        files.condense(0, files.load()[:3], "m1-3")
        corrections.edit("f2", "m four")
        assert MemoryReader(store).last_memories(1) == ["m four"]

    def test_eight_at_the_most(self, store, corrections):
        ChunkList(store, "memories.json").replace(*[Entry(f"m{at}", f"h{at}") for at in range(1, 21)])
        for number in range(1, 11):
            corrections.pin(f"f{number}")
        assert MemoryReader(store).last_memories(3) == [f"m{at}" for at in range(10, 2, -1)]

    def test_a_search_gives_them_first(self, corrections, facts, store):
        corrections.pin("v1")
        assert found(store, "mara", limit=2) == ["Theo owes.", "Mara pays."]
        assert found(store, "nobody") == ["Theo owes."]
        assert found(store, "mara", limit=0) == []

    def test_a_keyword_search_in_the_memories_too(self, corrections, files, discussion):
        corrections.pin("f2")
        node = {
            "type": "MemoryKeywordSearchPerformerTool",
            "keywords": "m1",
            "searchTarget": "RecentMemories",
            "returnToUser": True,
        }
        assert discussion.turn(talk(1), node) == "m2\n\nm1"

    def test_a_database_that_knows_no_pins_is_searched(self, facts, store):
        with closing(sqlite3.connect(facts.path)) as connection, connection:
            connection.execute("DROP TABLE memory_pins")
        assert found(store, "pays") == ["Mara pays."]


class TestSeen:
    """A memory that is another one by now than somebody saw is not changed."""

    @pytest.fixture
    def mine(self, corrections, store, files, facts):
        """Corrections of one who saw all that there is now."""
        return Corrections(store, seen={each.number: each.sum for each in corrections.all()})

    def test_what_is_as_it_was_seen_is_corrected(self, mine, files):
        mine.edit("f1", "new")
        mine.pin("f2")
        assert [each.text for each in mine.forget(["f3", "v1"]).gone] == ["m3", "Theo owes."]

    @pytest.mark.parametrize("number", ["f2", "v2"])
    def test_what_is_another_text_is_not(self, mine, corrections, store, number):
        corrections.edit(number, "another")
        states = store.kept_states.states
        for change in (
            lambda: mine.edit(number, "new"),
            lambda: mine.pin(number),
            lambda: mine.forget([number]),
        ):
            with pytest.raises(MemoryChanged, match=f"{number} was changed meanwhile"):
                change()
        assert store.kept_states.states == states

    @pytest.mark.parametrize("number", ["f9", "state"])
    def test_what_is_gone_is_nowhere(self, store, number, files):
        with pytest.raises(NoSuchMemory, match=f"there is no {number}"):
            Corrections(store, seen={number: "0" * 12}).edit(number, "new")


class TestUndo:
    """undo."""

    def test_one_that_must_be_the_newest(self, corrections, files, store):
        """Each correction tells the state that undoes it."""
        corrections.edit("f1", "new")
        first = corrections.kept
        corrections.pin("f2")
        assert store.kept_states.states == [first, corrections.kept]
        with pytest.raises(MemoryChanged, match="no longer the newest"):
            corrections.undo(first)
        corrections.undo(corrections.kept)
        corrections.undo(first)
        assert [entry.text for entry in files.load()] == ["m1", "m2", "m3", "m4", "m5"]

    def test_everything_is_as_before(self, corrections, files, facts, store):
        names = ("memories.json", "memory_ends.json", "memory_pins.json")
        before = [store.path(name).read_bytes() if store.path(name).exists() else None for name in names]
        corrections.forget(["f2", "v2"])
        corrections.undo()
        after = [store.path(name).read_bytes() if store.path(name).exists() else None for name in names]
        assert after == before
        assert found(store, "pays") == ["Mara pays."]

    def test_vectors_in_memory_follow(self, store, facts):
        """A search by meaning that was made in between does not keep what was undone."""

        def nearest(vector):
            search = VectorSearch(store, lambda text: ("m", vector))
            return [row.text for row in search.find(MemoryQuery("x", mode="semantic", limit=1))]

        corrections = Corrections(store, lambda text: {"m": [-1.0, 0.0]})
        assert nearest([0.0, 1.0]) == ["Mara pays."]
        corrections.edit("v2", "changed")
        assert nearest([-1.0, 0.0]) == ["changed"]
        corrections.undo()
        assert nearest([0.0, 1.0]) == ["Mara pays."]
        corrections.forget(["v3"])
        facts.save(ChunkRecord("c3", ("c3",)), [fact("new")], after="c2")
        facts.save_vectors("m", {4: [-1.0, -1.0]})
        assert nearest([-1.0, -1.0]) == ["new"]
