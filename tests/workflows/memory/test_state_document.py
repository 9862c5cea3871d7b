"""The state document: worked in, guarded, backed up. Source: spec memory.md 7.6, 18.2 (13, 23)."""

from __future__ import annotations

import sqlite3
from contextlib import closing, suppress

import pytest

from Middleware.services.discussion_store import DiscussionStore
from Middleware.workflows.memory import reader as state_document
from Middleware.workflows.memory.reader import accept_document, without_fence
from Middleware.workflows.memory.settings import SettingsFile
from Middleware.workflows.memory.vector_store import ChunkRecord, VectorDatabase

ON = {"useStateDocument": True, "stateDocumentWorkflowName": "Merge"}


class TestGuard:
    """What of a reply becomes the document."""

    @pytest.mark.parametrize(
        ("old", "new", "ratio", "kept"),
        [
            (501, 250, 0.5, None),
            (501, 251, 0.5, 251),
            (500, 1, 0.5, 1),
            (501, 1, 0, 1),
            (0, 1, 0.5, 1),
        ],
        ids=["shrunk", "at-the-ratio", "short-before", "guard-off", "first"],
    )
    def test_a_long_document_may_not_shrink(self, old, new, ratio, kept):
        document = accept_document("o" * old, "n" * new, ratio)
        assert (document and len(document)) == kept

    @pytest.mark.parametrize("reply", ["", " \n", "```\n\n```"], ids=repr)
    def test_a_blank_reply_is_none(self, reply):
        assert accept_document("old", reply, 0.5) is None

    @pytest.mark.parametrize(
        ("reply", "document"),
        [
            ("```markdown\n# A\n```", "# A"),
            ("~~~\n# A\n~~~", "# A"),
            ("````\n```\ncode\n```\n````", "```\ncode\n```"),
            ("```\na\n```\ntext\n```\nb\n```", "```\na\n```\ntext\n```\nb\n```"),
            ("# A\n```\ncode\n```", "# A\n```\ncode\n```"),
        ],
    )
    def test_one_fence_around_all_of_it_goes(self, reply, document):
        """Fences inside stay."""
        assert without_fence(reply) == document


@pytest.fixture
def known(bench):
    """Stores memories, each as a chunk of its own, with the document switched on."""

    def save(*texts, document=True):
        database = VectorDatabase(bench.store)
        for text in texts:
            with database.reading() as log:
                after = log.newest()
            fact = {"title": "t", "summary": text, "entities": [], "key_phrases": []}
            database.save(ChunkRecord(text, (text,)), [fact], after=after, document=document)

    return save


@pytest.fixture
def merge(bench):
    def run(reply="new", **settings):
        store = bench.store
        bench.engine.child = reply if callable(reply) else lambda call: reply
        state_document.merge(bench.context(""), store, SettingsFile("Memory", {**ON, **settings}))
        return store.read_text("state_document.md")

    return run


@pytest.fixture
def asked(bench):
    """What the workflow was given: the facts and the document of each call."""
    return lambda: [call.inputs for call in bench.engine.children]


class TestMerge:
    """One run of the workflow."""

    @pytest.fixture(autouse=True)
    def facts(self, known):
        known("Theo owes.", "Mara waits.")

    def test_the_workflow_gets_the_facts_and_the_document(self, bench, merge, asked):
        bench.store.update_text("state_document.md", lambda _: "old")
        assert merge(" new\n") == "new"
        assert asked() == [("- Theo owes.\n- Mara waits.", "old")]
        assert bench.store.path("state_document.md.bak").read_text() == "old"

    def test_the_first_document_comes_from_nothing(self, merge, asked):
        assert merge("first") == "first"
        assert asked()[0][1] == ""

    def test_a_blank_reply_keeps_the_old_one(self, bench, merge):
        bench.store.update_text("state_document.md", lambda _: "old")
        assert merge(" ") == "old"
        assert "the old one is kept" in bench.engine.warnings[0]

    def test_a_hand_that_was_faster_wins(self, bench, merge):
        """The user edited the file while the model wrote."""
        store = bench.store

        def edit(_):
            store.update_text("state_document.md", lambda _: "by hand")
            return "by model"

        assert merge(edit) == "by hand"
        assert "changed in the meantime" in bench.engine.warnings[0]

    def test_switched_off_nothing_runs(self, merge, asked):
        assert merge(useStateDocument=False) is None
        assert asked() == []

    def test_without_a_workflow_an_error_is_logged(self, merge, caplog):
        assert merge(stateDocumentWorkflowName=None) is None
        assert "useStateDocument needs stateDocumentWorkflowName" in caplog.text


def broken(_):
    raise ValueError("the backend is down")


