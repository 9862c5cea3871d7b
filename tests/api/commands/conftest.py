"""A user whose discussions `--memory` looks after."""

from __future__ import annotations

import json
from argparse import Namespace

import pytest

from Middleware.api.commands import memory
from Middleware.common.instance_global_variables import LaunchFacts, launch_facts, set_launch_facts
from Middleware.services.discussion_store import ChunkList, DiscussionStore, Entry


class House:
    """User `alice`, whose discussions lie in `root`."""

    def __init__(self, folder):
        self.folder, self.root = folder, folder / "DiscussionIds"
        self.write(
            "Users/alice", {"discussionIdMemoryFileWorkflowSettings": "Memory", "encryptUsingApiKey": True}
        )
        self.write("ApiTypes/Embed", {"type": "ollamaEmbeddings", "presetType": "any"})
        self.write("ApiTypes/Chat", {"type": "openAIChatCompletion", "presetType": "any"})
        self.write("Endpoints/embedder", {"endpoint": "http://embed.test", "apiTypeConfigFileName": "Embed"})
        self.write("Endpoints/chat", {"endpoint": "http://chat.test", "apiTypeConfigFileName": "Chat"})
        self.settings(embeddingEndpointName="embedder")

    def write(self, name, document):
        path = self.folder / f"Configs/{name}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(document))

    def settings(self, **fields):
        base = {"endpointName": "chat", "chunkEstimatedTokenSize": 2, "lookbackStartTurn": 0}
        self.write("Workflows/alice/Memory", {**base, **fields})

    def store(self, discussion_id="trip", **facts):
        return DiscussionStore(self.root, discussion_id, **facts)

    def remember(self, **facts):
        store = self.store(**facts)
        ChunkList(store, "memories.json").replace(*[Entry(f"memory {i}", str(i)) for i in range(5)])
        ChunkList(store, "chat_summary.json").replace(Entry("all of it", "4"))
        store.update_text("state_document.md", lambda _: "# State")
        return store


@pytest.fixture
def house(tmp_path, monkeypatch):
    before = launch_facts()
    built = House(tmp_path)
    set_launch_facts(
        LaunchFacts(public_directory=tmp_path, config_directory=tmp_path / "Configs", users=("alice",))
    )
    for name in ("HEADRACE_API_KEY", "HEADRACE_NEW_API_KEY", "WILMER_API_KEY", "WILMER_NEW_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    yield built
    set_launch_facts(before)


@pytest.fixture
def memory_of(house, capsys):
    """Run an action; its exit status and what it printed."""

    def run(*words, preview=False, **options):
        status = memory.Memory().run(Namespace(memory=list(words), preview=preview, **options))
        printed = capsys.readouterr()
        return status, printed.out + printed.err

    return run
