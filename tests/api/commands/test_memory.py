"""`--memory`: what each action prints, does and gives back. Source: spec memory.md 15."""

from __future__ import annotations

import json
import sys
from argparse import Namespace

import pytest
import responses

from Middleware.api.commands import memory
from Middleware.api.launch_arguments import parse
from Middleware.common.instance_global_variables import LaunchFacts, launch_facts, set_launch_facts
from Middleware.services.chunk_list import ChunkList, Entry
from Middleware.services.discussion_store import DiscussionStore
from Middleware.utilities.encryption_utils import TOKEN_START, derive_key
from Middleware.workflows.memory.vector_store import ChunkRecord, VectorDatabase

HASH = "62af8704764faf8e"


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
        return DiscussionStore(self.root, discussion_id, install=self.folder / "install", **facts)

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
    monkeypatch.delenv("WILMER_API_KEY", raising=False)
    monkeypatch.delenv("WILMER_NEW_API_KEY", raising=False)
    monkeypatch.setattr("Middleware.services.discussion_folders.OLD_DATA_DIRECTORY", tmp_path / "install")
    yield built
    set_launch_facts(before)


@pytest.fixture
def memory_of(house, capsys):
    """Run an action; its exit status and what it printed."""

    def run(*words, preview=False):
        status = memory.Memory().run(Namespace(memory=list(words), preview=preview))
        printed = capsys.readouterr()
        return status, printed.out + printed.err

    return run


class TestUsage:
    """Wrong words are a usage error: status 2."""

    @pytest.mark.parametrize(
        ("words", "message"),
        [
            (["forget"], "found 'forget', allowed: list, show, rebuild, backfill, rekey, export, import"),
            (["show"], "show: give an ID"),
            (["list", "x"], "list: give nothing after it"),
            (["rebuild", "x"], "rebuild: give an ID and a FILE"),
            (["import", "a", "b"], "import: give a FILE"),
        ],
        ids=str,
    )
    def test_it_says_what_is_wanted(self, memory_of, words, message):
        status, text = memory_of(*words)
        assert (status, message in text) == (2, True)

    def test_several_users_are_too_many(self, memory_of, house):
        set_launch_facts(LaunchFacts(config_directory=house.folder / "Configs", users=("alice", "bob")))
        assert memory_of("list")[0] == 2

    def test_the_command_line_knows_it(self, house):
        launch = parse(
            ["--ConfigDirectory", str(house.folder / "Configs"), "--memory", "show", "trip", "--preview"]
        )
        assert (type(launch.command), launch.arguments.memory, launch.arguments.preview) == (
            memory.Memory,
            ["show", "trip"],
            True,
        )


class TestLooking:
    """list, show."""

    def test_discussions_are_listed(self, memory_of, house):
        house.remember()
        VectorDatabase(house.store()).save(ChunkRecord("h", ("h",)), [{"summary": "s"}], after=None)
        status, text = memory_of("list")
        assert status == 0
        assert "trip: memories 5, vector memories 1, summary yes, last change 20" in text
        assert "user alice: discussions 1" in text

    def test_a_discussion_is_shown_with_its_newest_memories(self, memory_of, house):
        house.remember()
        status, text = memory_of("show", "trip")
        assert status == 0
        assert "memory 5:\nmemory 4" in text
        assert "memory 2:" not in text
        assert "summary:\nall of it" in text
        assert "state document:\n# State" in text

    def test_a_discussion_that_is_not_there_is_an_error(self, memory_of):
        status, text = memory_of("show", "trip")
        assert (status, "error: there is no discussion 'trip'" in text) == (1, True)

    def test_with_a_key_its_folder_is_looked_at(self, memory_of, house, monkeypatch):
        """And its files are decrypted."""
        house.remember(key_hash=HASH, encryption_key=derive_key("test-key", "alice"))
        assert "discussions 0" in memory_of("list")[1]
        monkeypatch.setenv("WILMER_API_KEY", "test-key")
        assert "trip: memories 5" in memory_of("list")[1]

    def test_a_user_without_file_is_an_error(self, memory_of, house):
        set_launch_facts(LaunchFacts(config_directory=house.folder / "Configs", users=("nobody",)))
        status, text = memory_of("list")
        assert (status, "error: no user 'nobody'" in text) == (1, True)