class TestReach:
    """What a merge did not bring in, the next one does."""

    @pytest.fixture(autouse=True)
    def old(self, bench, known):
        bench.store.update_text("state_document.md", lambda _: "o" * 600)
        known("one")

    @pytest.fixture
    def fails(self, merge):
        """Merges that bring nothing in."""

        def run(reply):
            with suppress(ValueError, KeyboardInterrupt):
                merge(reply)

        return run

    @pytest.mark.parametrize("reply", [broken, " ", "short"], ids=["failed", "blank", "shrunk"])
    def test_the_facts_of_a_merge_that_was_none_come_with_the_next(self, fails, known, merge, asked, reply):
        fails(reply)
        known("two")
        assert merge("n" * 600) == "n" * 600
        assert [facts for facts, _ in asked()] == ["- one", "- one\n- two"]

    def test_what_is_in_the_document_is_not_merged_again(self, known, merge, asked):
        merge("n" * 600)
        merge("m" * 600)
        known("two")
        merge("m" * 600)
        assert [facts for facts, _ in asked()] == ["- one", "- two"]

    def test_a_document_edited_meanwhile_gets_the_facts_with_the_next(self, bench, merge, asked):
        def edit(_):
            bench.store.update_text("state_document.md", lambda _: "by hand")
            return "by model"

        merge(edit)
        merge("both")
        assert asked()[1] == ("- one", "by hand")

    def test_a_writer_killed_before_the_file_is_written_loses_nothing(self, bench, merge, asked, monkeypatch):
        def killed(*_):
            raise KeyboardInterrupt

        monkeypatch.setattr(DiscussionStore, "update_text", killed)
        with suppress(KeyboardInterrupt):
            merge("n" * 600)
        monkeypatch.undo()
        assert merge("m" * 600) == "m" * 600
        assert [facts for facts, _ in asked()] == ["- one", "- one"]

    def test_a_writer_killed_behind_the_file_repeats_nothing(self, known, merge, asked, monkeypatch):
        """The file is written, and that it is could not be noted."""
        update = DiscussionStore.update_text

        def killed(*arguments):
            update(*arguments)
            raise KeyboardInterrupt

        monkeypatch.setattr(DiscussionStore, "update_text", killed)
        with suppress(KeyboardInterrupt):
            merge("n" * 600)
        monkeypatch.undo()
        known("two")
        merge("m" * 600)
        assert asked()[1] == ("- two", "n" * 600)

    def test_what_is_refused_as_too_short_three_times_counts_as_known(self, bench, known, merge, asked):
        """A document that must shrink would else be asked for at every turn."""
        for _ in range(3):
            merge("short")
        known("two")
        merge("n" * 600)
        assert [facts for facts, _ in asked()] == ["- one"] * 3 + ["- two"]
        assert "kept without the newest facts" in bench.engine.warnings[-1]

    def test_facts_wait_without_a_word_while_no_workflow_could_merge_them(self, bench):
        """The error comes with the next memories, not with every turn."""
        assert state_document.lacks_facts(bench.store, SettingsFile("Memory", ON))
        assert not state_document.lacks_facts(bench.store, SettingsFile("Memory", {"useStateDocument": True}))

    def test_blank_replies_never_count_as_known(self, fails, merge, asked):
        for _ in range(4):
            merge(" ")
        merge("n" * 600)
        assert asked()[-1][0] == "- one"


class TestSwitch:
    """History is not worked in when the document is switched on."""

    def test_what_was_remembered_before_is_known(self, known, merge, asked):
        known("before", document=False)
        known("one")
        merge()
        assert asked()[0][0] == "- one"

    def test_what_was_remembered_while_it_was_off_is_known(self, known, merge, asked):
        known("one")
        known("off", document=False)
        known("two")
        merge()
        assert asked()[0][0] == "- two"

    def test_a_database_of_before_has_nothing_that_waits(self, bench, known, merge):
        """It has no table for it."""
        known("one")
        with closing(sqlite3.connect(VectorDatabase(bench.store).path)) as connection, connection:
            connection.execute("DROP TABLE state_document_reach")
        assert not state_document.lacks_facts(bench.store, SettingsFile("Memory", ON))
        assert merge() is None

    def test_memories_that_were_deleted_by_hand_hide_no_new_ones(self, bench, known, merge, asked):
        """Their ids are used again."""
        known("one", "two", "three")
        merge()
        with closing(sqlite3.connect(VectorDatabase(bench.store).path)) as connection, connection:
            connection.execute("DELETE FROM memories WHERE id > 1")
            connection.execute("DELETE FROM memories_fts WHERE rowid > 1")
        known("new")
        merge()
        assert asked()[-1][0] == "- new"
