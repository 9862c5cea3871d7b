"""Discussions are taken whole, wherever they lie, while others work with them. Source: spec operate.md 3, memory.md 2."""

from __future__ import annotations

import threading
import zipfile

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

    def test_flat_files_stay_flat(self, root, take):
        """Any root may have them."""
        (root.path / "trip_memories.json").write_text("[]")
        assert take(root)[0] == ["discussions/trip_memories.json"]

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
        told = {(each.path, each.why) for each in manifest.left_out if each.why != "a lock"}
        why = f"a link to {tmp_path / place}, outside of what is backed up"
        assert told == {(str(root.path / "link"), why)} and manifest.troubles == []
