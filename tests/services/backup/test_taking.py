"""Discussions are taken whole, wherever they lie, while others work with them. Source: spec operate.md 3, memory.md 2."""

from __future__ import annotations

import os
import sqlite3
import sys
import threading
import zipfile
from contextlib import closing
from pathlib import Path

import pytest

from Middleware.services.backup import taking
from Middleware.services.backup.archive import ArchiveWriter, Manifest
from Middleware.services.backup.taking import Root, take_backup
from Middleware.services.discussion_store import ChunkList, DiscussionStore, Entry
from Middleware.utilities.file_locks import locked_in_time
from Middleware.workflows.memory.vector_store import ChunkRecord, VectorDatabase


@pytest.fixture
def root(tmp_path):
    folder = tmp_path / "data" / "DiscussionIds"
    folder.mkdir(parents=True)
    return Root("discussions", folder, install=tmp_path / "install")


@pytest.fixture
def take(tmp_path):
    def run(*roots):
        manifest = take_backup(tmp_path / "a.zip", roots, Manifest("1.0.0", "", "", {}))
        return sorted(manifest.files), manifest

    return run


def remember(folder, discussion_id="trip", **facts):
    store = DiscussionStore(folder, discussion_id, **facts)
    ChunkList(store, "memories.json").replace(Entry("x", "1"))
    return store


class TestOldPlaces:
    """A root that is restored elsewhere has no old places: what lies there goes where it belongs."""

    def test_a_discussion_in_the_folder_of_the_install(self, root, take, tmp_path):
        remember(tmp_path / "install" / "Public" / "DiscussionIds")
        assert take(root)[0] == ["discussions/trip/memories.json"]

    def test_the_folder_of_today_counts_first(self, root, take, tmp_path):
        remember(tmp_path / "install" / "Public" / "DiscussionIds")
        (remember(root.path).folder / "timestamps.json").write_text("{}")
        assert take(root)[0] == ["discussions/trip/memories.json", "discussions/trip/timestamps.json"]

    def test_a_vector_database_beside_the_folders(self, root, take, tmp_path):
        """Also of a discussion that has nothing else; and once, though the Public folder is taken as well."""
        public = tmp_path / "install" / "Public"
        public.mkdir(parents=True)
        store = DiscussionStore(tmp_path / "made", "trip")
        VectorDatabase(store).save(ChunkRecord("h", ("h",)), [{"summary": "s"}], after=None)
        store.path("vector_memory.db").rename(public / "trip_vector_memory.db")
        names, _ = take(root, Root("public", public))
        assert names == ["discussions/trip/vector_memory.db"]

    def test_a_flat_link_out_of_all_roots_is_not_followed(self, root, take, tmp_path):
        """Whatever it is called."""
        (tmp_path / "secret").write_text("[]")
        (root.path / "trip_memories.json").symlink_to(tmp_path / "secret")
        names, manifest = take(root)
        why = f"a link to {tmp_path / 'secret'}, outside of what is backed up"
        assert names == [] and why in [each.why for each in manifest.left_out]

    @pytest.mark.parametrize("name", [".making-1", ".importing-1", ".restoring-1"])
    def test_a_discussion_that_is_being_made_is_none(self, root, take, name):
        (root.path / name).mkdir()
        (root.path / name / "memories.json").write_text("[]")
        (root.path / "kim" / name).mkdir(parents=True)
        (root.path / "kim" / name / "memories.json").write_text("[]")
        assert take(root)[0] == []

    def test_flat_files_stay_flat(self, root, take):
        """Any root may have them."""
        (root.path / "trip_memories.json").write_text("[]")
        assert take(root)[0] == ["discussions/trip_memories.json"]

    def test_a_folder_is_no_flat_file(self, root, take):
        """Of a discussion whose id ends as a file's name does: no other one comes of it."""
        store = DiscussionStore(root.path, "trip_memories.json")
        store.update_json("timestamps.json", lambda _: {})
        assert take(root)[0] == ["discussions/trip_memories.json/timestamps.json"]
        assert not (root.path / "trip").exists()

    def test_a_lock_leaves_the_old_folder_in_use(self, root, take, tmp_path):
        """A new folder would hide it."""
        old = remember(tmp_path / "install" / "Public" / "DiscussionIds").folder
        take(root)
        assert not (root.path / "trip").exists()
        assert DiscussionStore(root.path, "trip", install=tmp_path / "install").folder == old


