"""A user whose discussions `--memory` looks after."""

from __future__ import annotations

import json
from argparse import Namespace

import pytest

from Middleware.api.commands import memory
from Middleware.api.launch_arguments import parse
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


class Installation:
    """A Public folder with a user, a key, a script and discussions; commands run on it as typed."""

    def __init__(self, public, capsys):
        self.public, self._capsys = public, capsys
        self.configs, self.discussions = public / "Configs", public / "DiscussionIds"

    def write(self, name, document):
        path = self.configs / f"{name}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(document if isinstance(document, str) else json.dumps(document), "utf-8")

    def fill(self):
        self.write("Users/_current-user", {"currentUser": "ana"})
        self.write("Users/ana", {"port": 5000})
        self.write("ApiTypes/Chat", {"type": "openAIChatCompletion", "presetType": "any"})
        self.write(
            "Endpoints/cloud",
            '{\n  // mine\n  "endpoint": "http://chat.test",\n  "apiTypeConfigFileName": "Chat",'
            '\n  "apiKey": "abcdef-123456"\n}\n',
        )
        self.write("Workflows/ana/_DefaultWorkflow", [{"type": "StaticResponse", "content": "hi"}])
        scripts = self.public / "workflow_python_scripts"
        scripts.mkdir()
        (scripts / "a.py").write_text("x = 1\n")
        self.remember("trip")
        return self

    def store(self, discussion_id, **facts):
        return DiscussionStore(self.discussions, discussion_id, **facts)

    def remember(self, discussion_id, text="we met", **facts):
        store = self.store(discussion_id, **facts)
        ChunkList(store, "memories.json").replace(Entry(text, "1"))
        return store

    def run(self, *words):
        """Exit status, and what was printed."""
        launch = parse(["--PublicDirectory", str(self.public), *map(str, words)])
        set_launch_facts(launch.facts)
        status = launch.command.run(launch.arguments)
        printed = self._capsys.readouterr()
        return status, printed.out + printed.err

    def contents(self):
        """Every file but the note of versions."""
        return {
            path.relative_to(self.public).as_posix(): path.read_bytes()
            for path in sorted(self.public.rglob("*"))
            if path.is_file() and path.name != "version.json"
        }


@pytest.fixture
def installation(tmp_path, capsys):
    before = launch_facts()
    yield Installation(tmp_path / "one" / "Public", capsys).fill()
    set_launch_facts(before)


@pytest.fixture
def elsewhere(tmp_path, capsys, installation):
    """A Public folder that is not there yet."""
    return Installation(tmp_path / "two" / "Public", capsys)


@pytest.fixture
def backup(tmp_path, installation):
    """A backup of the installation."""
    target = tmp_path / "backup.zip"
    assert installation.run("--backup", target)[0] == 0
    return target
