"""All discussions of a user, and discussions as zip files. Source: spec memory.md 2, 15."""

from __future__ import annotations

import sqlite3
import zipfile
from contextlib import closing

import pytest

from Middleware.services.chunk_list import ChunkList, Entry
from Middleware.services.discussion_folders import DiscussionFolders, Refused
from Middleware.utilities.encryption_utils import TOKEN_START, derive_key

HASH = "62af8704764faf8e"
KEY = derive_key("test-key", "alice")


@pytest.fixture
def folders(tmp_path):
    return DiscussionFolders(tmp_path / "DiscussionIds", install=tmp_path / "install")


@pytest.fixture
def keyed(tmp_path):
    return DiscussionFolders(tmp_path / "DiscussionIds", HASH, KEY, install=tmp_path / "install")


def remember(folders, discussion_id="trip"):
    """One memory, a document and a database."""
    store = folders.store(discussion_id)
    ChunkList(store, "memories.json").replace(Entry("They met.", "h"))
    store.update_text("state_document.md", lambda _: "# State")
    with closing(sqlite3.connect(store.folder / "vector_memory.db")) as connection, connection:
        connection.execute("CREATE TABLE memories (id)")


class TestIds:
    """Which discussions there are."""

    def test_folders_and_flat_files_without_a_key(self, folders, keyed, tmp_path):
        """Those of a key, half-made ones and empty folders are none."""
        remember(folders)
        remember(keyed, "secret")
        remember(folders, ".making-trip")
        (folders.root / "empty").mkdir()
        (folders.root / "old_memories.json").write_text("[]")
        legacy = tmp_path / "install/Public/DiscussionIds/older"
        legacy.mkdir(parents=True)
        (legacy / "timestamps.json").write_text("{}")
        assert folders.ids() == ["old", "older", "trip"]

    def test_only_those_of_the_key(self, folders, keyed):
        remember(folders)
        remember(keyed, "secret")
        assert keyed.ids() == ["secret"]

    def test_an_id_that_looks_like_a_key_is_one_if_it_holds_files(self, folders):
        remember(folders, HASH)
        assert folders.ids() == [HASH]

    def test_no_folder_is_no_discussion(self, folders):
        assert folders.ids() == []

    @pytest.mark.parametrize("name", ["../x", "", "a/b"])
    def test_an_id_that_leaves_the_folder_is_refused(self, folders, name):
        with pytest.raises(Refused, match="cannot be a discussion id"):
            folders.existing(name)

    def test_a_discussion_that_is_not_there_is_refused(self, folders):
        with pytest.raises(Refused, match="there is no discussion 'trip'"):
            folders.existing("trip")


class TestZip:
    """Out and in again."""

    def test_what_was_exported_comes_in_again(self, folders, tmp_path):
        remember(folders)
        target = tmp_path / "trip.zip"
        assert folders.export("trip", target) == 3
        elsewhere = DiscussionFolders(tmp_path / "other", install=tmp_path / "install")
        assert elsewhere.bring_in(target) == "trip"
        store = elsewhere.store("trip")
        assert ChunkList(store, "memories.json").load() == (Entry("They met.", "h"),)
        assert sorted(elsewhere.files("trip")) == ["memories.json", "state_document.md", "vector_memory.db"]
        assert elsewhere.ids() == ["trip"]

    def test_a_zip_file_is_plain_and_is_encrypted_when_it_comes_in(self, folders, keyed, tmp_path):
        """It can go to another key."""
        remember(keyed)
        keyed.export("trip", tmp_path / "trip.zip")
        with zipfile.ZipFile(tmp_path / "trip.zip") as archive:
            assert archive.read("trip/state_document.md") == b"# State"
        folders.bring_in(tmp_path / "trip.zip")
        assert (folders.root / "trip/state_document.md").read_bytes() == b"# State"
        other = DiscussionFolders(keyed.root, "0" * 16, KEY, keyed.install)
        other.bring_in(tmp_path / "trip.zip")
        assert other.files("trip")["state_document.md"].read_bytes().startswith(TOKEN_START)

    def test_nothing_is_overwritten(self, folders, tmp_path):
        """Neither a zip file nor a discussion."""
        remember(folders)
        folders.export("trip", tmp_path / "trip.zip")
        with pytest.raises(Refused, match="exists already"):
            folders.export("trip", tmp_path / "trip.zip")
        with pytest.raises(Refused, match="there is a discussion 'trip' already"):
            folders.bring_in(tmp_path / "trip.zip")

    def test_an_empty_folder_is_in_nobodys_way(self, folders, tmp_path):
        remember(folders)
        folders.export("trip", tmp_path / "trip.zip")
        place = folders.root / "trip"
        place.rename(folders.root / "moved")
        place.mkdir()
        assert folders.bring_in(tmp_path / "trip.zip") == "trip"

    @pytest.mark.parametrize(
        ("files", "message"),
        [
            ({"trip/passwd": b""}, "is no export"),
            ({"a/memories.json": b"[]", "b/memories.json": b"[]"}, "is no export"),
            ({"memories.json": b"[]"}, "is no export"),
            ({"a/../../memories.json": b"[]"}, "is no export"),
            ({}, "is no export"),
            ({"../memories.json": b"[]"}, "cannot be a discussion id"),
            ({"trip/memories.json": b"{"}, r"memories\.json: "),
            ({"trip/state_document.md": b"\xff"}, r"state_document\.md: "),
            ({"trip/vector_memory.db": b"text"}, "no SQLite database"),
        ],
        ids=range(9),
    )
    def test_a_zip_file_of_something_else_is_refused(self, folders, tmp_path, files, message):
        """And leaves nothing behind."""
        source = tmp_path / "odd.zip"
        with zipfile.ZipFile(source, "w") as archive:
            [archive.writestr(name, data) for name, data in files.items()]
        with pytest.raises(Refused, match=message):
            folders.bring_in(source)
        assert not folders.root.exists()

    @pytest.mark.parametrize("data", [b"text", None], ids=["no-zip", "missing"])
    def test_what_is_no_zip_file_is_refused(self, folders, tmp_path, data):
        source = tmp_path / "odd.zip"
        source.write_bytes(data) if data is not None else source.unlink(missing_ok=True)
        with pytest.raises(Refused, match="cannot be read as a zip file"):
            folders.bring_in(source)
