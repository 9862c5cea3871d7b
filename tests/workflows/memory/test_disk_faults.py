"""What the disk does costs no answer: a memory node gives its words for "no memories", and one line is logged.

`chmod` refuses the superuser nothing, so faults come from a file in the way, or at the seams to the disk.
Source: spec memory.md 18.2 (27).
"""

from __future__ import annotations

import errno
import os
import sqlite3

import pytest

from Middleware.common.request_context import RequestContext, enter_request
from Middleware.services import discussion_store
from Middleware.services.discussion_store import DiscussionStore
from Middleware.utilities import file_locks
from Middleware.workflows.memory import vector_store
from tests.workflows.memory.conftest import hash_of, talk

SETTINGS = {"chunkEstimatedTokenSize": 2, "lookbackStartTurn": 0, "prompt": "[TextChunk]"}
NO_FILE_MEMORIES = "There are not yet any memories"
NO_SUMMARY = "There is not yet a summary file"
NODES = {
    "QualityMemory": ({}, ""),
    "QualityMemory-vectors": ({}, ""),
    "RecentMemory": ({}, "No memories have been generated yet"),
    "RecentMemorySummarizerTool": (
        {"maxTurnsToPull": 1, "maxSummaryChunksFromFile": 1},
        "No memories have been generated yet",
    ),
    "ConversationMemory": ({}, NO_FILE_MEMORIES),
    "GetCurrentMemoryFromFile": ({}, NO_FILE_MEMORIES),
    "GetCurrentSummaryFromFile": ({}, NO_SUMMARY),
    "GetCurrentStateDocument": ({}, "No state document has been created yet"),
    "FullChatSummary": ({}, "No summary found"),
    "FullChatSummary-by-hand": ({"isManualConfig": True}, "No summary found"),
    "ChatSummaryMemoryGatheringTool": ({"maxTurnsToPull": 1}, ""),
    "chatSummarySummarizer": ({"endpointName": "chat", "prompt": "[LATEST_MEMORIES]"}, NO_SUMMARY),
    "WriteCurrentSummaryToFileAndReturnIt": ({"input": "They met."}, "They met."),
    "ContextCompactor": ({}, ""),
    "VectorMemorySearch": (
        {"input": "word"},
        "No relevant memories found in the vector database for the given keywords.",
    ),
    "MemoryKeywordSearchPerformerTool": ({"keywords": "word", "searchTarget": "RecentMemories"}, ""),
    "SlowButQualityRAG": (
        {"ragTarget": "word", "ragType": "x", "prompt": "[TextChunk]", "endpointName": "chat"},
        "hello",
    ),
    "ConversationChunkProcessor": (
        {"id": "a", "workflowName": "Tool", "cursorDirectory": "{cursors}", "chunkSize": 9},
        "ConversationChunkProcessor 'a' processed 0 chunk(s).",
    ),
}
SILENT = {"ConversationMemory", "ConversationChunkProcessor", "VectorMemorySearch"}
"""They look at no file of the discussion, or at one that is not there."""


@pytest.fixture(autouse=True)
def no_old_install(monkeypatch, tmp_path):
    """No folder of an older install is used instead of one that cannot be made."""
    nowhere = tmp_path / "no-old-install"
    nowhere.write_text("no folder")
    monkeypatch.setitem(DiscussionStore.__init__.__kwdefaults__, "install", nowhere)


@pytest.fixture
def asked(discussion, house, tmp_path, caplog):
    """The output of a node that stands before the answer, and the errors in the log."""
    house.user |= {
        "recentMemoryToolWorkflow": "Recent",
        "conversationMemoryToolWorkflow": "Conversation",
        "chatSummaryToolWorkflow": "Summary",
        "contextCompactorSettingsFile": "Compact",
    }
    house.workflow("Recent", {"type": "StaticResponse", "content": "No memories have been generated yet"})
    house.workflow("Conversation", {"type": "StaticResponse", "content": NO_FILE_MEMORIES})
    house.workflow("Summary", {"type": "StaticResponse", "content": "never asked for"})
    house.write("Workflows/ana/Compact", {"endpointName": "chat", "recentContextTokens": 2})

    def ask(name, discussion_id="d"):
        fields, _ = NODES[name]
        discussion.settings(**SETTINGS, useVectorForQualityMemory=name.endswith("vectors"))
        node = {"type": name.partition("-")[0], **fields}
        answer = {"type": "StringConcatenator", "strings": ["<", "{agent1Output}", ">"]}
        house.workflow("Main", node, answer, cursors=str(tmp_path / "cursors"))
        nodes = (node, answer) if "cursors" not in str(fields) else ()
        text = house.ask(*nodes, say=talk(9), discussion_id=discussion_id).text
        errors = [record for record in caplog.records if record.levelname in ("ERROR", "CRITICAL")]
        return text, errors

    return ask


def in_the_way(discussion, monkeypatch):
    """A file stands where the discussion's folder should be."""
    discussion.store.folder.parent.mkdir(parents=True, exist_ok=True)
    discussion.store.folder.write_text("no folder")


def read_only(discussion, monkeypatch):
    """No file can be made, also no lock."""

    def refused(*given, **named):
        raise OSError(errno.EROFS, "Read-only file system")

    monkeypatch.setattr(discussion_store, "atomic_write", refused)
    monkeypatch.setattr(file_locks, "_try_to_hold", refused)
    refuse_databases(monkeypatch, "attempt to write a readonly database")


def no_space(*given, **named):
    raise OSError(errno.ENOSPC, "No space left on device")