class TestTogether:
    @pytest.mark.parametrize("facts", [{}, {"key_hash": "62af8704764faf8e"}], ids=["plain", "key"])
    def test_nobody_writes_while_a_discussion_is_taken(self, root, take, monkeypatch, facts):
        store = remember(root.path, **facts)
        (store.folder / "timestamps.json").write_text("{}")
        held, add = [], ArchiveWriter.add

        def look(self, *words):
            def another():
                with locked_in_time(store.folder / ".lock", 0) as free:
                    held.append(not free)

            thread = threading.Thread(target=another)
            thread.start()
            thread.join()
            add(self, *words)

        monkeypatch.setattr(ArchiveWriter, "add", look)
        take(root)
        assert held == [True, True]

    def test_a_folder_of_a_key_that_is_renamed_meanwhile(self, root, take, monkeypatch):
        """By `--memory rekey`: its discussions are found under the new name."""
        remember(root.path, key_hash="62af8704764faf8e")
        look, looked = taking._Taking._take_discussion, []

        def rename_first(self, *words):
            if not looked:
                looked.append(words)
                (root.path / "62af8704764faf8e").rename(root.path / "0123456789abcdef")
            look(self, *words)

        monkeypatch.setattr(taking._Taking, "_take_discussion", rename_first)
        names, manifest = take(root)
        assert names == ["discussions/0123456789abcdef/trip/memories.json"]
        assert manifest.troubles == []

    def test_a_discussion_that_cannot_be_locked_is_a_trouble(self, root, take, monkeypatch):
        """The others are taken."""
        remember(root.path)
        bad = remember(root.path, "bad").folder
        lock = DiscussionStore.lock

        def refuse(store):
            if store.folder == bad:
                raise PermissionError(13, "Permission denied", str(bad / ".lock"))
            return lock(store)

        monkeypatch.setattr(DiscussionStore, "lock", refuse)
        names, manifest = take(root)
        assert names == ["discussions/trip/memories.json"]
        assert [(each.path, each.why) for each in manifest.troubles] == [(str(bad), "Permission denied")]

    def test_a_backup_that_cannot_be_written_is_an_error(self, root, take, monkeypatch):
        remember(root.path)

        def fail(self, *words):
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(ArchiveWriter, "add", fail)
        with pytest.raises(OSError, match="No space left"):
            take(root)

    def test_a_file_that_is_gone_meanwhile_is_no_trouble(self, root, take, monkeypatch):
        store = remember(root.path)
        take_file = taking._Taking._take_file

        def remove_first(self, path, name):
            path.unlink()
            take_file(self, path, name)

        monkeypatch.setattr(taking._Taking, "_take_file", remove_first)
        assert take(root)[1].troubles == []
        assert store.folder.exists()


class TestWhatIsLeftOut:
    """It is named in the manifest, with the reason; nobody need do anything about it."""

    @pytest.mark.parametrize(
        ("name", "why"),
        [
            (".lock", "a lock"),
            (".memory.lease", "a lock"),
            (".in-use", "a lock"),
            ("WilmerDb.ana.sqlite-wal", "a lock"),
            ("workers.1.sqlite", "a lock"),
            ("ana_routes.db", "route vectors, which are rebuilt"),
            ("ana_routes.db-journal", "route vectors, which are rebuilt"),
            ("wilmerai.log", "a log"),
            ("wilmerai.log.3", "a log"),
            ("a.pyc", "a cache"),
            ("__pycache__/a.py", "a cache"),
            (".ruff_cache/a", "a cache"),
            (".mypy_cache/a", "a cache"),
            (".pytest_cache/a", "a cache"),
            ("draft.tmp", "unfinished"),
            (".making-1/memories.json", "unfinished"),
            (".a.partial", "unfinished"),
            ("headrace-20261129T110954Z.zip", "a backup"),
            ("headrace-before-restore-20261129T110954Z-2.zip", "a backup"),
        ],
    )
    def test_what_is_of_no_use_elsewhere(self, tmp_path, take, name, why):
        public = tmp_path / "Public"
        (public / name).parent.mkdir(parents=True, exist_ok=True)
        (public / name).write_text("x")
        (public / "kept.txt").write_text("x")
        names, manifest = take(Root("public", public))
        assert names == ["public/kept.txt"]
        assert [(one.path, one.why, one.trouble) for one in manifest.left_out] == [
            (str(public / name.partition("/")[0]), why, False)
        ]

    @pytest.mark.parametrize(
        "name", ["a.lock", "my_routes.json", "wilmerai.log.txt", "a.pyc.txt", "tmp", "headrace-notes.zip"]
    )
    def test_what_only_looks_like_it(self, tmp_path, take, name):
        public = tmp_path / "Public"
        public.mkdir()
        (public / name).write_text("x")
        names, manifest = take(Root("public", public))
        assert (names, manifest.left_out) == ([f"public/{name}"], [])


