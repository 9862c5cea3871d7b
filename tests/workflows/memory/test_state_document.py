"""The state document: worked in, guarded, backed up. Source: spec memory.md 7.6, 18.2 (13)."""

from __future__ import annotations

import pytest

from Middleware.workflows.memory import state_document
from Middleware.workflows.memory.settings import SettingsFile
from Middleware.workflows.memory.state_document import accepted, without_fence

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
        document = accepted("o" * old, "n" * new, ratio)
        assert (document and len(document)) == kept

    @pytest.mark.parametrize("reply", ["", " \n", "```\n\n```"], ids=repr)
    def test_a_blank_reply_is_none(self, reply):
        assert accepted("old", reply, 0.5) is None

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


class TestMerge:
    """One run of the workflow."""

    @pytest.fixture
    def merge(self, bench):
        def run(reply="new", **settings):
            store = bench.store
            bench.engine.child = reply if callable(reply) else lambda call: reply
            settings = SettingsFile("Memory", {**ON, **settings})
            state_document.merge(bench.context(""), store, settings, ["Theo owes.", "Mara waits."])
            return store.read_text("state_document.md")

        return run

    def test_the_workflow_gets_the_facts_and_the_document(self, bench, merge):
        bench.store.update_text("state_document.md", lambda _: "old")
        assert merge(" new\n") == "new"
        assert bench.engine.children[0].inputs == ("- Theo owes.\n- Mara waits.", "old")
        assert bench.store.path("state_document.md.bak").read_text() == "old"

    def test_the_first_document_comes_from_nothing(self, bench, merge):
        assert merge("first") == "first"
        assert bench.engine.children[0].inputs[1] == ""

    def test_a_blank_reply_keeps_the_old_one(self, bench, merge):
        bench.store.update_text("state_document.md", lambda _: "old")
        assert merge(" ") == "old"
        assert "the old one stays" in bench.engine.warnings[0]

    def test_a_hand_that_was_faster_wins(self, bench, merge):
        """The user edited the file while the model wrote."""
        store = bench.store

        def edit(_):
            store.update_text("state_document.md", lambda _: "by hand")
            return "by model"

        assert merge(edit) == "by hand"
        assert "changed meanwhile" in bench.engine.warnings[0]

    def test_switched_off_nothing_runs(self, bench, merge):
        assert merge(useStateDocument=False) is None
        assert bench.engine.children == []

    def test_without_a_workflow_an_error_is_logged(self, merge, caplog):
        assert merge(stateDocumentWorkflowName=None) is None
        assert "useStateDocument needs stateDocumentWorkflowName" in caplog.text
