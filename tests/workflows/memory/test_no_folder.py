"""A discussions folder that cannot be made: each node has its no-memory literal, and the chat goes on.

Source: spec memory.md 2.2.
"""

from __future__ import annotations

import pytest

LONG = [{"role": role, "content": f"word {number}"} for number in range(12) for role in ("user", "assistant")]

NODES = [
    ({"type": "GetCurrentMemoryFromFile"}, "There are not yet any memories"),
    ({"type": "GetCurrentSummaryFromFile"}, "There is not yet a summary file"),
    ({"type": "GetCurrentStateDocument"}, "No state document has been created yet"),
    (
        {"type": "RecentMemorySummarizerTool", "maxTurnsToPull": 2, "maxSummaryChunksFromFile": -1},
        "No memories have been generated yet",
    ),
    (
        {"type": "VectorMemorySearch", "input": "word"},
        "No relevant memories found in the vector database for the given keywords.",
    ),
    ({"type": "FullChatSummary"}, "No summary found"),
    ({"type": "FullChatSummary", "isManualConfig": True}, "No summary found"),
    ({"type": "chatSummarySummarizer", "endpointName": "chat"}, "There is not yet a summary file"),
    ({"type": "WriteCurrentSummaryToFileAndReturnIt", "input": "so far"}, "so far"),
    ({"type": "RecentMemory"}, "No memories have been generated yet"),
    ({"type": "ConversationMemory"}, "There are not yet any memories"),
    ({"type": "ContextCompactor"}, ""),
    ({"type": "ChatSummaryMemoryGatheringTool", "maxTurnsToPull": 2}, ""),
]


@pytest.fixture
def homeless(discussion, tmp_path):
    """The discussion, below a root that is a file."""
    (tmp_path / "DiscussionIds").write_text("in the way")
    discussion.settings(chunkEstimatedTokenSize=2, lookbackStartTurn=0)
    discussion.house.user["contextCompactorSettingsFile"] = "Compactor"
    discussion.house.write("Workflows/ana/Compactor", {"endpointName": "chat", "recentContextTokens": 2})
    return discussion


@pytest.mark.parametrize(("node", "literal"), NODES, ids=[node["type"] for node, _ in NODES])
def test_each_node_has_its_literal(homeless, node, literal):
    """No model is asked for a memory that nobody can keep."""
    answer = homeless.turn(LONG, node, {"type": "StaticResponse", "content": "[{agent1Output}]"})
    assert (answer, homeless.model.calls) == (f"[{literal}]", [])


@pytest.mark.parametrize("vectors", [False, True], ids=["files", "vectors"])
def test_no_memories_are_made(homeless, vectors):
    homeless.settings(chunkEstimatedTokenSize=2, lookbackStartTurn=0, useVectorForQualityMemory=vectors)
    answer = homeless.turn(LONG, {"type": "QualityMemory"}, {"type": "StaticResponse", "content": "on"})
    assert (answer, homeless.model.calls) == ("on", [])


def test_one_line_of_the_log_says_why(homeless, tmp_path, caplog):
    """However many nodes would have used the folder, and the times of messages too."""
    timed = {"type": "Standard", "endpointName": "chat", "addDiscussionIdTimestampsForLLM": True}
    homeless.turn(LONG, *[node for node, _ in NODES], {**timed, "returnToUser": True})
    errors = [each.getMessage() for each in caplog.records if each.levelname == "ERROR"]
    about_the_folder = [text for text in errors if str(tmp_path / "DiscussionIds" / "d") in text]
    assert len(about_the_folder) == 1