def full(discussion, monkeypatch):
    """Locks are made (they hold nothing), whatever is written fails."""
    monkeypatch.setattr(discussion_store, "atomic_write", no_space)
    refuse_databases(monkeypatch, "database or disk is full")


def broken(discussion, monkeypatch):
    """Nothing can be read either."""

    def refused(*given, **named):
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(discussion_store, "_bytes", refused)
    full(discussion, monkeypatch)


def refuse_databases(monkeypatch, words):
    class Refusing(sqlite3.Connection):
        def execute(self, sql, *given):
            if not sql.startswith(("PRAGMA", "SELECT", "ROLLBACK")):
                raise sqlite3.OperationalError(words)
            return super().execute(sql, *given)

        executescript = execute

    connect = sqlite3.connect
    monkeypatch.setattr(
        vector_store.sqlite3, "connect", lambda *given, **named: connect(*given, **named, factory=Refusing)
    )


FAULTS = [in_the_way, read_only, full, broken]


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("name", NODES)
def test_the_answer_comes(discussion, monkeypatch, asked, name, fault):
    """With the words for "no memories" where the node has some, without a traceback, and with one line at most."""
    if name.startswith("Write") and fault is not in_the_way:
        discussion.put_memories(("They left.", hash_of(0)))
    fault(discussion, monkeypatch)
    text, errors = asked(name)
    assert text == f"<{NODES[name][1]}>"
    assert [error.exc_info for error in errors] in ([None], [])
    if fault in (in_the_way, broken) and name not in SILENT and not name.endswith("vectors"):
        assert len(errors) == 1


@pytest.mark.parametrize("fault", [in_the_way, read_only, full])
@pytest.mark.parametrize(
    "name", ["QualityMemory", "QualityMemory-vectors", "RecentMemory", "FullChatSummary", "ContextCompactor"]
)
def test_a_node_that_would_write_says_so_once(discussion, monkeypatch, asked, name, fault):
    fault(discussion, monkeypatch)
    _, errors = asked(name)
    (message,) = (error.getMessage() for error in errors)
    assert any(
        word in message
        for word in ("Not a directory", "File exists", "Read-only", "full", "No space", "readonly")
    )


@pytest.mark.parametrize("fault", [read_only, full])
def test_what_is_stored_is_still_read(discussion, monkeypatch, asked, fault):
    """A disk that takes nothing more costs nothing of what it holds."""
    discussion.put_memories(("They met.", hash_of(0)), ("They left.", hash_of(4)))
    discussion.put_memories(("So far.", hash_of(0)), name="chat_summary.json")
    discussion.put("state_document.md", "# State")
    fault(discussion, monkeypatch)
    given = {name: asked(name)[0] for name in NODES}
    assert given["GetCurrentMemoryFromFile"] == "<They met.--ChunkBreak--They left.>"
    assert given["RecentMemorySummarizerTool"] == "<They left.>"
    assert given["GetCurrentSummaryFromFile"] == "<So far.>"
    assert given["FullChatSummary"] == given["chatSummarySummarizer"] == "<So far.>"
    assert given["ChatSummaryMemoryGatheringTool"] == "<They left.>"
    assert given["GetCurrentStateDocument"] == "<# State>"


def test_a_file_that_cannot_be_read_costs_no_answer(discussion, asked):
    """A folder with the name of the file."""
    files = (
        "memories.json",
        "memory_ends.json",
        "chat_summary.json",
        "state_document.md",
        "vector_memory.db",
    )
    for name in (*files, "context_compactor_old.json"):
        (discussion.store.folder / name).mkdir(parents=True)
    for name in set(NODES) - {"ConversationChunkProcessor"}:
        assert asked(name)[0] == f"<{NODES[name][1]}>"


def test_the_line_names_the_file(discussion, monkeypatch, asked):
    """Whoever looks after the machine sees which disk is full."""
    monkeypatch.setattr(os, "fsync", no_space)
    _, errors = asked("RecentMemory")
    place = discussion.store.folder / "memories.json"
    assert [error.getMessage() for error in errors] == [
        f"no memories were made: {place}: No space left on device"
    ]


@pytest.mark.parametrize("name", ["RecentMemory", "QualityMemory-vectors"])
@pytest.mark.parametrize("fault", [in_the_way, full], ids=["folder", "file"])
def test_with_redaction_the_line_has_the_reason_and_no_discussion_id(
    discussion, monkeypatch, asked, name, fault
):
    """An id may say who talks about what."""
    discussion.store = DiscussionStore(discussion.store.folder.parent, "of-mira")
    fault(discussion, monkeypatch)
    with enter_request(RequestContext("r", "ana", "openaichatcompletion", privacy=True)):
        _, errors = asked(name, discussion_id="of-mira")
    (message,) = (error.getMessage() for error in errors)
    assert "of-mira" not in message
    assert any(
        word in message for word in ("File exists", "Not a directory", "No space left", "disk is full")
    )


@pytest.mark.parametrize("stream", [False, True])
def test_behind_the_answer_it_costs_nothing_either(discussion, monkeypatch, caplog, stream):
    discussion.settings(**SETTINGS)
    full(discussion, monkeypatch)
    answer = {"type": "StaticResponse", "content": "yes", "returnToUser": True}
    assert discussion.turn(talk(9), answer, {"type": "QualityMemory"}, stream=stream) == "yes"
    errors = [record for record in caplog.records if record.levelname == "ERROR"]
    assert [(error.getMessage(), error.exc_info) for error in errors] == [
        ("no memories were made: No space left on device", None)
    ]
