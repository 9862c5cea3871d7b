"""Nodes that give file memories as they are. Source: spec memory.md 9.1, 9.2, 9.5."""

from __future__ import annotations

import pytest

from Middleware.common.errors import ConfigError, ConfigMissing
from Middleware.services.discussion_store import ChunkList, Entry

TOOL = "RecentMemorySummarizerTool"
NUMBERS = {"maxTurnsToPull": 5, "maxSummaryChunksFromFile": 2}


def remembered(bench, *texts):
    ChunkList(bench.store, "memories.json").replace(*[Entry(text, text) for text in texts])


class TestToolWorkflows:
    """Nodes that hand on what a workflow of the user says."""

    @pytest.mark.parametrize(
        ("node", "setting"),
        [
            ("RecentMemory", "recent_memory_tool_workflow"),
            ("ConversationMemory", "conversation_memory_tool_workflow"),
        ],
    )
    def test_the_value_of_the_workflow_is_the_output(self, bench, user_with, node, setting):
        """Run as an internal child."""
        bench.discussion_id = "d"
        bench.user = user_with(**{setting: "Tool"})
        assert bench(node) == "value of Tool"
        assert bench.engine.children[0].internal

    @pytest.mark.parametrize(
        ("node", "key", "literal"),
        [
            ("RecentMemory", "recentMemoryToolWorkflow", "No memories have been generated yet"),
            ("ConversationMemory", "conversationMemoryToolWorkflow", "There are not yet any memories"),
        ],
    )
    def test_without_a_workflow_there_are_no_memories_and_an_error_is_logged(
        self, bench, caplog, node, key, literal
    ):
        bench.discussion_id = "d"
        assert bench(node) == literal
        assert f"Users/ana.json: {key}: a memory node needs a workflow here" in caplog.text

    def test_a_workflow_that_does_not_exist_is_an_error_in_the_log(self, bench, user_with, caplog):
        def missing(_):
            raise ConfigMissing('no workflow "Tool"')

        bench.user, bench.engine.child = user_with(recent_memory_tool_workflow="Tool"), missing
        assert bench("RecentMemory") == "No memories have been generated yet"
        assert 'no workflow "Tool"' in caplog.text

    def test_without_a_discussion_recent_memory_only_runs_the_workflow(self, bench, user_with):
        bench.user = user_with(recent_memory_tool_workflow="Tool")
        assert bench("RecentMemory") == "value of Tool"

    def test_without_a_discussion_conversation_memory_has_none(self, bench):
        assert bench("ConversationMemory") == "There are not yet any memories"

    def test_a_dry_run_tells_that_memories_would_be_made(self, bench):
        assert bench.notes("RecentMemory") == []
        bench.discussion_id = "d"
        assert len(bench.notes("RecentMemory")) == 1


class TestMemoryFromFile:
    """GetCurrentMemoryFromFile."""

    def test_all_memories_with_the_delimiter(self, bench):
        remembered(bench, "a", "b")
        assert bench("GetCurrentMemoryFromFile") == "a--ChunkBreak--b"
        assert bench("GetCurrentMemoryFromFile", customDelimiter="") == "ab"

    def test_none_yet(self, bench):
        """Without a discussion, and with one that has none; reading makes no file."""
        assert bench("GetCurrentMemoryFromFile") == "There are not yet any memories"
        store = bench.store
        assert bench("GetCurrentMemoryFromFile") == "There are not yet any memories"
        assert not store.folder.exists()


class TestSummarizerTool:
    """RecentMemorySummarizerTool."""

    @pytest.mark.parametrize(
        ("count", "text"), [(2, "d|e"), (-1, "a|b|c|d|e"), (0, "c|d|e"), (9, "a|b|c|d|e")], ids=str
    )
    def test_the_newest_memories(self, bench, count, text):
        """-1 gives all, 0 gives three."""
        remembered(bench, *"abcde")
        output = bench(TOOL, maxTurnsToPull=1, maxSummaryChunksFromFile=count, customDelimiter="|")
        assert output == text

    def test_no_memories_yet(self, bench):
        bench.discussion_id = "d"
        assert bench(TOOL, **NUMBERS) == "No memories have been generated yet"

    def test_without_a_discussion_the_last_selected_message_is_left_out(self, bench):
        """Three turns give two messages, without their role prefixes."""
        bench.messages = [{"role": "user", "content": f"User: {word}"} for word in ("a", "b", "c", "d")]
        assert bench(TOOL, maxTurnsToPull=3, maxSummaryChunksFromFile=1) == "b\nc"
        assert bench(TOOL, maxTurnsToPull=3, maxSummaryChunksFromFile=1, lookbackStart=1) == "a\nb"

    def test_one_selected_message_gives_nothing(self, bench):
        bench.messages = [{"role": "user", "content": word} for word in "ab"]
        assert bench(TOOL, maxTurnsToPull=1, maxSummaryChunksFromFile=1) == ""

    def test_long_messages_are_cut_into_pieces_with_the_delimiter(self, bench):
        bench.messages = [{"role": "user", "content": letter * 1200} for letter in "abc"]
        output = bench(TOOL, maxTurnsToPull=3, maxSummaryChunksFromFile=1, customDelimiter="")
        assert output == "a" * 1200 + "b" * 1200

    @pytest.mark.parametrize(
        ("count", "turns", "lookback"), [(1, 5, 0), (3, 5, 3), (3, 0, 0)], ids=["one", "all-left-out", "none"]
    )
    def test_nothing_to_take(self, bench, count, turns, lookback):
        bench.messages = [{"role": "user", "content": "x"}] * count
        output = bench(TOOL, maxTurnsToPull=turns, maxSummaryChunksFromFile=1, lookbackStart=lookback)
        assert output == "There are no memories to grab yet"

    @pytest.mark.parametrize("missing", NUMBERS)
    def test_both_numbers_are_needed(self, bench, missing):
        fields = {key: value for key, value in NUMBERS.items() if key != missing}
        assert bench.findings(TOOL, **fields)[0]
        with pytest.raises(ConfigError, match=f"'{missing}' must be a whole number, not None"):
            bench(TOOL, **fields)
