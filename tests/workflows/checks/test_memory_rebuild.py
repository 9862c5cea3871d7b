"""Memories made anew: beside the old ones, and in their place when they are whole. Source: spec memory.md 15."""

from __future__ import annotations

import json
import re
import shutil
import sqlite3
import threading
from contextlib import closing
from dataclasses import replace

import pytest

from Middleware.common.errors import Forbidden, MiddlewareError
from Middleware.services.discussion_folders import ArchiveRefused, DiscussionFolders
from Middleware.services.discussion_store import ChunkList, Entry
from Middleware.services.file_memories import FileMemories
from Middleware.utilities.encryption_utils import TOKEN_START
from Middleware.utilities.hashing_utils import message_hash
from Middleware.workflows.checks.memory_rebuild import Rebuild
from Middleware.workflows.memory.copying import copy_memories
from Middleware.workflows.memory.corrections import Corrections
from Middleware.workflows.memory.vector_store import ChunkRecord, NotADatabaseOfMemories, VectorDatabase
from Middleware.workflows.memory.writer import NothingComes

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
VECTORS_OF_HELLO = {**VECTORS, "vectorMemoryWorkflowName": "Facts"}


@pytest.fixture
def folders(tmp_path):
    return DiscussionFolders(tmp_path / "DiscussionIds", install=tmp_path / "install")


@pytest.fixture
def rebuild(house, folders):
    house.user["discussionIdMemoryFileWorkflowSettings"] = "Memory"
    house.workflow("Facts", {"type": "StaticResponse", "content": '{"summary": "s"}'})

    def made(settings, words="word"):
        house.write("Workflows/ana/Memory", settings)
        talk = [{"role": "user", "content": f"{words} {i}"} for i in range(3)]
        return Rebuild(house.manager(), folders, "d", talk)

    return made


@pytest.fixture
def store(folders):
    return folders.store("d")


def newest(store):
    with VectorDatabase(store).reading() as log:
        return log.newest()


def nothing(done, whole):
    """Nobody listens."""


