"""A memory is corrected by the command while a server makes memories of the same discussion. Source: spec operate.md 6."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from tests.e2e.conftest import HOUSE, Server, write, write_tree
from tests.patience import PATIENCE_S, wait_until

pytestmark = pytest.mark.e2e

FILES = {
    "chunkEstimatedTokenSize": 2,
    "lookbackStartTurn": 1,
    "fileMemoryWorkflowName": "Note",
}
FACTS = {
    "useVectorForQualityMemory": True,
    "vectorMemoryWorkflowName": "Fact",
    "vectorMemoryChunkEstimatedTokenSize": 2,
    "lookbackStartTurn": 1,
}
USERS = {
    name: {
        "user": {"discussionIdMemoryFileWorkflowSettings": "Memory"},
        "workflows": {
            "Chat": [
                read,
                {"type": "StaticResponse", "content": "{agent1Output}", "returnToUser": True},
                {"type": "QualityMemory"},
            ],
            "Note": [{"type": "StaticResponse", "content": "note of {agent1Input}"}],
            "Fact": [{"type": "StaticResponse", "content": '{"summary": "word fact of {agent1Input}"}'}],
        },
    }
    for name, read in (
        ("ann", {"type": "GetCurrentMemoryFromFile", "customDelimiter": "; "}),
        ("bea", {"type": "VectorMemorySearch", "input": "word", "limit": 100}),
    )
}


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    public = tmp_path_factory.mktemp("corrections") / "Public"
    write_tree(public, USERS, "http://127.0.0.1:9")
    for user, settings in (("ann", FILES), ("bea", FACTS)):
        write(public / "Configs" / "Workflows" / user / "Memory.json", settings)
    started = Server(public, USERS, ())
    yield started
    started.stop()


@pytest.fixture(scope="module")
def say(server):
    """The answer to a conversation of so many messages; it is what the discussion's memory holds before."""

    def run(user, count):
        texts = [f"word {at}" for at in range(count)]
        tag = [{"role": "system", "content": f"[DiscussionId]{user}[/DiscussionId]"}]
        messages = tag + [
            {"role": ("user", "assistant")[at % 2], "content": text} for at, text in enumerate(texts)
        ]
        _, answer = server.post("/v1/chat/completions", {"model": user, "messages": messages})
        return json.loads(answer)["choices"][0]["message"]["content"]

    return run


@pytest.fixture(scope="module")
def memory(server):
    """`--memory` of a user: what it prints."""

    def run(user, *words):
        command = [sys.executable, "server.py", "--PublicDirectory", str(server.public), "--User", user]
        done = subprocess.run(
            [*command, "--memory", *words],
            capture_output=True,
            text=True,
            cwd=HOUSE,
            timeout=PATIENCE_S,
            check=False,
        )
        assert (done.returncode, done.stderr) == (0, "")
        return done.stdout

    return run


def wait_for(memory, user, count, kind):
    """Memories are made behind the answer."""
    wait_until(lambda: f"{kind} {count}," in memory(user, "list"))


def test_file_memories(server, say, memory):
    say("ann", 5)
    wait_for(memory, "ann", 4, "memories")
    assert "f2, memory 2:\nnote of word 1\n" in memory("ann", "search", "ann", "WORD 1")
    memory("ann", "forget", "ann", "f2")
    memory("ann", "edit", "ann", "f3", "a better note")
    assert say("ann", 7) == "note of word 0; a better note; note of word 3"
    wait_for(memory, "ann", 5, "memories")
    assert say("ann", 7) == "note of word 0; a better note; note of word 3; note of word 4; note of word 5"
    assert "ann: is as before the last correction" in memory("ann", "undo", "ann")
    memory("ann", "undo", "ann")
    say("ann", 7)
    wait_for(memory, "ann", 6, "memories")
    assert say("ann", 7) == "; ".join(f"note of word {at}" for at in range(6))


def test_vector_memories(server, say, memory):
    say("bea", 5)
    wait_for(memory, "bea", 4, "vector memories")
    memory("bea", "forget", "bea", "--matching", "fact of word 1", "--for-good")
    memory("bea", "edit", "bea", "v3", "word better")
    memory("bea", "pin", "bea", "v4")
    say("bea", 7)
    wait_for(memory, "bea", 5, "vector memories")
    found = say("bea", 7).split("\n\n---\n\n")
    assert found[0] == "word fact of word 3"
    assert sorted(found[1:]) == ["word better", *(f"word fact of word {at}" for at in (0, 4, 5))]
    files = (server.public / "DiscussionIds" / "bea").rglob("*")
    assert not [path for path in files if path.is_file() and b"fact of word 1" in path.read_bytes()]