class TestWhatIsNotWanted:
    """Or cannot be taken: it is named with the reason."""

    @pytest.fixture
    def public(self, tmp_path):
        (tmp_path / "Public").mkdir()
        (tmp_path / "Public" / "kept.txt").write_text("x")
        return tmp_path / "Public"

    @pytest.fixture
    def left_out(self, public, tmp_path):
        def take(**more):
            manifest = take_backup(
                more.pop("target", tmp_path / "a.zip"),
                [Root("public", public)],
                Manifest("1", "", "", {}),
                **more,
            )
            assert list(manifest.files) == ["public/kept.txt"]
            return [(each.path, each.why, each.trouble) for each in manifest.left_out]

        return take

    @pytest.mark.parametrize("name", ["notes", "today.log"])
    def test_what_the_caller_keeps_out(self, public, left_out, name):
        """Folders and files."""
        (public / name).mkdir() if name == "notes" else (public / name).touch()
        why = "logs, this backup itself, or not wanted"
        assert left_out(kept_out=[public / name]) == [(str(public / name), why, False)]

    def test_the_backup_itself(self, public, left_out):
        """And the folder in which it is made."""
        said = left_out(target=public / "mine.zip")
        assert [(why, trouble) for _, why, trouble in said] == [
            ("logs, this backup itself, or not wanted", False)
        ]
        assert said[0][0].startswith(str(public / ".headrace-backup-"))

    def test_the_vectors_of_discussions_where_no_discussions_are_taken(self, public, left_out):
        (public / "trip_vector_memory.db").touch()
        assert left_out() == [(str(public / "trip_vector_memory.db"), "not wanted", False)]

    @pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no pipes")
    def test_what_is_no_plain_file(self, public, left_out):
        os.mkfifo(public / "pipe")
        assert left_out() == [(str(public / "pipe"), "not a plain file", False)]

    def test_a_link_to_nothing(self, public, left_out):
        (public / "link").symlink_to(public / "gone")
        assert left_out() == [(str(public / "link"), "a link to nothing", False)]

    def test_a_link_to_a_folder_above_it(self, public, left_out):
        (public / "a").mkdir()
        (public / "a" / "link").symlink_to(public / "a")
        assert left_out() == [(str(public / "a" / "link"), "a link to a folder above it", False)]

    def test_a_link_out_of_what_is_backed_up(self, public, left_out, tmp_path):
        """Also to a folder whose name begins like that of a root."""
        (tmp_path / "Public2").mkdir()
        (public / "link").symlink_to(tmp_path / "Public2")
        why = f"a link to {tmp_path / 'Public2'}, outside of what is backed up"
        assert left_out() == [(str(public / "link"), why, False)]

    @pytest.mark.skipif(sys.platform != "linux", reason="other systems have no such names")
    @pytest.mark.parametrize("is_folder", [True, False], ids=["folder", "file"])
    def test_a_name_that_is_not_utf_8_is_a_trouble(self, public, left_out, is_folder):
        """Somebody should rename it."""
        odd = public / os.fsdecode(b"\xff")
        odd.mkdir() if is_folder else odd.touch()
        assert left_out() == [(f"{public}/\\xff", "its name is not UTF-8", True)]

    @pytest.mark.parametrize("what", ["folder", "entry", "file"])
    def test_what_cannot_be_read_is_a_trouble(self, public, left_out, monkeypatch, what):
        """With the system's reason; the rest is taken."""
        odd = public / "odd"
        odd.mkdir() if what == "folder" else odd.touch()

        def refused(call):
            def look(path, *words, **more):
                if str(path) == str(odd):
                    raise PermissionError(13, "Permission denied", str(path))
                return call(path, *words, **more)

            return look

        if what == "folder":
            monkeypatch.setattr(os, "listdir", refused(os.listdir))
        else:
            name = {"entry": "lstat", "file": "open"}[what]
            monkeypatch.setattr(Path, name, refused(getattr(Path, name)))
        assert left_out() == [(str(odd), "Permission denied", True)]

    def test_a_backup_that_cannot_be_written_is_an_error(self, public, left_out, monkeypatch):
        """No trouble of the file that was about to be taken."""

        def fail(self, *words):
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(ArchiveWriter, "add", fail)
        with pytest.raises(OSError, match="No space left"):
            left_out()