def refusal(rebuild):
    """What a rebuild that is refused says."""
    with pytest.raises(ArchiveRefused) as refused:
        rebuild.run(nothing)
    return str(refused.value)


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

    def test_nobody_goes_on_with_what_was_half_removed(self, rebuild, store, model, monkeypatch):
        """Killed at the very end: the memories are in place, and the next rebuild makes all of them itself."""
        remove = shutil.rmtree

        def die(folder, ignore_errors=False):
            if folder.name.startswith(".making-"):
                (folder / "memory_ends.json").unlink()
                raise SystemExit
            remove(folder, ignore_errors=ignore_errors)

        model.replies = ["m0", "m1", "m2", "n0", "n1", "n2"]
        with monkeypatch.context() as patch:
            patch.setattr("Middleware.workflows.checks.memory_rebuild.shutil.rmtree", die)
            with pytest.raises(SystemExit):
                rebuild(FILES).run(nothing)
        assert texts(store) == ["m0", "m1", "m2"]
        assert rebuild(FILES).run(nothing) == 0
        assert texts(store) == ["n0", "n1", "n2"]

    def test_a_conversation_of_one_text_is_made_anew_whole(self, rebuild, store, model, failure):
        """Broken off, too; what each memory covers comes with it."""
        talk = [{"role": "user", "content": "go on"} for _ in range(4)]
        model.replies = ["m0", "m1", failure(), "m2", "m3"]
        with pytest.raises(MiddlewareError):
            replace(rebuild(FILES), messages=talk).run(nothing)
        assert replace(rebuild(FILES), messages=talk).run(nothing) == 0
        assert texts(store) == ["m0", "m1", "m2", "m3"]
        memories = FileMemories(store)
        assert [len(end.messages) for end in memories.ends(memories.load())] == [1, 1, 1, 1]

    def test_another_conversation_begins_anew(self, rebuild, store, model, failure):
        """What was made of the first one is no part of it."""
        model.replies = ["m0", "m1", failure(), "n0", "n1", "n2"]
        with pytest.raises(MiddlewareError):
            rebuild(FILES).run(nothing)
        assert rebuild(FILES, words="other").run(nothing) == 0
        assert texts(store) == ["n0", "n1", "n2"]

    def test_so_does_another_cut(self, rebuild, store, model, failure):
        model.replies = ["m0", failure(), "n0", "n1-2"]
        with pytest.raises(MiddlewareError):
            rebuild(FILES).run(nothing)
        assert rebuild({**FILES, "chunkEstimatedTokenSize": 6}).run(nothing) == 0
        assert texts(store) == ["n0", "n1-2"]

    def test_a_marker_that_cannot_be_read_begins_anew(self, rebuild, store, model, failure, folders):
        model.replies = ["m0", failure(), "n0", "n1", "n2"]
        with pytest.raises(MiddlewareError):
            rebuild(FILES).run(nothing)
        (folders.making("d").folder / "rebuild.json").write_bytes(TOKEN_START + b"x")
        assert rebuild(FILES).run(nothing) == 0
        assert texts(store) == ["n0", "n1", "n2"]

    def test_a_newest_chunk_below_the_size_is_left_too(self, rebuild, store, model):
        """A conversation of one chunk and a rest: the rest alone would be too little for a memory in a chat."""
        settings = {**FILES, "chunkEstimatedTokenSize": 3}
        model.replies = ["m0", "m1"] + [" "] * 4 + ["m2"]
        assert rebuild(settings).run(nothing) == 1
        assert texts(store) == []
        assert rebuild(settings).run(nothing) == 0
        assert texts(store) == ["m0", "m1", "m2"]

    def test_nothing_is_condensed_while_it_is_broken_off(self, rebuild, store, model, failure):
        """Whether it goes on or not, the memories are the same."""
        settings = {**FILES, "condenseMemories": True, "memoriesBeforeCondensation": 2}
        model.replies = ["m0", "m1", failure(), "m2"]
        with pytest.raises(MiddlewareError):
            rebuild(settings).run(nothing)
        rebuild(settings).run(nothing)
        assert texts(store) == ["m0", "m1", "m2"]

    def test_one_at_a_time(self, rebuild, store, model):
        """The second one is told; the first one ends well."""
        refused = []

        def meanwhile(_):
            thread = threading.Thread(target=lambda: refused.append(refusal(rebuild(FILES))))
            thread.start()
            thread.join()
            return "m0"

        model.replies = [meanwhile, "m1", "m2"]
        assert rebuild(FILES).run(nothing) == 0
        assert refused == ["d: another rebuild is running; wait until it ends"]
        assert texts(store) == ["m0", "m1", "m2"]

    def test_memories_of_another_key_stay_and_no_model_is_asked(self, rebuild, store, model):
        store.make_folder()
        store.path("memories.json").write_bytes(TOKEN_START + b"x")
        with pytest.raises(Forbidden):
            rebuild(FILES).run(nothing)
        assert model.calls == []

    def test_a_flat_file_of_an_old_install_is_no_part_of_what_is_made(self, rebuild, store, folders):
        """It is what the new memories take the place of."""
        folders.root.mkdir(parents=True)
        flat = folders.root / "d_memories.json"
        flat.write_text(json.dumps([{"text_block": "old", "hash": "h"}]))
        assert rebuild(FILES).run(nothing) == 0
        assert [entry["text_block"] for entry in json.loads(flat.read_text())] == ["hello"] * 3
        assert json.loads((folders.root / "d_memories.json.bak").read_text())[0]["text_block"] == "old"

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
        assert rebuild(FILES).count_planned() == 3
        assert rebuild({**FILES, "chunkEstimatedTokenSize": 1000}).count_planned() == 0
        assert not store.folder.exists()

    def test_too_few_messages_change_nothing(self, rebuild, store):
        ChunkList(store, "memories.json").replace(Entry("old", "h"))
        assert rebuild({**FILES, "chunkEstimatedTokenSize": 1000}).run(nothing) == 0
        assert texts(store) == ["old"]


def asked_of(call):
    """The message of which a model is asked for a memory."""
    return re.search(r"word \d", call.conversation[-1]["content"])[0]


