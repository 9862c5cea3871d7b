"""`--memory`: what each action prints, does and gives back. Source: spec memory.md 15."""

from __future__ import annotations

import sys

import pytest
import responses

from Middleware.api.commands import memory
from Middleware.api.launch_arguments import parse
from Middleware.common.instance_global_variables import LaunchFacts, set_launch_facts
from Middleware.services.discussion_store import ChunkList, DiscussionStore, Entry
from Middleware.utilities.encryption_utils import TOKEN_START, api_key_hash, derive_key, encrypt
from Middleware.workflows.memory.vector_store import ChunkRecord, VectorDatabase

HASH = "62af8704764faf8e"


class TestUsage:
    """Wrong words are a usage error: status 2."""

    @pytest.mark.parametrize(
        ("words", "message"),
        [
            (
                ["drop"],
                "found 'drop', allowed: list, show, rebuild, backfill, rekey, export, import, search,",
            ),
            (["forget", "trip"], "forget: give an ID and the numbers of memories, or --matching TEXT"),
            (["show"], "show: give an ID"),
            (["list", "x"], "list: give no further words"),
            (["rebuild", "x"], "rebuild: give an ID and a FILE"),
            (["import", "a", "b"], "import: give a FILE or a FOLDER"),
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
        assert "discussions of user alice: 1" in text

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
        assert "discussions of user alice: 0" in memory_of("list")[1]
        monkeypatch.setenv("HEADRACE_API_KEY", "test-key")
        assert "trip: memories 5" in memory_of("list")[1]

    @pytest.mark.parametrize("form", ["{}", "[1]", "[" * 100_000, b"\xff\xfe"], ids=range(4))
    def test_a_damaged_discussion_is_listed_as_its_backup_has_it(self, memory_of, house, form):
        house.remember()
        ChunkList(house.store(), "memories.json").replace(Entry("last", "9"))
        house.store().path("memories.json").write_bytes(form.encode() if isinstance(form, str) else form)
        status, text = memory_of("list")
        assert (status, "trip: memories 5" in text) == (0, True)

    @pytest.mark.parametrize(
        "words", [["list"], ["show", "trip"], ["import", "x.zip"]], ids=lambda words: words[0]
    )
    def test_a_file_in_the_place_of_the_folder_is_told(self, memory_of, house, words):
        """It is no folder without discussions."""
        house.root.write_text("no folder")
        assert memory_of(*words) == (
            1,
            f"error: {house.root} is a file, allowed: the folder of the discussions\n",
        )

    def test_one_that_cannot_be_read_does_not_stop_the_others(self, memory_of, house):
        """A file of another key, a database that is none: each is told in a line, and the status says so."""
        house.remember()
        house.remember(discussion_id="key")
        house.remember(discussion_id="base")
        house.store("key").path("memories.json").write_bytes(TOKEN_START + b"x")
        house.store("base").path("vector_memory.db").write_bytes(b"text" * 1000)
        status, text = memory_of("list")
        assert status == 1
        assert "base: cannot be read: vector_memory.db: file is not a database\n" in text
        assert "key: cannot be read: a file of this discussion is encrypted with another API key\n" in text
        assert "trip: memories 5" in text

    @pytest.mark.parametrize("words", [("show", "trip"), ("export", "trip", "trip.zip")], ids=lambda w: w[0])
    def test_one_of_another_key_is_an_error_of_one_line(self, memory_of, house, tmp_path, words):
        house.remember()
        house.store().path("memories.json").write_bytes(TOKEN_START + b"x")
        status, text = memory_of(*words[:2], *(str(tmp_path / word) for word in words[2:]))
        assert (status, text.splitlines()[-1]) == (
            1,
            "error: a file of this discussion is encrypted with another API key",
        )

    def test_a_user_without_file_is_an_error(self, memory_of, house):
        set_launch_facts(LaunchFacts(config_directory=house.folder / "Configs", users=("nobody",)))
        status, text = memory_of("list")
        assert (status, "error: no user 'nobody'" in text) == (1, True)


class TestZip:
    """export, import."""

    def test_out_and_in_again(self, memory_of, house, tmp_path):
        house.remember()
        target = str(tmp_path / "trip.zip")
        assert memory_of("export", "trip", target) == (0, f"trip: wrote 3 files to {target}, as plain text\n")
        house.store().folder.rename(tmp_path / "gone")
        assert memory_of("import", target, preview=True)[1].startswith(
            "trip: would be created from chat_summary.json"
        )
        assert not house.store().folder.exists()
        assert memory_of("import", target) == (0, "trip: imported\n")
        assert memory_of("import", target)[0] == 1

    def test_what_is_left_out_makes_it_undone(self, memory_of, house, tmp_path):
        house.remember()
        house.store().path("vector_memory.db").write_bytes(b"text" * 1000)
        status, text = memory_of("export", "trip", str(tmp_path / "trip.zip"))
        assert status == 1
        assert "trip: vector_memory.db is damaged and has no good backup, so it was left out\n" in text
        assert "trip: wrote 3 files to" in text


class TestFolders:
    """import of a folder: what an old place holds is taken over."""

    @pytest.fixture
    def old(self, house, tmp_path):
        """Discussions of another installation: two without a key, one with."""
        program = tmp_path / "old"
        root = program / "Public" / "DiscussionIds"
        key = {"key_hash": HASH, "encryption_key": derive_key("test-key", "alice")}
        for name, facts in (("trip", {}), ("walk", {}), ("secret", key)):
            ChunkList(DiscussionStore(root, name, **facts), "memories.json").replace(Entry(name, "h"))
        return program

    @pytest.mark.parametrize("part", ["", "Public", "Public/DiscussionIds"])
    def test_all_discussions_of_an_installation_come_in(self, memory_of, house, old, part):
        """The program's folder or a folder in it."""
        status, text = memory_of("import", str(old / part))
        assert (status, text.splitlines()[:2]) == (0, ["trip: imported", "walk: imported"])
        assert f"imported 2 of 2 discussions in {old}/Public/DiscussionIds to {house.root}" in text
        assert ChunkList(house.store("walk"), "memories.json").load() == (Entry("walk", "h"),)
        assert (old / "Public/DiscussionIds/walk/memories.json").exists()

    def test_with_a_key_those_of_the_key(self, memory_of, house, old, monkeypatch):
        monkeypatch.setenv("WILMER_API_KEY", "test-key")
        assert memory_of("import", str(old))[1].startswith("secret: imported")
        raw = (house.root / HASH / "secret" / "memories.json").read_bytes()
        assert raw.startswith(TOKEN_START)

    def test_one_discussion_comes_in(self, memory_of, house, old):
        assert memory_of("import", str(old / "Public/DiscussionIds/trip"))[0] == 0
        assert not house.store("walk").folder.exists()

    def test_nothing_is_overwritten(self, memory_of, house, old):
        """The others come in, and the status is 1."""
        house.remember()
        status, text = memory_of("import", str(old))
        assert (status, "trip: not imported: the discussion 'trip' already exists" in text) == (1, True)
        assert len(ChunkList(house.store(), "memories.json").load()) == 5
        assert house.store("walk").folder.exists()

    def test_a_preview_changes_nothing(self, memory_of, house, old):
        assert "walk: would be created from memories.json" in memory_of("import", str(old), preview=True)[1]
        assert not house.root.exists()

    def test_a_folder_without_discussions_is_an_error(self, memory_of, tmp_path):
        (tmp_path / "empty").mkdir()
        assert (
            "empty contains no discussions without an API key"
            in memory_of("import", str(tmp_path / "empty"))[1]
        )


class TestPlaces:
    """Where discussions are looked for. Source: spec memory.md 2.2, 13.1."""

    def test_a_named_root_is_the_only_place(self, memory_of, house, monkeypatch, tmp_path):
        """What lies in the program's folder belongs to another installation."""
        facts = "Middleware.common.instance_global_variables"
        monkeypatch.setattr(f"{facts}.OLD_DATA_DIRECTORY", tmp_path / "install")
        old = DiscussionStore(tmp_path / "install" / "Public" / "DiscussionIds", "theirs")
        old.update_text("state_document.md", lambda _: "secret")
        assert memory_of("list") == (0, f"discussions of user alice: 0 in {house.root}\n")
        assert memory_of("show", "theirs")[0] == 1

    def test_the_old_place_of_the_default_root_is_named(self, memory_of, house, monkeypatch, tmp_path):
        """A package that keeps data in the user's folder, and discussions of an older program."""
        facts = "Middleware.common.instance_global_variables"
        monkeypatch.setattr(f"{facts}.INSTALL_DIRECTORY", tmp_path / "install")
        monkeypatch.setattr(f"{facts}.OLD_DATA_DIRECTORY", tmp_path / "install")
        (tmp_path / "install" / "Public").mkdir(parents=True)
        (house.folder / "Configs").rename(tmp_path / "install" / "Public" / "Configs")
        set_launch_facts(LaunchFacts(data_directory=house.folder, users=("alice",)))
        old = tmp_path / "install" / "Public" / "DiscussionIds"
        DiscussionStore(old, "before").update_text("state_document.md", lambda _: "old")
        house.remember()
        assert f"discussions of user alice: 1 in {house.root}, 1 in {old}\n" in memory_of("list")[1]

    @pytest.mark.parametrize("read_as", ["utf-8", "latin-1"])
    def test_a_key_that_is_not_ascii_is_found_by_either_reading(self, memory_of, house, monkeypatch, read_as):
        """Old programs took the bytes of the header for Latin-1."""
        key = "schlüssel".encode().decode(read_as)
        house.remember(key_hash=api_key_hash(key), encryption_key=derive_key(key, "alice"))
        monkeypatch.setenv("WILMER_API_KEY", "schlüssel")
        assert "trip: memories 5" in memory_of("list")[1]
        assert "memory 5:" in memory_of("show", "trip")[1]
        monkeypatch.setenv("WILMER_NEW_API_KEY", "schlüssel")
        memory_of("rekey")
        assert (house.root / api_key_hash("schlüssel") / "trip").is_dir()
        assert "trip: memories 5" in memory_of("list")[1]


class TestRekey:
    """rekey."""

    @pytest.fixture
    def keyed(self, house, monkeypatch):
        monkeypatch.setenv("HEADRACE_API_KEY", "test-key")
        house.remember(key_hash=HASH, encryption_key=derive_key("test-key", "alice"))
        return house.root / HASH

    def test_a_new_key_moves_the_folder(self, memory_of, house, keyed, monkeypatch):
        monkeypatch.setenv("HEADRACE_NEW_API_KEY", "new-key")
        assert "3 files would be encrypted with the new key" in memory_of("rekey", preview=True)[1]
        assert keyed.exists()
        status, text = memory_of("rekey")
        assert (status, "renamed to" in text, keyed.exists()) == (0, True, False)
        monkeypatch.setenv("HEADRACE_API_KEY", "new-key")
        assert "trip: memories 5" in memory_of("list")[1]

    def test_without_a_new_key_files_are_decrypted_where_they_are(self, memory_of, keyed):
        status, text = memory_of("rekey")
        assert (status, "files were decrypted" in text) == (0, True)
        assert (keyed / "trip/state_document.md").read_bytes() == b"# State"

    @pytest.fixture
    def half_readable(self, house, keyed, monkeypatch):
        """One file is of a third key; the new key is given."""
        monkeypatch.setenv("HEADRACE_NEW_API_KEY", "new-key")
        (keyed / "trip/timestamps.json").write_bytes(encrypt(b"{}", derive_key("third", "alice")))
        return house.root / api_key_hash("new-key")

    def test_an_unreadable_file_is_skipped_and_makes_it_undone(
        self, memory_of, keyed, half_readable, monkeypatch
    ):
        """The others are found under the new key, and so is the one that is left."""
        status, text = memory_of("rekey")
        assert (status, "cannot be read with these keys (neither key can decrypt it)" in text) == (1, True)
        assert (keyed.exists(), (half_readable / "trip/timestamps.json").exists()) == (False, True)
        monkeypatch.setenv("HEADRACE_API_KEY", "new-key")
        assert "trip: memories 5" in memory_of("list")[1]

    def test_running_again_goes_on_in_the_renamed_folder(self, memory_of, half_readable):
        """As after a disk that refused a write."""
        memory_of("rekey")
        (half_readable / "trip/timestamps.json").write_bytes(encrypt(b"{}", derive_key("test-key", "alice")))
        status, text = memory_of("rekey")
        assert (status, "1 file was encrypted with the new key, 3 files already are" in text) == (0, True)
        assert "this key has no folder" in memory_of("rekey")[1]

    def test_a_folder_of_which_nothing_can_be_read_keeps_its_name(self, memory_of, keyed, half_readable):
        """The old key was wrong, not the files."""
        for path in (keyed / "trip").iterdir():
            path.write_bytes(encrypt(b"{}", derive_key("third", "alice")))
        status, text = memory_of("rekey")
        assert (status, "none of its files has the new key" in text) == (1, True)
        assert (keyed.exists(), half_readable.exists()) == (True, False)

    def test_a_name_that_is_taken_is_left(self, memory_of, house, keyed, monkeypatch):
        monkeypatch.setenv("HEADRACE_NEW_API_KEY", "new-key")
        (house.root / api_key_hash("new-key")).mkdir()
        before = {path: path.read_bytes() for path in keyed.rglob("*") if path.is_file()}
        for preview in (True, False):
            status, text = memory_of("rekey", preview=preview)
            assert (status, "nothing was changed" in text) == (1, True)
        assert {path: path.read_bytes() for path in keyed.rglob("*") if path.is_file()} == before

    def test_a_user_without_encryption_is_told(self, memory_of, house, keyed, monkeypatch):
        monkeypatch.setenv("HEADRACE_NEW_API_KEY", "new-key")
        house.write("Users/alice", {"encryptUsingApiKey": False})
        assert "set encryptUsingApiKey" in memory_of("rekey", preview=True)[1]

    def test_the_old_key_is_needed(self, memory_of, monkeypatch):
        assert "HEADRACE_API_KEY" in memory_of("rekey")[1]
        monkeypatch.setenv("HEADRACE_API_KEY", "unknown")
        assert "this key has no folder" in memory_of("rekey")[1]

    @pytest.mark.parametrize(
        ("ours", "seen"),
        [(None, 1), (" ", 1), ("another-key", 0)],
        ids=["theirs alone", "ours is blank", "ours counts first"],
    )
    def test_the_name_of_wilmerai_is_understood(self, memory_of, house, monkeypatch, ours, seen):
        """Users' scripts set it; where ours is set too, ours counts."""
        house.remember(key_hash=HASH, encryption_key=derive_key("test-key", "alice"))
        monkeypatch.setenv("WILMER_API_KEY", "test-key")
        if ours is not None:
            monkeypatch.setenv("HEADRACE_API_KEY", ours)
        assert f"discussions of user alice: {seen}" in memory_of("list")[1]


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
        assert memory_of("backfill", preview=True) == (0, "trip: 1 memory would get a vector\n")
        assert memory_of("backfill") == (0, "trip: 0 memories without a vector\n")
        assert lacking.without_vector("embedder", 9) == []

    def test_what_remains_makes_it_undone(self, memory_of, lacking, embedder):
        embedder.replace("POST", "http://embed.test/api/embed", status=500)
        status, text = memory_of("backfill", "trip")
        assert (status, "1 memory without a vector" in text) == (1, True)

    def test_one_that_cannot_be_read_does_not_stop_the_others(self, memory_of, house, lacking, embedder):
        house.remember(discussion_id="base")
        house.store("base").path("vector_memory.db").write_bytes(b"text" * 1000)
        status, text = memory_of("backfill")
        assert (status, text) == (
            1,
            "base: cannot be read: vector_memory.db: file is not a database\ntrip: 0 memories without a vector\n",
        )

    @pytest.mark.parametrize(
        ("user", "message"),
        [({"port": 5000}, "no settings file"), (None, "embeddingEndpointName: an endpoint is required here")],
    )
    def test_an_endpoint_is_needed(self, memory_of, house, user, message):
        house.settings()
        house.write(
            "Users/alice", user if user is not None else {"discussionIdMemoryFileWorkflowSettings": "Memory"}
        )
        assert message in memory_of("backfill")[1]


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