class TestZip:
    """export, import."""

    def test_out_and_in_again(self, memory_of, house, tmp_path):
        house.remember()
        target = str(tmp_path / "trip.zip")
        assert memory_of("export", "trip", target) == (0, f"trip: 3 files are in {target}, as plain text\n")
        house.store().folder.rename(tmp_path / "gone")
        assert memory_of("import", target, preview=True)[1].startswith(
            "trip: would be made of chat_summary.json"
        )
        assert not house.store().folder.exists()
        assert memory_of("import", target) == (0, "trip: is there now\n")
        assert memory_of("import", target)[0] == 1


class TestRekey:
    """rekey."""

    @pytest.fixture
    def keyed(self, house, monkeypatch):
        monkeypatch.setenv("WILMER_API_KEY", "test-key")
        house.remember(key_hash=HASH, encryption_key=derive_key("test-key", "alice"))
        return house.root / HASH

    def test_a_new_key_moves_the_folder(self, memory_of, house, keyed, monkeypatch):
        monkeypatch.setenv("WILMER_NEW_API_KEY", "new-key")
        assert "3 files would be encrypted with the new key" in memory_of("rekey", preview=True)[1]
        assert keyed.exists()
        status, text = memory_of("rekey")
        assert (status, "renamed to" in text, keyed.exists()) == (0, True, False)
        monkeypatch.setenv("WILMER_API_KEY", "new-key")
        assert "trip: memories 5" in memory_of("list")[1]

    def test_without_a_new_key_files_are_decrypted_where_they_are(self, memory_of, keyed):
        status, text = memory_of("rekey")
        assert (status, "files were decrypted" in text) == (0, True)
        assert (keyed / "trip/state_document.md").read_bytes() == b"# State"

    def test_an_unreadable_file_is_left_and_makes_it_undone(self, memory_of, keyed, monkeypatch):
        monkeypatch.setenv("WILMER_NEW_API_KEY", "new-key")
        (keyed / "trip/timestamps.json").write_bytes(TOKEN_START + b"x")
        status, text = memory_of("rekey")
        assert (status, "unreadable with these keys" in text, "files are left" in text) == (1, True, True)
        assert keyed.exists()

    def test_a_name_that_is_taken_is_left(self, memory_of, house, keyed, monkeypatch):
        from Middleware.utilities.encryption_utils import api_key_hash

        monkeypatch.setenv("WILMER_NEW_API_KEY", "new-key")
        (house.root / api_key_hash("new-key")).mkdir()
        before = {path: path.read_bytes() for path in keyed.rglob("*") if path.is_file()}
        for preview in (True, False):
            status, text = memory_of("rekey", preview=preview)
            assert (status, "nothing is changed" in text) == (1, True)
        assert {path: path.read_bytes() for path in keyed.rglob("*") if path.is_file()} == before

    def test_a_user_without_encryption_is_told(self, memory_of, house, keyed, monkeypatch):
        monkeypatch.setenv("WILMER_NEW_API_KEY", "new-key")
        house.write("Users/alice", {"encryptUsingApiKey": False})
        assert "set encryptUsingApiKey" in memory_of("rekey", preview=True)[1]

    def test_the_old_key_is_needed(self, memory_of, monkeypatch):
        assert "WILMER_API_KEY" in memory_of("rekey")[1]
        monkeypatch.setenv("WILMER_API_KEY", "unknown")
        assert "there is no folder of this key" in memory_of("rekey")[1]


