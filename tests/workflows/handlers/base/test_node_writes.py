"""What each node type says that it writes, and the workflows behind it. Source: spec workbench.md 4."""

from __future__ import annotations

import json

import pytest

import Middleware.workflows.handlers.impl  # noqa: F401  (registers the node types)
from Middleware.config.loader import ConfigTree
from Middleware.config.users import load_user
from Middleware.workflows.checks.node_writes import UNKNOWN_CHILD, NodeWrites
from Middleware.workflows.handlers.node_types import NODES

NOTHING = ""
SUMMARY = "stores the summary of the discussion"
RESEARCH = "asks the offline researcher to do research"
WRITES = {
    "Agent": NOTHING,
    "ArithmeticProcessor": NOTHING,
    "Candidates": NOTHING,
    "ChatSummaryMemoryGatheringTool": NOTHING,
    "Conditional": NOTHING,
    "ConditionalCustomWorkflow": NOTHING,
    "ContextCompactor": "brings the summaries of the older messages up to date",
    "ConversationChunkProcessor": "hands on the new chunks of the conversation, and writes how far it came",
    "ConversationMemory": NOTHING,
    "ConversationalKeywordSearchPerformerTool": NOTHING,
    "CurlCommand": "runs curl",
    "CustomWorkflow": NOTHING,
    "DelimitedChunker": NOTHING,
    "FullChatSummary": "makes file memories and brings the summary of the discussion up to date",
    "GetCurrentMemoryFromFile": NOTHING,
    "GetCurrentStateDocument": NOTHING,
    "GetCurrentSummaryFromFile": NOTHING,
    "GetCustomFile": NOTHING,
    "ImageProcessor": NOTHING,
    "JsonExtractor": NOTHING,
    "MCPToolCall": "calls a tool of an MCP server",
    "MemoryKeywordSearchPerformerTool": NOTHING,
    "OfflineResearcherApiDeepResearch": RESEARCH,
    "OfflineResearcherApiQuickSearch": RESEARCH,
    "OfflineWikiApiBestFullArticle": NOTHING,
    "OfflineWikiApiFullArticle": NOTHING,
    "OfflineWikiApiPartialArticle": NOTHING,
    "OfflineWikiApiTopNFullArticles": NOTHING,
    "PythonModule": "runs a Python script",
    "QualityMemory": "makes memories of the discussion",
    "RecentMemory": "makes file memories of the discussion",
    "RecentMemorySummarizerTool": NOTHING,
    "SaveCustomFile": "writes the file n.txt",
    "SlowButQualityRAG": NOTHING,
    "Standard": NOTHING,
    "StaticResponse": NOTHING,
    "StringConcatenator": NOTHING,
    "TagTextExtractor": NOTHING,
    "VectorMemorySearch": NOTHING,
    "WebFetch": NOTHING,
    "WorkflowLock": NOTHING,
    "WriteCurrentSummaryToFileAndReturnIt": SUMMARY,
    "chatSummarySummarizer": SUMMARY,
}


def test_every_type_says_it():
    """A type that is added says so in this table."""
    said = {name: NODES[name]().writes({"filepath": "n.txt"}) for name, _ in NODES.items()}
    assert said == WRITES


@pytest.mark.parametrize(
    ("node_type", "fields", "writes"),
    [
        ("WebFetch", {"method": "head"}, False),
        ("WebFetch", {"method": "POST"}, True),
        ("WebFetch", {"method": "{agent1Output}"}, True),
        ("FullChatSummary", {"isManualConfig": True}, False),
        ("ContextCompactor", {"readOnly": True}, False),
        ("ImageProcessor", {"saveVisionResponsesToDiscussionId": True}, True),
        ("Agent", {"agentTools": ["mcp:files"]}, True),
        ("Agent", {"agentTools": [{"python": "a.py", "name": "a", "description": "d"}]}, True),
        ("Agent", {"agentTools": [{"builtin": "web_fetch"}]}, False),
    ],
)
def test_fields_decide(node_type, fields, writes):
    assert bool(NODES[node_type]().writes(fields)) is writes


@pytest.fixture
def writes_of(tmp_path):
    """`writes_of(files, **user)`: what the nodes of `Main` write."""

    def write(name, document):
        path = tmp_path / f"{name}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(document))

    def found(files, **user):
        write("Users/ana", {"customWorkflow": "Main", **user})
        for name, nodes in files.items():
            write(f"Workflows/ana/{name}", nodes)
        snapshot = ConfigTree(tmp_path).snapshot()
        nodes = tuple(files["Main"])
        return NodeWrites(snapshot, load_user(snapshot, "ana")).of_nodes("Workflows/ana/Main.json", nodes)

    return found


def child(name, **fields):
    return {"type": "CustomWorkflow", "workflowName": name, **fields}


SAVE = {"type": "SaveCustomFile", "filepath": "n.txt"}


class TestChildren:
    def test_at_any_depth(self, writes_of):
        files = {"Main": [{}, child("A")], "A": [child("B")], "B": [SAVE, SAVE]}
        assert writes_of(files) == {2: ["A: B: writes the file n.txt"]}

    def test_each_branch_counts(self, writes_of):
        branches = {"conditionalWorkflows": {"a": "A", "b": "B"}, "type": "ConditionalCustomWorkflow"}
        assert writes_of({"Main": [branches], "A": [{}], "B": [SAVE]}) == {1: ["B: writes the file n.txt"]}

    def test_a_circle(self, writes_of):
        assert writes_of({"Main": [child("A")], "A": [child("Main"), SAVE]}) == {
            1: ["A: writes the file n.txt"]
        }

    def test_a_workflow_that_calls_itself(self, writes_of):
        """What writes in it would do so for the node that calls, too."""
        note = "writes the file n.txt"
        assert writes_of({"Main": [child("Main"), SAVE]}) == {1: [f"Main: {note}"], 2: [note]}

    def test_two_ways_into_a_circle(self, writes_of):
        """Each way in leads all around."""
        files = {"Main": [child("A"), child("B")], "A": [child("B"), SAVE], "B": [child("A")]}
        assert writes_of(files) == {1: ["A: writes the file n.txt"], 2: ["B: A: writes the file n.txt"]}

    def test_a_name_that_only_a_run_knows(self, writes_of):
        """May lead anywhere."""
        assert writes_of({"Main": [{}, child("{agent1Output}")]}) == {2: [UNKNOWN_CHILD]}

    def test_a_name_that_leads_nowhere(self, writes_of):
        """It cannot run."""
        assert writes_of({"Main": [child("Gone")]}) == {}

    def test_a_workflow_of_the_users_settings(self, writes_of):
        files = {"Main": [{"type": "ConversationMemory"}], "Tool": [SAVE]}
        assert writes_of(files) == {}
        assert writes_of(files, conversationMemoryToolWorkflow="Tool") == {1: ["Tool: writes the file n.txt"]}