class TestSecrets:
    """Config files are masked; where they held secrets is told."""

    @staticmethod
    def mask(raw):
        return None if raw == b"no text" else (raw.replace(b"secret", b"***"), ["/key"] * (b"secret" in raw))

    @pytest.mark.parametrize(
        ("root", "name", "masked"),
        [
            ("config", "Users/ana.json", True),
            ("public", "ConfigBackups/ana.json", True),
            ("public", "Notes/ana.json", False),
            ("discussions", "configs/ana.json", False),
        ],
    )
    def test_of_which_files(self, tmp_path, root, name, masked):
        place = tmp_path / "root" / name
        place.parent.mkdir(parents=True)
        place.write_bytes(b"a secret")
        place.with_name("plain.json").write_bytes(b"none")
        manifest = take_backup(
            tmp_path / "a.zip", [Root(root, tmp_path / "root")], Manifest("1", "", "", {}), mask=self.mask
        )
        assert manifest.masked == ({f"{root}/{name}": ["/key"]} if masked else {})
        with zipfile.ZipFile(tmp_path / "a.zip") as archive:
            assert archive.read(f"{root}/{name}") == (b"a ***" if masked else b"a secret")

    def test_what_is_no_text_is_left_out(self, tmp_path):
        (tmp_path / "C").mkdir()
        (tmp_path / "C" / "x.bin").write_bytes(b"no text")
        manifest = take_backup(
            tmp_path / "a.zip", [Root("config", tmp_path / "C")], Manifest("1", "", "", {}), mask=self.mask
        )
        why = "it is no text, so that nobody knows which secrets it holds"
        assert [(each.why, each.trouble) for each in manifest.left_out] == [(why, False)]
        assert manifest.files == {}


def test_a_backup_knows_its_roots_and_the_bits_of_their_folders(tmp_path, take):
    """As they are named by the user, if they are."""
    (tmp_path / "P" / "a").mkdir(parents=True)
    (tmp_path / "P" / "a").chmod(0o750)
    (tmp_path / "P" / "a" / "x").touch()
    _, manifest = take(Root("public", tmp_path / "P", written="~/P"))
    assert manifest.roots == {"public": {"path": str(tmp_path / "P"), "written": "~/P"}}
    assert set(manifest.folders) == {"public", "public/a"} and manifest.folders["public/a"] == 0o750


def test_the_version_at_the_top_is_not_taken_and_not_missed(tmp_path, take):
    """Who restores writes it anew. A file of this name further down is somebody's own."""
    public = tmp_path / "Public"
    for name in ("version.json", "notes/version.json"):
        (public / name).parent.mkdir(parents=True, exist_ok=True)
        (public / name).write_text("{}")
    names, manifest = take(Root("public", public))
    assert (names, manifest.left_out) == (["public/notes/version.json"], [])


@pytest.mark.parametrize("end", ["-wal", "-shm", "-journal"])
def test_what_sqlite_keeps_beside_a_database_is_taken_with_it(tmp_path, take, end):
    """Not as a file of its own; without a database it is one."""
    public = tmp_path / "Public"
    public.mkdir()
    for name in ("notes.db", f"notes.db{end}", f"lone.db{end}"):
        (public / name).write_text("x")
    names, manifest = take(Root("public", public))
    assert (names, manifest.left_out) == (sorted(["public/notes.db", f"public/lone.db{end}"]), [])


