"""ContextCompactor: its settings, its output, and when there is none. Source: spec memory.md 10."""

from __future__ import annotations

import json

import pytest

from Middleware.services.discussion_store import ChunkList, Entry
from Middleware.workflows.handlers.node_types import node_handler
from Middleware.workflows.memory.compactor import LEASE

NODE = "ContextCompactor"


@pytest.fixture
def settings(bench, user_with):
    """Write the settings file that the user names."""
    bench.user = user_with(context_compactor_settings_file="Compact")

    def write(**fields):
        path = bench.folder / "Workflows/ana/Compact.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps({"endpointName": "e", **fields}))

    write()
    return write


def test_without_a_discussion_there_is_nothing(bench):
    assert bench(NODE) == ""
    assert "without a discussion id" in bench.engine.warnings[0]


def test_without_settings_there_is_nothing(bench):
    bench.discussion_id = "d"
    assert bench(NODE) == ""
    assert "contextCompactorSettingsFile: no settings file is set" in bench.engine.warnings[0]


def test_both_summaries_are_given_in_tags(bench, settings):
    """A short conversation calls no model."""
    ChunkList(bench.store, "context_compactor_old.json").replace(
        Entry("old", "h"), Entry("__boundary__", "1:h")
    )
    ChunkList(bench.store, "context_compactor_oldest.json").replace(Entry("{oldest}", "h"))
    assert bench(NODE) == (
        "<context_compactor_old>old</context_compactor_old>\n"
        "<context_compactor_oldest>{oldest}</context_compactor_oldest>"
    )
    assert bench.engine.calls == []


def test_a_conversation_that_is_too_long_is_compacted(bench, settings):
    settings(recentContextTokens=2, oldContextTokens=2, lookbackStartTurn=0)
    bench.discussion_id = "d"
    bench.messages = [{"role": "user", "content": f"word {i}"} for i in range(2)]
    assert bench(NODE) == "<context_compactor_old>reply 1</context_compactor_old>"


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"lookbackStartTurn": -1}, "lookbackStartTurn: found -1, allowed: a number >= 0"),
        ({"recentContextTokens": "20k"}, "recentContextTokens: found '20k', allowed: a number >= 1"),
        ({"maxResponseSizeInTokens": "long"}, "maxResponseSizeInTokens: found 'long', allowed: a number"),
        ({"oldSectionPrompt": 5}, "oldSectionPrompt: found 5, allowed: a string"),
        ({"endpointName": None}, 'this call needs an "endpointName"'),
    ],
)
def test_a_setting_that_cannot_be_used_costs_no_chat(bench, settings, fields, told):
    """It is told, and what is kept is given. memory.md 18.2.4."""
    settings(**{"recentContextTokens": 2, "oldContextTokens": 2, "lookbackStartTurn": 0, **fields})
    ChunkList(bench.store, "context_compactor_old.json").replace(
        Entry("old", "h"), Entry("__boundary__", "1:h")
    )
    bench.discussion_id = "d"
    bench.messages = [{"role": "user", "content": f"word {i}"} for i in range(3)]
    assert bench(NODE) == "<context_compactor_old>old</context_compactor_old>"
    [warning] = bench.engine.warnings
    assert warning.startswith("nothing is compacted: ") and told in warning and "Compact.json" in warning


class TestReadOnly:
    """`readOnly`: another node of the workflow makes the summaries, behind the answer (prompt-reuse.md 1)."""

    @pytest.fixture
    def long_talk(self, bench, settings):
        settings(recentContextTokens=2, oldContextTokens=2, lookbackStartTurn=0)
        bench.discussion_id = "d"
        bench.messages = [{"role": "user", "content": f"word {i}"} for i in range(3)]

    def test_gives_what_is_kept(self, bench, long_talk):
        """Though something else is due by now."""
        ChunkList(bench.store, "context_compactor_old.json").replace(
            Entry("old", "h"), Entry("__boundary__", "1:h")
        )

        shown = "<context_compactor_old>old</context_compactor_old>"
        assert (bench(NODE, readOnly=True), bench.engine.calls) == (shown, [])

    def test_nothing_kept_is_nothing(self, bench, long_talk):
        """No model is called and no file is made."""
        assert (bench(NODE, readOnly=True), bench.engine.calls) == ("", [])
        assert not ChunkList(bench.store, "context_compactor_old.json").exists

    def test_does_not_wait_for_who_makes_them(self, bench, long_talk):
        """Whoever holds the lock keeps it."""
        with bench.store.lease(LEASE, 0) as held:
            assert (held, bench(NODE, readOnly=True)) == (True, "")

    def test_needs_no_settings(self, bench):
        """Nothing of them is read."""
        bench.discussion_id = "d"

        assert (bench(NODE, readOnly=True), bench.engine.warnings) == ("", [])
        assert node_handler(NODE).user_settings({"readOnly": True}) == ()

    def test_a_dry_run_has_nothing_to_tell(self, bench):
        """It would make nothing."""
        bench.discussion_id = "d"
        assert bench.notes(NODE, readOnly=True) == []


def test_a_dry_run_tells_what_would_be_made(bench):
    assert bench.notes(NODE) == []
    bench.discussion_id = "d"
    assert len(bench.notes(NODE)) == 1