class TestForgotten:
    """Nothing is made of messages of which a memory was forgotten."""

    @pytest.fixture
    def talk_of(self, rebuild):
        """A rebuild of six messages in chunks of one."""

        def made(settings):
            work = rebuild(settings)
            work.messages[:] = [{"role": "user", "content": f"word {i}"} for i in range(6)]
            return work

        return made

    def test_file_memories_stay_forgotten_at_their_place(self, talk_of, store, model):
        model.calls.clear()
        model.replies = [f"m{i}" for i in range(6)]
        talk_of(FILES).run(nothing)
        Corrections(store).forget(["f2", "f5"])
        work = talk_of(FILES)
        assert work.count_planned() == 4
        model.calls.clear()
        model.replies = ["n0", "n2", "n3", "n5"]
        told = []
        assert work.run(lambda done, whole: told.append((done, whole))) == 0
        assert texts(store) == ["n0", "", "n2", "n3", "", "n5"]
        assert told == [(1, 4), (2, 4), (3, 4), (4, 4)]
        assert [entry.hash for entry in FileMemories(store).load()] == [
            message_hash({"content": f"word {i}"}) for i in range(6)
        ]

    def test_so_they_do_when_they_were_condensed_with_others(self, talk_of, store, model):
        talk_of(FILES).run(nothing)
        Corrections(store).forget(["f2"])
        memories = FileMemories(store)
        memories.condense(0, memories.load()[:4], "all")
        model.calls.clear()
        model.replies = [f"n{i}" for i in (0, 2, 3, 4, 5)]
        assert talk_of(FILES).run(nothing) == 0
        assert texts(store) == ["n0", "", "n2", "n3", "n4", "n5"]

    def test_broken_off_work_goes_on(self, talk_of, store, model, failure):
        talk_of(FILES).run(nothing)
        Corrections(store).forget(["f2"])
        model.calls.clear()
        model.replies = ["n0", "n2", failure(), "n3", "n4", "n5"]
        with pytest.raises(MiddlewareError):
            talk_of(FILES).run(nothing)
        assert talk_of(FILES).run(nothing) == 0
        assert texts(store) == ["n0", "", "n2", "n3", "n4", "n5"]

    def test_a_larger_cut_does_not_take_them_in(self, talk_of, store, model):
        """Chunks end before them and begin behind them."""
        talk_of(FILES).run(nothing)
        Corrections(store).forget(["f3"])
        model.reply = lambda call: call.conversation[-1]["content"]
        assert talk_of({**FILES, "chunkEstimatedTokenSize": 12}).run(nothing) == 0
        assert texts(store) == ["word 0\nword 1", "", "word 3\nword 4\nword 5"]

    def test_vector_memories_stay_forgotten_and_the_rest_of_their_chunk_stays(self, talk_of, store, model):
        pair = json.dumps([{"summary": "one of word 1"}, {"summary": "two of word 1"}])
        single = [json.dumps({"summary": f"s{i}"}) for i in range(6)]
        model.calls.clear()
        model.replies = [single[0], pair, *single[2:]]
        talk_of(VECTORS).run(nothing)
        Corrections(store).forget(["v2"])
        for _ in range(2):
            model.calls.clear()
            model.replies = [json.dumps({"summary": f"n{i}"}) for i in (0, 2, 3, 4, 5)]
            assert talk_of(VECTORS).run(nothing) == 0
            assert summaries(VectorDatabase(store).path) == ["two of word 1", "n0", "n2", "n3", "n4", "n5"]

    @pytest.mark.parametrize(
        ("settings", "number"), [(FILES, "f2"), (VECTORS, "v2")], ids=["files", "vectors"]
    )
    def test_what_is_forgotten_meanwhile_does_not_come_back(
        self, talk_of, store, model, folders, settings, number
    ):
        """The work is done once more without it: another process may correct while this one asks the model."""
        model.reply = lambda call: json.dumps({"summary": asked_of(call)})
        talk_of(settings).run(nothing)
        asked = []

        def forget_at_the_fourth(call):
            asked.append(asked_of(call))
            if len(asked) == 4:
                assert Corrections(store).forget([number]).gone
            return json.dumps({"summary": asked[-1]})

        model.reply = forget_at_the_fourth
        assert talk_of(settings).run(nothing) == 0
        everything = [f"word {at}" for at in range(6)]
        assert asked == everything + [text for text in everything if text != "word 1"]
        left = "".join(each.text for each in Corrections(store).all())
        assert [text for text in everything if text not in left] == ["word 1"]
        assert [path.name for path in folders.root.iterdir()] == ["d"]

    def test_when_all_of_it_is_forgotten_meanwhile_nothing_is_made(self, talk_of, store, model, folders):
        talk_of(FILES).run(nothing)

        def forget_all(call):
            Corrections(store).forget([f"f{at}" for at in range(1, 7)])
            return "back again"

        model.reply = forget_all
        assert talk_of(FILES).run(nothing) == 0
        assert texts(store) == [""] * 6
        assert [path.name for path in folders.root.iterdir()] == ["d"]

    def test_copied_memories_stay(self, talk_of, store, folders, model):
        """They are of another conversation."""
        old = folders.store("old")
        ChunkList(old, "memories.json").replace(Entry("old", "h"))
        VectorDatabase(old).save(ChunkRecord("h", ("h",)), [{"summary": "old fact"}], after=None)
        copy_memories(old, store)
        talk_of(FILES).run(nothing)
        talk_of(VECTORS_OF_HELLO).run(nothing)
        assert texts(store) == ["old", *["hello"] * 6]
        assert summaries(VectorDatabase(store).path) == ["old fact", *["s"] * 6]

    def test_a_pin_stays_with_its_text(self, talk_of, store, model):
        model.calls.clear()
        model.replies = [json.dumps({"summary": f"s{i}"}) for i in range(6)]
        talk_of(VECTORS).run(nothing)
        Corrections(store).pin("v3")
        model.calls.clear()
        model.replies = [json.dumps({"summary": text}) for text in ("n", "s2", "n", "n", "n", "n")]
        talk_of(VECTORS).run(nothing)
        assert [(each.number, each.text) for each in Corrections(store).all() if each.is_pinned] == [
            ("v2", "s2")
        ]

    def test_it_can_be_undone(self, talk_of, store, model):
        model.calls.clear()
        model.replies = [f"m{i}" for i in range(6)]
        talk_of(FILES).run(nothing)
        model.calls.clear()
        model.replies = [f"n{i}" for i in range(6)]
        talk_of(FILES).run(nothing)
        Corrections(store).undo()
        assert texts(store) == [f"m{i}" for i in range(6)]