def test_a_root_in_another_is_taken_once(tmp_path, take):
    """Under its own name."""
    remember(tmp_path / "Public" / "chats" / "here")
    names, _ = take(
        Root("public", tmp_path / "Public"), Root("discussions", tmp_path / "Public" / "chats" / "here")
    )
    assert names == ["discussions/trip/memories.json"]
    with zipfile.ZipFile(tmp_path / "a.zip") as archive:
        assert archive.testzip() is None


@pytest.mark.parametrize(("name", "told"), [("public", True), ("config", False)])
def test_of_a_folder_that_nobody_named_only_parts_are_taken(tmp_path, take, name, told):
    """Of the public one it is said why."""
    for child in ("kept", "other"):
        (tmp_path / child).mkdir()
        (tmp_path / child / "a.txt").write_text("x")
    names, manifest = take(Root(name, tmp_path, only=frozenset(["kept"])))
    assert names == [f"{name}/kept/a.txt"] and manifest.troubles == []
    reason = "--PublicDirectory does not name this folder"
    assert [(one.path, one.why) for one in manifest.left_out] == [(str(tmp_path / "..."), reason)] * told


def test_a_root_that_is_not_there_has_nothing(tmp_path, take):
    assert take(Root("public", tmp_path / "gone"))[0] == []


class TestLinks:
    """A discussion may lie elsewhere, within what is taken: it is where its link is."""

    def test_to_a_folder_of_another_root(self, root, take, tmp_path):
        store = remember(tmp_path / "public" / "chats")
        (root.path / "kim").symlink_to(store.folder.parent)
        names, manifest = take(root, Root("public", tmp_path / "public"))
        assert "discussions/kim/trip/memories.json" in names
        assert {left.why for left in manifest.left_out} <= {"a lock"}

    @pytest.mark.parametrize("place", ["elsewhere", "data"])
    def test_outside_of_all_or_back_to_a_folder_above(self, root, take, tmp_path, place):
        """What is left out is told, and whoever takes the rest does not walk for ever."""
        remember(root.path)
        remember(tmp_path / "elsewhere")
        (root.path / "link").symlink_to(tmp_path / place)
        names, manifest = take(root)
        assert names == ["discussions/trip/memories.json"]
        told = [(each.path, each.why) for each in manifest.left_out if each.why != "a lock"]
        why = f"a link to {tmp_path / place}, outside of what is backed up"
        assert told == [(str(root.path / "link"), why)] and manifest.troubles == []

    def test_back_within_the_folder_of_a_key(self, root, take):
        """It leads to nothing new, which is another reason."""
        remember(root.path / "kim")
        (root.path / "kim" / "again").symlink_to(root.path / "kim")
        names, manifest = take(root)
        assert names == ["discussions/kim/trip/memories.json"]
        told = [(each.path, each.why) for each in manifest.left_out if each.why != "a lock"]
        assert told == [(str(root.path / "kim" / "again"), "a link to a folder above it")]


def make_database(path, rows=200):
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("CREATE TABLE notes (text TEXT)")
        connection.executemany("INSERT INTO notes VALUES (?)", [("x" * 100,)] * rows)


class TestDatabases:
    def test_a_sound_one_is_no_trouble(self, tmp_path, take):
        make_database(tmp_path / "notes.db")
        _, manifest = take(Root("public", tmp_path, only=frozenset(["notes.db"])))
        assert [each.path for each in manifest.troubles] == []

    @pytest.mark.parametrize("kept", [100, 4096 * 3], ids=["no-pages", "some-pages"])
    def test_a_damaged_one_is_taken_as_it_lies(self, tmp_path, take, kept):
        """And the manifest says so."""
        path = tmp_path / "notes.db"
        make_database(path)
        lying = path.read_bytes()[:kept] + b"\xff" * 4096
        path.write_bytes(lying)
        _, manifest = take(Root("public", tmp_path, only=frozenset(["notes.db"])))
        assert [(each.path, each.why) for each in manifest.troubles] == [
            (str(path), "a damaged database, which was taken as it lies")
        ]
        with zipfile.ZipFile(tmp_path / "a.zip") as archive:
            assert archive.read("public/notes.db") == lying
