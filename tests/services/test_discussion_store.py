"""The files of a discussion: where they are, how they are written, what happens to damaged and encrypted
ones.
"""

from __future__ import annotations

import json
import os
import sqlite3
import stat
import threading
from pathlib import Path

import pytest

from Middleware.common.errors import Forbidden
from Middleware.common.request_context import RequestContext, enter_request
from Middleware.services.discussion_store import (
    DiscussionStore,
    DiskFaults,
    FolderUnusable,
    an_object,
    entries_of,
    reason_of,
)
from Middleware.utilities.encryption_utils import TOKEN_START, decrypt, derive_key, encrypt
from Middleware.utilities.hashing_utils import sha256_hex
from tests.patience import PATIENCE_S

KEY = derive_key("test-key", "alice")


@pytest.fixture
def root(tmp_path):
    return tmp_path / "discussions"


@pytest.fixture
def make(root, tmp_path):
    """A store below `root`, with an install folder of its own."""

    def store(discussion_id="talk", **facts):
        return DiscussionStore(root, discussion_id, install=tmp_path / "install", **facts)

    return store


def put(path: Path, data: str | bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    return path


@pytest.mark.parametrize(
    "name", ["", ".", "..", "a/b", "a\\b", "c:", None, " ", ".lock", ".making-x"], ids=repr
)
def test_an_unsafe_id_is_refused(make, name):
    """It would leave the discussions folder."""
    with pytest.raises(ValueError, match="discussion id"):
        make(name)


class TestWhere:
    """The folder, and the places of old installations."""

    def test_without_a_key_the_folder_is_the_id(self, make, root):
        assert make().folder == root / "talk"

    def test_with_a_key_it_stands_below_the_keys_hash(self, make, root):
        assert make(key_hash="62af8704764faf8e").folder == root / "62af8704764faf8e" / "talk"

    def test_making_a_store_and_reading_touch_no_disk(self, make, root):
        assert make().read_json("timestamps.json", {}) == {}
        assert make().read_text("state_document.md") is None
        assert not root.exists()

    @pytest.mark.parametrize("key_hash", [None, "abc"])
    def test_an_old_installs_folder_is_used_for_good(self, make, tmp_path, key_hash):
        old = tmp_path / "install" / "Public" / "DiscussionIds" / (key_hash or "") / "talk"
        put(old / "timestamps.json", '{"a": 1}')
        store = make(key_hash=key_hash)
        store.update_json("timestamps.json", lambda v: {**v, "b": 2})
        assert json.loads((old / "timestamps.json").read_text()) == {"a": 1, "b": 2}
        assert store.folder == old

    def test_a_folder_that_exists_wins_over_an_old_one(self, make, root, tmp_path):
        (tmp_path / "install" / "Public" / "DiscussionIds" / "talk").mkdir(parents=True)
        (root / "talk").mkdir(parents=True)
        assert make().folder == root / "talk"

    def test_the_old_place_is_used_when_the_folder_cannot_be_made(self, make, root, tmp_path, caplog):
        put(root, "a file is in the way")
        assert make().can_be_written() is True
        make().update_json("timestamps.json", lambda _: {"a": 1})
        old = tmp_path / "install" / "Public" / "DiscussionIds" / "talk" / "timestamps.json"
        assert json.loads(old.read_text()) == {"a": 1}
        assert "cannot be created" in caplog.text

    def test_if_nothing_can_be_made_the_error_is_clear(self, make, root, tmp_path):
        put(root, "in the way")
        put(tmp_path / "install" / "Public", "in the way too")
        with pytest.raises(FolderUnusable):
            make().update_json("timestamps.json", lambda _: {"a": 1})
        assert not make().can_be_written()

    def test_an_old_place_that_is_the_right_one_is_not_tried_twice(self, tmp_path):
        root = tmp_path / "Public" / "DiscussionIds"
        put(root, "in the way")
        with pytest.raises(OSError):
            DiscussionStore(root, "talk", install=tmp_path).make_folder()

    def test_without_an_install_folder_the_root_is_the_only_place(self, root, tmp_path, monkeypatch):
        """Neither a folder nor a database is looked for elsewhere."""
        put(tmp_path / "Public" / "talk_vector_memory.db", "")
        put(tmp_path / "Public" / "DiscussionIds" / "talk" / "timestamps.json", '{"a": 1}')
        monkeypatch.chdir(tmp_path)
        store = DiscussionStore(root, "talk")
        assert store.folder == root / "talk"
        assert store.path("vector_memory.db") == root / "talk" / "vector_memory.db"
        assert store.read_json("timestamps.json", None) is None

    def test_a_folder_that_cannot_be_made_is_reported_once(self, root, caplog):
        """One ERROR line names the folder and the reason; what reads finds nothing."""
        put(root, "a file is in the way")
        store = DiscussionStore(root, "talk")
        for _ in range(2):
            with pytest.raises(FolderUnusable):
                store.update_json("timestamps.json", lambda _: {"a": 1})
        assert store.can_be_written() is False
        assert store.read_json("timestamps.json", None) is None
        (line,) = [each for each in caplog.records if each.levelname == "ERROR"]
        assert str(root / "talk") in line.getMessage()
        assert "File exists" in line.getMessage()

    def test_so_is_one_that_is_only_read(self, root, caplog):
        """There is no file in it, and the log says why, once."""
        put(root / "talk", "a file is in the way")
        store = DiscussionStore(root, "talk")
        assert [store.read_json("timestamps.json", None) for _ in range(2)] == [None, None]
        (line,) = [each.getMessage() for each in caplog.records if each.levelname == "ERROR"]
        assert str(root / "talk") in line and "Not a directory" in line

    @pytest.mark.parametrize("what", ["a-program-in-its-place", "nobody-may-enter"])
    def test_so_is_one_that_cannot_be_entered(self, root, monkeypatch, what):
        """A file in its place counts as such, also one that could be run."""
        store = DiscussionStore(root, "talk")
        if what == "nobody-may-enter":
            put(root / "talk" / "timestamps.json", "{}")
            monkeypatch.setattr("os.access", lambda path, mode: mode != os.X_OK)

            def refuse(path):
                raise PermissionError(13, "Permission denied", str(path))

            monkeypatch.setattr(Path, "read_bytes", refuse)
        else:
            put(root / "talk", "in the way").chmod(0o755)
        assert store.read_json("timestamps.json", "none") == "none"

    def test_with_redaction_a_log_line_shows_no_id(self, root, caplog):
        """A short hash stands where the discussion's id does; the rest of the path stays."""
        put(root, "a file is in the way")
        with enter_request(RequestContext("r", "mira", "x", privacy=True)):
            assert DiscussionStore(root, "talk").can_be_written() is False
        (line,) = [each.getMessage() for each in caplog.records if each.levelname == "ERROR"]
        assert f"{root / sha256_hex('talk')[:8]} cannot be created" in line and "talk" not in line

    def test_a_folder_that_only_can_be_read_is_unusable_too(self, root, monkeypatch):
        """A disk mounted for reading: what it holds is read."""
        put(root / "talk" / "timestamps.json", '{"a": 1}')
        monkeypatch.setattr("os.access", lambda path, mode: mode != os.W_OK)
        store = DiscussionStore(root, "talk")
        with pytest.raises(FolderUnusable):
            store.make_folder()
        assert store.read_json("timestamps.json", None) == {"a": 1}

    def test_a_flat_legacy_file_is_read_and_written(self, make, root):
        flat = put(root / "talk_memories.json", "[]")
        make().update_json("memories.json", lambda v: [*v, 1])
        assert json.loads(flat.read_text()) == [1]
        assert not (root / "talk" / "memories.json").exists()

    @pytest.mark.parametrize("key_hash", [None, "abc"])
    def test_the_folder_of_another_discussion_is_no_flat_file(self, make, root, key_hash):
        """Its id may be the name that a file of this one had."""
        make("talk_memories.json").update_json("timestamps.json", lambda _: {"a": 1})
        store = make(key_hash=key_hash)
        store.update_json("memories.json", lambda _: [1])
        assert store.path("memories.json") == store.target / "memories.json"
        assert make("talk_memories.json").read_json("timestamps.json", None) == {"a": 1}

    def test_nor_is_a_folder_an_old_vector_database(self, make, root, tmp_path):
        """Beside the folders of an old installation."""
        (tmp_path / "install" / "Public" / "talk_vector_memory.db").mkdir(parents=True)
        assert make().path("vector_memory.db") == root / "talk" / "vector_memory.db"

    def test_nor_one_of_another_case_a_file(self, make, root):
        """In the folder itself."""
        (root / "talk" / "Memories.JSON").mkdir(parents=True)
        assert make().path("memories.json") == root / "talk" / "memories.json"

    @pytest.mark.parametrize("name", ["memories.json", "vector_memory.db", "state_document.md"])
    def test_an_id_may_be_as_long_as_a_file_name(self, make, root, name):
        """No flat file can have a longer one."""
        assert make("x" * 255).path(name) == root / ("x" * 255) / name

    def test_with_a_key_there_is_no_flat_legacy_file(self, make, root):
        put(root / "talk_memories.json", "[1]")
        put(root / "talk_vector_memory.db", "")
        store = make(key_hash="abc")
        assert store.read_json("memories.json", None) is None
        assert store.path("vector_memory.db") == root / "abc" / "talk" / "vector_memory.db"

    def test_the_state_document_has_no_flat_legacy_file(self, make, root):
        put(root / "talk_state_document.md", "old")
        assert make().read_text("state_document.md") is None

    def test_json_names_are_found_in_another_case(self, make, root):
        put(root / "talk" / "Memories.JSON", "[7]")
        assert make().read_json("memories.json", None) == [7]

    def test_other_names_are_not(self, make, root):
        put(root / "talk" / "STATE_document.md", "x")
        assert make().read_text("state_document.md") is None

    def test_an_old_vector_database_is_found(self, make, tmp_path, monkeypatch):
        old = put(tmp_path / "cwd" / "Public" / "talk_vector_memory.db", "")
        monkeypatch.chdir(tmp_path / "cwd")
        assert make().path("vector_memory.db") == old
        older = put(tmp_path / "install" / "Public" / "talk_vector_memory.db", "")
        assert make().path("vector_memory.db") == older


class TestWriting:
    """Form, modes, backups, concurrency."""

    def test_the_form_of_a_file(self, make, root):
        make().update_json("timestamps.json", lambda v: {**v, "ü": ["x"]}, {})
        assert (root / "talk" / "timestamps.json").read_bytes() == (
            b'{\n    "\\u00fc": [\n        "x"\n    ]\n}'
        )

    @pytest.mark.skipif(os.name == "nt", reason="no mode bits")
    def test_files_are_for_the_owner_only_and_so_are_folders_of_a_key(self, make, root):
        make(key_hash="abc").update_json("timestamps.json", lambda _: {})
        modes = [root / "abc", root / "abc" / "talk", root / "abc" / "talk" / "timestamps.json"]
        assert [stat.S_IMODE(p.stat().st_mode) for p in modes] == [0o700, 0o700, 0o600]

    def test_no_change_is_no_write(self, make, root):
        assert make().update_json("timestamps.json", lambda _: None, {"d": 1}) == {"d": 1}
        assert make().update_text("state_document.md", lambda _: None) is None
        assert not (root / "talk" / "timestamps.json").exists()

    def test_a_text_that_stays_is_given_back(self, make):
        """As it is; nothing is written."""
        store = make()
        store.update_text("state_document.md", lambda _: "a")
        assert (
            store.update_text("state_document.md", lambda _: None)
            == "a"
            == store.read_text("state_document.md")
        )

    def test_text_is_read_changed_and_its_previous_version_kept(self, make, root):
        store = make()
        assert store.update_text("state_document.md", lambda old: f"{old}/one") == "None/one"
        store.update_text("state_document.md", lambda old: f"{old}/zwei ü")
        assert store.read_text("state_document.md") == "None/one/zwei ü"
        assert (root / "talk" / "state_document.md.bak").read_text() == "None/one"

    def test_memories_have_a_backup_and_timestamps_have_none(self, make, root):
        for name in ("memories.json", "timestamps.json"):
            make().update_json(name, lambda _: [1])
            make().update_json(name, lambda _: [2])
        assert (root / "talk" / "memories.json.bak").exists()
        assert not (root / "talk" / "timestamps.json.bak").exists()

    def test_no_change_of_two_threads_is_lost(self, make):
        def work():
            for _ in range(15):
                make().update_json("n.json", lambda n: n + 1, 0)

        threads = [threading.Thread(target=work) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert make().read_json("n.json", None) == 45

    def test_a_change_inside_a_change_may_use_the_store(self, make):
        store = make()
        store.update_json("a.json", lambda _: store.update_json("b.json", lambda _: 1), 0)
        assert store.read_json("a.json", None) == 1


class TestDamage:
    """What cannot be parsed is kept, never silently replaced."""

    def test_a_damaged_file_is_set_aside_and_its_backup_used(self, make, root, caplog):
        put(root / "talk" / "memories.json", '[{"text')
        put(root / "talk" / "memories.json.bak", "[1]")
        assert make().read_json("memories.json", None) == [1]
        assert json.loads((root / "talk" / "memories.json").read_text()) == [1]
        kept = [name for name in os.listdir(root / "talk") if "corrupt" in name]
        assert len(kept) == 1 and (root / "talk" / kept[0]).read_text() == '[{"text'
        assert "was damaged" in caplog.text

    def test_without_a_good_backup_the_default_is_used(self, make, root):
        put(root / "talk" / "memories.json", "\xff")
        put(root / "talk" / "memories.json.bak", "no json")
        assert make().update_json("memories.json", lambda v: [*v, 1], []) == [1]

    def test_what_another_reader_has_mended_is_read(self, make, root, monkeypatch):
        put(root / "talk" / "a.json", "broken")
        store = make()
        first = store._load(store.path("a.json"), json.loads)
        put(root / "talk" / "a.json", "[1]")
        loads = iter([first])
        real = store._load
        monkeypatch.setattr(store, "_load", lambda *given: next(loads, None) or real(*given))
        assert store.read_json("a.json", None) == [1]
        assert os.listdir(root / "talk").count("a.json") == 1

    def test_a_file_of_another_form_is_damaged_too(self, make, root, caplog):
        """It says what was found, not what was in it."""
        put(root / "talk" / "memories.json", '["secret"]')
        put(root / "talk" / "memories.json.bak", '{"a": 1}')
        assert make().read_json("memories.json", {}, an_object) == {"a": 1}
        assert "was damaged (found a list, allowed: an object)" in caplog.text
        assert "secret" not in caplog.text

    def test_a_text_that_is_no_utf8_is_damaged_too(self, make, root):
        put(root / "talk" / "state_document.md", b"caf\xe9")
        assert make().read_text("state_document.md") is None
        assert make().update_text("state_document.md", lambda old: f"{old}!") == "None!"
        kept = [path.read_bytes() for path in (root / "talk").glob("state_document.md.corrupt-*")]
        assert kept == [b"caf\xe9"]

    def test_a_kill_at_any_write_leaves_the_damaged_file_or_the_good_one(self, make, root, monkeypatch):
        """A memory file that is missing would be made anew from the history."""
        put(root / "talk" / "memories.json", "broken")
        put(root / "talk" / "memories.json.bak", "[1]")

        def killed(path, data):
            raise KeyboardInterrupt

        with monkeypatch.context() as patch:
            patch.setattr(DiscussionStore, "_put", staticmethod(killed))
            with pytest.raises(KeyboardInterrupt):
                make().read_json("memories.json", None)
        assert (root / "talk" / "memories.json").read_text() == "broken"
        assert make().read_json("memories.json", None) == [1]

    def test_a_backup_of_another_key_is_no_good_one(self, make, root):
        put(root / "talk" / "memories.json", "broken")
        put(root / "talk" / "memories.json.bak", encrypt(b"[1]", KEY))
        assert make().read_json("memories.json", []) == []
        assert (root / "talk" / "memories.json.bak").read_bytes().startswith(TOKEN_START)

    def test_the_good_bytes_are_the_files_else_its_backups(self, make, root):
        """Asking changes nothing."""
        store = make()
        assert store.good_bytes("memories.json", json.loads) is None
        put(root / "talk" / "memories.json.bak", "[0]")
        put(root / "talk" / "memories.json", "[1]")
        assert store.good_bytes("memories.json", json.loads) == b"[1]"
        put(root / "talk" / "memories.json", "[")
        assert store.good_bytes("memories.json", json.loads) == b"[0]"
        assert sorted(os.listdir(root / "talk")) == ["memories.json", "memories.json.bak"]


def test_a_discussion_is_made_beside_its_place(make, root, tmp_path):
    """Then no file of the discussion itself counts, nor one of an old install."""
    put(root / "talk_memories.json", "[1]")
    put(root / "talk" / "memories.json", "[2]")
    beside = make(folder_name=".making-x")
    assert beside.read_json("memories.json", None) is None
    assert (beside.folder, beside.discussion_id) == (root / ".making-x", "talk")


class TestEncryption:
    """With a key all files are Fernet tokens; plain ones are still read."""

    def test_what_is_written_is_encrypted_and_read_again(self, make, root):
        store = make(encryption_key=KEY.decode())
        store.update_json("memories.json", lambda _: ["secret"])
        raw = (root / "talk" / "memories.json").read_bytes()
        assert raw.startswith(TOKEN_START)
        assert json.loads(decrypt(raw, KEY)) == ["secret"]
        assert make(encryption_key=KEY).read_json("memories.json", None) == ["secret"]
        assert store.is_encrypted and "secret" not in repr(store) and KEY.decode() not in repr(store)

    def test_a_plain_file_is_read_and_encrypted_with_its_backup_at_the_next_write(self, make, root):
        put(root / "talk" / "memories.json", "[1]")
        make(encryption_key=KEY).update_json("memories.json", lambda v: [*v, 2])
        for name, value in (("memories.json", [1, 2]), ("memories.json.bak", [1])):
            assert json.loads(decrypt((root / "talk" / name).read_bytes(), KEY)) == value

    @pytest.mark.parametrize("key", [None, derive_key("other")], ids=["no-key", "another-key"])
    def test_the_file_of_another_key_is_an_access_error_and_stays(self, make, root, key):
        token = encrypt(b"[1]", KEY)
        for name in ("memories.json", "state_document.md"):
            put(root / "talk" / name, token)
        with pytest.raises(Forbidden, match="another API key"):
            make(encryption_key=key).read_json("memories.json", None)
        with pytest.raises(Forbidden):
            make(encryption_key=key).update_json("memories.json", lambda _: [2])
        with pytest.raises(Forbidden):
            make(encryption_key=key).read_text("state_document.md")
        assert (root / "talk" / "memories.json").read_bytes() == token

    def test_a_damaged_file_is_replaced_by_its_encrypted_backup(self, make, root):
        put(root / "talk" / "memories.json", "[1")
        put(root / "talk" / "memories.json.bak", encrypt(b"[0]", KEY))
        assert make(encryption_key=KEY).read_json("memories.json", None) == [0]
        assert decrypt((root / "talk" / "memories.json").read_bytes(), KEY) == b"[0]"


def test_long_work_is_leased_once_and_changes_go_on_beside_it(make):
    """Readers and writers of the files never wait for a model."""
    with make().lease("memory", 0) as held:
        assert held
        assert make().update_json("timestamps.json", lambda value: {"h": "t"}) == {"h": "t"}


def test_whoever_wants_leased_work_waits_for_it(make):
    """Unless it is told to give up: then not for a moment."""
    held, waits, got = threading.Event(), threading.Event(), []

    def first():
        with make().lease("memory", 0):
            held.set()
            assert waits.wait(PATIENCE_S)

    thread = threading.Thread(target=first)
    thread.start()
    assert held.wait(PATIENCE_S)
    with make().lease("memory", None, lambda: True) as mine:
        assert not mine
    second = threading.Thread(target=lambda: got.append(make().lease("memory", PATIENCE_S).__enter__()))
    second.start()
    waits.set()
    for each in (thread, second):
        each.join(PATIENCE_S)
    assert got == [True]


@pytest.mark.parametrize(
    ("error", "said", "redacted"),
    [
        (sqlite3.OperationalError("database is locked"), "vector_memory.db: database is locked",
         "vector_memory.db: database is locked"),
        (OSError("odd"), "odd", "odd"),
        (OSError(28, "No space left on device"), "No space left on device", "No space left on device"),
        (PermissionError(13, "Permission denied", "/d/talk/a"), "/d/talk/a: Permission denied", "Permission denied"),
    ],
    ids=["database", "words", "disk", "file"],
)  # fmt: skip
def test_what_a_fault_of_the_disk_is_told_by(error, said, redacted):
    """With redaction no path, which holds the id."""
    assert reason_of(error) == said
    with enter_request(RequestContext("r", "mira", "x", privacy=True)):
        assert reason_of(error) == redacted


class TestDiskFaults:
    """Of what a node meets on the disk the first fault is told, and no other."""

    def fail(self, error):
        def work():
            raise error

        return work

    def test_what_works_is_given(self, caplog):
        faults = DiskFaults()
        assert faults.try_work(lambda: 7, None, "nothing is kept") == 7
        assert not faults.failed and caplog.records == []

    @pytest.mark.parametrize("error", [OSError(28, "No space left on device"), sqlite3.OperationalError("x")])
    def test_the_first_one_is_told(self, caplog, error):
        faults = DiskFaults()
        for _ in range(2):
            assert faults.try_work(self.fail(error), "else", "nothing is kept") == "else"
        assert faults.failed
        assert caplog.messages == [f"nothing is kept: {reason_of(error)}"]

    def test_the_store_tells_of_its_folder_itself(self, caplog):
        """It counts all the same."""
        faults = DiskFaults()
        faults.try_work(self.fail(FolderUnusable(13, "Permission denied", "/d")), None, "nothing is kept")
        faults.try_work(self.fail(OSError("odd")), None, "nothing is kept")
        assert faults.failed and caplog.messages == []

    def test_other_errors_go_on(self):
        with pytest.raises(ZeroDivisionError):
            DiskFaults().try_work(self.fail(ZeroDivisionError()), None, "nothing is kept")


class TestSettledBackups:
    """What is gone from a file is gone from its backup."""

    @pytest.mark.parametrize("key", [None, KEY], ids=["plain", "encrypted"])
    def test_the_backup_is_the_file(self, make, root, key):
        store = make(encryption_key=key)
        for text in ("one", "two"):
            store.update_text("state_document.md", lambda _, text=text: text)
        store.settle_backup("state_document.md")
        folder = root / "talk"
        assert (folder / "state_document.md.bak").read_bytes() == (folder / "state_document.md").read_bytes()

    @pytest.mark.parametrize("left", ["state_document.md", "state_document.md.bak"])
    def test_where_one_of_them_is_missing_nothing_changes(self, make, root, left):
        put(root / "talk" / left, "x")
        make().settle_backup("state_document.md")
        assert [path.name for path in (root / "talk").iterdir() if not path.name.startswith(".")] == [left]


def test_what_a_store_is_shown_as(make, root):
    """Its place, and whether its files are encrypted; never its key."""
    assert repr(make()) == f"DiscussionStore({str(root / 'talk')!r}, encrypted=False)"
    assert repr(make(encryption_key=KEY)) == f"DiscussionStore({str(root / 'talk')!r}, encrypted=True)"


def test_an_unusable_folder_is_named_with_the_systems_reason(root):
    put(root, "in the way")
    with pytest.raises(FolderUnusable) as caught:
        DiscussionStore(root, "talk").make_folder()
    error = caught.value
    assert (error.errno, error.strerror, error.filename) == (17, "File exists", str(root / "talk"))


def test_a_file_of_another_key_is_refused_with_a_code(make, root):
    """By which clients know why."""
    put(root / "talk" / "memories.json", encrypt(b"[1]", KEY))
    with pytest.raises(
        Forbidden, match=r"^a file of this discussion is encrypted with another API key$"
    ) as caught:
        make().read_json("memories.json", None)
    assert caught.value.code == "wrong_api_key"


@pytest.mark.skipif(os.name == "nt", reason="no mode bits")
def test_without_a_key_folders_have_the_modes_of_the_system(make, root):
    """As any that a program makes."""
    (root.parent / "made").mkdir()
    make().make_folder()
    modes = [stat.S_IMODE(path.stat().st_mode) for path in (root / "talk", root, root.parent / "made")]
    assert modes[0] == modes[1] == modes[2]


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ({}, "found an object, allowed: a list of objects"),
        ("x", "found a str, allowed: a list of objects"),
        ([{"text_block": "a", "hash": "h"}, 1], "entry 2: expected an object with the strings"),
        ([{"text_block": "a"}], "entry 1: expected an object with the strings `text_block` and `hash`"),
        ([{"hash": "h", "text_block": 1}], "entry 1: "),
    ],
)
def test_a_list_of_another_form_says_what_was_found(value, said):
    with pytest.raises((TypeError, ValueError), match=f"^{said}"):
        entries_of(value)


def test_a_file_that_cannot_be_read_in_a_folder_that_can_is_an_error(make, root, monkeypatch):
    """It is there: to go on without it would lose what is in it."""
    put(root / "talk" / "memories.json", "[1]")

    def refuse(path):
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(Path, "read_bytes", refuse)
    with pytest.raises(PermissionError):
        make().read_json("memories.json", None)


def test_with_redaction_a_flat_file_shows_no_id_either(make, root, caplog):
    """A short hash stands in its name, too; words that only begin like it stay."""
    put(root / "talk_memories.json", "broken")
    with enter_request(RequestContext("r", "mira", "x", privacy=True)):
        make().read_json("memories.json", None)
    short = sha256_hex("talk")[:8]
    assert f"{root / short}_memories.json was damaged" in caplog.text and "talk" not in caplog.text
    with enter_request(RequestContext("r", "mira", "x", privacy=True)):
        shown = make()._shown(root / "talkative" / "talk" / "x_talk")
    assert shown == str(root / "talkative" / short / "x_talk")