class TestBackfill:
    """backfill."""

    @pytest.fixture
    def embedder(self):
        with responses.RequestsMock(assert_all_requests_are_fired=False) as network:
            network.post("http://embed.test/api/embed", json={"embeddings": [[1.0]]})
            yield network

    @pytest.fixture
    def lacking(self, house):
        VectorDatabase(house.store()).save(ChunkRecord("h", ("h",)), [{"summary": "s"}], after=None)
        return VectorDatabase(house.store())

    def test_all_discussions_get_vectors(self, memory_of, lacking, embedder):
        assert memory_of("backfill", preview=True) == (0, "trip: 1 memories would get a vector\n")
        assert memory_of("backfill") == (0, "trip: 0 memories still lack a vector\n")
        assert lacking.without_vector("embedder", 9) == []

    def test_what_remains_makes_it_undone(self, memory_of, lacking, embedder):
        embedder.replace("POST", "http://embed.test/api/embed", status=500)
        status, text = memory_of("backfill", "trip")
        assert (status, "1 memories still lack a vector" in text) == (1, True)

    @pytest.mark.parametrize(
        ("user", "message"),
        [({"port": 5000}, "no settings file"), (None, "embeddingEndpointName: an endpoint is needed")],
    )
    def test_an_endpoint_is_needed(self, memory_of, house, user, message):
        house.settings()
        house.write(
            "Users/alice", user if user is not None else {"discussionIdMemoryFileWorkflowSettings": "Memory"}
        )
        assert message in memory_of("backfill")[1]


class TestRebuild:
    """rebuild."""

    @pytest.fixture
    def chat(self):
        with responses.RequestsMock(assert_all_requests_are_fired=False) as network:
            body = {"choices": [{"message": {"content": "a note"}, "finish_reason": "stop"}]}
            network.post("http://chat.test/v1/chat/completions", json=body)
            yield network

    @pytest.fixture
    def file(self, tmp_path):
        path = tmp_path / "talk.json"
        path.write_text(json.dumps([{"role": "user", "content": f"word {i}"} for i in range(3)]))
        return str(path)

    def test_memories_are_made_anew(self, memory_of, house, chat, file):
        house.remember()
        assert "3 messages in 3 chunks would replace" in memory_of("rebuild", "trip", file, preview=True)[1]
        assert len(chat.calls) == 0
        assert memory_of("rebuild", "trip", file)[0] == 0
        assert [entry.text for entry in ChunkList(house.store(), "memories.json").load()] == ["a note"] * 3

    def test_what_is_left_makes_it_undone(self, memory_of, house, chat, file):
        blank = {"choices": [{"message": {"content": " "}, "finish_reason": "stop"}]}
        chat.replace("POST", "http://chat.test/v1/chat/completions", json=blank)
        status, text = memory_of("rebuild", "trip", file)
        assert (status, "3 chunks gave no memory" in text) == (1, True)

    def test_too_few_messages_change_nothing(self, memory_of, house, file):
        house.settings(chunkEstimatedTokenSize=1000)
        status, text = memory_of("rebuild", "trip", file)
        assert (status, "too few" in text) == (1, True)

    @pytest.mark.parametrize("document", ["{}", "[", "[1]"])
    def test_a_file_of_something_else_is_an_error(self, memory_of, tmp_path, document):
        (tmp_path / "odd.json").write_text(document)
        assert memory_of("rebuild", "trip", str(tmp_path / "odd.json"))[0] == 1


class TestProgress:
    """The bar."""

    def test_it_counts_on_a_terminal_only(self, capsys):
        with memory.progress("files") as told:
            told(1, 2)
            told(2, 2)
        assert capsys.readouterr().err == ""

    def test_without_the_package_there_is_none(self, monkeypatch):
        monkeypatch.setitem(sys.modules, "tqdm", None)
        with memory.progress("files") as told:
            told(1, 2)
            told(2, 2)
        assert "tqdm" in sys.modules
