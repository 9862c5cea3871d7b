"""One discussion, many clients, two worker processes: nothing is remembered twice. Source: spec memory.md 18.2 (26)."""

from __future__ import annotations

import json
import threading

import pytest

from Middleware.utilities.hashing_utils import message_hash
from tests.e2e.conftest import Gunicorn, write, write_tree
from tests.e2e.fake_backend import Reply

pytestmark = pytest.mark.e2e

ANSWER = {"type": "StaticResponse", "content": "yes", "returnToUser": True}
SETTINGS = {
    "endpointName": "Model",
    "prompt": "make-a-note [TextChunk]",
    "chunkEstimatedTokenSize": 40,
    "maxMessagesBetweenChunks": 4,
    "lookbackStartTurn": 3,
    "condenseMemories": True,
    "memoriesBeforeCondensation": 3,
    "memoryCondensationBuffer": 1,
}
USERS = {
    "ann": {
        "user": {"discussionIdMemoryFileWorkflowSettings": "Memory"},
        "workflows": {"Chat": [ANSWER, {"type": "QualityMemory"}]},
    }
}
TURNS, CLIENTS = 30, 4


class TwoWorkers(Gunicorn):
    workers = 2


@pytest.fixture
def server(backend, tmp_path):
    backend.on("make-a-note", Reply(("a ", "note"), gap_s=0.05))
    public = tmp_path / "Public"
    write_tree(public, USERS, backend.url)
    write(public / "Configs" / "Workflows" / "ann" / "Memory.json", SETTINGS)
    started = TwoWorkers(public, USERS, ("--concurrency", "8"))
    yield started
    started.stop()


def said(count):
    """The conversation of the first `count` messages; the user says the same again and again."""
    texts = [("continue", "part")[i % 2] + (f" {i}" if i % 2 else "") for i in range(count)]
    tag = [{"role": "system", "content": "[DiscussionId]trip[/DiscussionId]"}]
    return tag + [{"role": ("user", "assistant")[i % 2], "content": text} for i, text in enumerate(texts)]


def test_four_clients_on_one_discussion(server):
    """Each sends every fourth turn of it, as fast as the answers come; the model that makes notes is slower."""
    lost = []

    def client(number):
        for turn in range(number, TURNS, CLIENTS):
            status, _ = server.post("/v1/chat/completions", {"model": "ann", "messages": said(2 * turn + 3)})
            lost.extend([turn] if status != 200 else [])

    clients = [threading.Thread(target=client, args=(number,)) for number in range(CLIENTS)]
    for each in clients:
        each.start()
    for each in clients:
        each.join()
    server.post("/v1/chat/completions", {"model": "ann", "messages": said(2 * TURNS + 1)})
    server.stop()  # it finishes what stands behind the answers
    file = server.public / "DiscussionIds" / "trip" / "memory_ends.json"
    covered = [each for line in json.loads(file.read_text()) for each in line["messages"]]
    hashes = [message_hash(message) for message in said(2 * TURNS + 1)[1:]]
    assert lost == []
    assert covered == hashes[: len(covered)]
    assert len(covered) > 40