class TestStopping:
    """With `stop_after`, chunks that give nothing end the work."""

    def test_so_many_in_a_row_end_it(self, rebuild, store, model):
        work = rebuild(VECTORS)
        work.messages[:] = [{"role": "user", "content": f"word {i}"} for i in range(20)]
        fact = json.dumps({"summary": "s"})
        model.replies = ["none", "none", fact, *["none"] * 40]
        with pytest.raises(NothingComes) as stopped:
            work.run(nothing, stop_after=5)
        assert (len(model.calls), str(stopped.value)) == (8, "the reply contains no JSON object or array")
        model.replies = [fact] * 20
        assert work.run(nothing, stop_after=5) == 0
        assert len(model.calls) == 8 + 19

    def test_without_it_each_is_tried_four_times(self, rebuild, store, model):
        model.replies = ["none"] * 40
        assert rebuild(VECTORS).run(nothing) == 3
        assert len(model.calls) == 12

    def test_nothing_worth_keeping_is_no_failure(self, rebuild, model):
        work = rebuild(VECTORS)
        work.messages[:] = [{"role": "user", "content": f"word {i}"} for i in range(8)]
        model.replies = ["[]"] * 8
        assert work.run(nothing, stop_after=5) == 0


class TestDocument:
    """The state document is made of the memories where the settings ask for one."""

    @pytest.fixture
    def merging(self, rebuild, house):
        house.workflow(
            "Merge",
            {"type": "StringConcatenator", "strings": ["{agent2Input}", "{agent1Input}"], "delimiter": "|"},
        )
        work = rebuild({**VECTORS, "stateDocumentWorkflowName": "Merge"})
        work.messages[:] = [{"role": "user", "content": f"word {i}"} for i in range(25)]
        return work

    def test_it_is_made_some_facts_at_a_time(self, merging, store, model):
        model.replies = [json.dumps({"summary": f"s{i}"}) for i in range(25)]
        told = []
        assert merging.makes_document()
        merging.run(nothing)
        assert merging.make_document(lambda done, whole: told.append((done, whole))) == 0
        assert told == [(20, 25), (25, 25)]
        document = store.read_text("state_document.md")
        assert document.startswith("|- s0\n- s1\n") and document.endswith(
            "|- s20\n- s21\n- s22\n- s23\n- s24"
        )
        assert VectorDatabase(store).unmerged_memories()[1] == []

    def test_one_that_is_there_only_gets_what_it_lacks(self, merging, store, model):
        store.update_text("state_document.md", lambda _: "by hand")
        model.replies = [json.dumps({"summary": f"s{i}"}) for i in range(25)]
        merging.run(nothing)
        assert merging.make_document(nothing) == 0
        assert store.read_text("state_document.md") == "by hand"

    def test_what_cannot_be_merged_is_counted(self, rebuild, house, store, model):
        house.workflow("Merge", {"type": "StaticResponse", "content": " "})
        work = rebuild({**VECTORS_OF_HELLO, "stateDocumentWorkflowName": "Merge"})
        work.run(nothing)
        assert work.make_document(nothing) == 3

    def test_file_memories_have_none(self, rebuild):
        assert not rebuild({**FILES, "useStateDocument": True}).makes_document()


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

    def test_one_chunk_without_memory_is_left(self, rebuild, store, model):
        """However often it was tried: it is not done. The next run tries it again."""
        VectorDatabase(store).save(ChunkRecord("h", ("h",)), [{"title": "t", "summary": "old"}], after=None)
        fact = json.dumps({"summary": "s"})
        model.replies = ["none", fact, fact] + ["none"] * 3
        assert rebuild(VECTORS).run(nothing) == 1
        assert summaries(VectorDatabase(store).path) == ["old"]
        model.replies = [fact]
        assert rebuild(VECTORS).run(nothing) == 0
        assert summaries(VectorDatabase(store).path) == ["s"] * 3

    def test_chunks_that_end_with_the_same_words_are_each_done_or_not(self, rebuild, store, model):
        """One of them failed; the other does not count for both."""
        model.replies = [json.dumps({"summary": "s"}), "none"]
        work = rebuild({**VECTORS, "vectorMemoryChunkEstimatedTokenSize": 6})
        said = ["word 0", "yes", "word 1", "yes"]
        work.messages[:] = [{"role": "user", "content": text} for text in said]
        assert (work.count_planned(), work.run(nothing)) == (2, 1)
        assert not store.path("vector_memory.db").exists()

    def test_a_conversation_of_nothing_worth_keeping_takes_no_memories_away(self, rebuild, store, model):
        """A model that says so of every chunk of a discussion with memories is not believed; of one without, it is."""
        model.replies = ["[]"] * 6
        assert rebuild(VECTORS).run(nothing) == 0
        VectorDatabase(store).save(ChunkRecord("h", ("h",)), [{"summary": "old"}], after=newest(store))
        assert rebuild(VECTORS).run(nothing) == 3
        assert summaries(VectorDatabase(store).path) == ["old"]

    def test_a_model_that_was_not_believed_is_asked_anew(self, rebuild, store, model, folders):
        """What it said is kept nowhere."""
        VectorDatabase(store).save(ChunkRecord("h", ("h",)), [{"title": "t", "summary": "old"}], after=None)
        model.replies = ["[]"] * 3
        assert rebuild(VECTORS).run(nothing) == 3
        assert [path.name for path in folders.root.iterdir()] == ["d"]
        model.replies = [json.dumps({"summary": "s"})] * 3
        assert rebuild(VECTORS).run(nothing) == 0
        assert summaries(VectorDatabase(store).path) == ["s"] * 3

    def test_the_next_chat_knows_its_messages(self, rebuild, store):
        """The chunks are logged for the discussion, not for the place where they were made."""
        rebuild(VECTORS_OF_HELLO).run(nothing)
        with VectorDatabase(store).reading() as log:
            assert list(log.chunk_hashes()) == [
                message_hash({"content": f"word {i}"}) for i in reversed(range(3))
            ]

    def test_a_database_of_an_old_install_is_no_part_of_the_plan(self, rebuild, store, tmp_path, monkeypatch):
        """What it knows of the conversation is what is made anew; the new memories take its place."""
        monkeypatch.chdir(tmp_path)
        (tmp_path / "Public").mkdir()
        rebuild(VECTORS_OF_HELLO).run(nothing)
        flat = tmp_path / "Public/d_vector_memory.db"
        with closing(sqlite3.connect(store.path("vector_memory.db"))) as connection:
            connection.execute("VACUUM INTO ?", (str(flat),))
        store.path("vector_memory.db").unlink()
        assert rebuild(VECTORS_OF_HELLO).count_planned() == 3
        assert rebuild(VECTORS_OF_HELLO).run(nothing) == 0
        assert (len(summaries(flat)), store.path("vector_memory.db")) == (3, flat)

    def test_a_damaged_database_is_put_aside(self, rebuild, store, caplog):
        store.make_folder()
        store.path("vector_memory.db").write_bytes(b"text" * 1000)
        assert rebuild(VECTORS_OF_HELLO).run(nothing) == 0
        assert len(summaries(store.path("vector_memory.db"))) == 3
        aside = list(store.folder.glob("vector_memory.db.corrupt-*"))
        assert [path.read_bytes() for path in aside] == [b"text" * 1000]
        assert "was damaged and has been renamed to" in caplog.text

    def test_a_database_of_something_else_stays_and_no_model_is_asked(self, rebuild, store, model):
        store.make_folder()
        with closing(sqlite3.connect(store.path("vector_memory.db"))) as connection:
            connection.execute("CREATE TABLE other (x)")
        with pytest.raises(NotADatabaseOfMemories):
            rebuild(VECTORS).run(nothing)
        assert model.calls == []

    def test_a_chunk_without_memory_is_tried_again(self, rebuild, store, model):
        fact = json.dumps({"summary": "s"})
        model.replies = ["none", fact, fact, fact]
        assert rebuild(VECTORS).run(nothing) == 0
        assert len(summaries(VectorDatabase(store).path)) == 3

    def test_a_plan_changes_nothing(self, rebuild, store):
        assert rebuild(VECTORS).count_planned() == 3
        assert not store.folder.exists()
