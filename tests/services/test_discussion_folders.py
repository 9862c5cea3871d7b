"""All discussions of a user, and discussions as zip files. Source: spec memory.md 2, 15."""

from __future__ import annotations

import os
import sqlite3
import stat
import tempfile
import threading
import zipfile
from contextlib import closing
from pathlib import Path

import pytest

from Middleware.services import discussion_folders
from Middleware.services.discussion_folders import ArchiveRefused, DiscussionFolders, Exported
from Middleware.services.discussion_store import ChunkList, Entry
from Middleware.services.file_memories import End, FileMemories
from Middleware.utilities.encryption_utils import TOKEN_START, derive_key
from tests.odd_zips import ODD, make_odd
from tests.patience import PATIENCE_S

COLUMNS = "id, discussion_id, memory_text, date_added, metadata_json"
HASH = "62af8704764faf8e"
KEY = derive_key("test-key", "alice")


@pytest.fixture
def folders(tmp_path):
    return DiscussionFolders(tmp_path / "DiscussionIds", install=tmp_path / "install")


@pytest.fixture
def keyed(tmp_path):
    return DiscussionFolders(tmp_path / "DiscussionIds", HASH, KEY, install=tmp_path / "install")


FILES = [
    *("memories.json", "memory_ends.json", "memory_pins.json", "condensation_tracker.json"),
    *("chat_summary.json", "state_document.md", "timestamps.json", "vision_responses.json"),
    *("context_compactor_old.json", "context_compactor_oldest.json", "context_compactor_reach.json"),
    "vector_memory.db",
]
"""What is kept of a discussion (memory.md 2)."""


def remember(folders, discussion_id="trip"):
    """One memory, a document and a database."""
    store = folders.store(discussion_id)
    ChunkList(store, "memories.json").replace(Entry("They met.", "h"))
    store.update_text("state_document.md", lambda _: "# State")
    with closing(sqlite3.connect(store.folder / "vector_memory.db")) as connection, connection:
        connection.execute(f"CREATE TABLE memories ({COLUMNS})")


def database(statement):
    """The bytes of a database of one table."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "made.db"
        with closing(sqlite3.connect(path)) as connection, connection:
            connection.execute(statement)
        return path.read_bytes()


class TestIds:
    """Which discussions there are."""

    def test_folders_and_flat_files_without_a_key(self, folders, keyed, tmp_path):
        """Those of a key, half-made ones and empty folders are none."""
        remember(folders)
        remember(keyed, "secret")
        ChunkList(folders.making("trip"), "memories.json").replace(Entry("half", "h"))
        (folders.root / "empty").mkdir()
        (folders.root / "_memories.json").write_text("[]")
        (folders.root / " _memories.json").write_text("[]")
        (folders.root / "old_memories.json").write_text("[]")
        legacy = tmp_path / "install/Public/DiscussionIds/older"
        legacy.mkdir(parents=True)
        (legacy / "timestamps.json").write_text("{}")
        assert folders.ids() == ["old", "older", "trip"]

    @pytest.mark.parametrize("name", FILES)
    def test_each_of_its_files_makes_one(self, folders, name):
        """Whichever came first."""
        (folders.root / "trip").mkdir(parents=True)
        (folders.root / "trip" / name).write_text("")
        assert folders.ids() == ["trip"] and list(folders.files("trip")) == [name]

    def test_only_those_of_the_key(self, folders, keyed):
        remember(folders)
        remember(keyed, "secret")
        assert keyed.ids() == ["secret"]

    def test_an_id_that_looks_like_a_key_is_one_if_it_holds_files(self, folders):
        remember(folders, HASH)
        assert folders.ids() == [HASH]

    def test_no_folder_is_no_discussion(self, folders):
        assert folders.ids() == []

    @pytest.mark.parametrize("name", ["../x", "", "a/b", ".making-trip", ".lock", " "])
    def test_an_id_that_leaves_the_folder_is_refused(self, folders, name):
        with pytest.raises(ArchiveRefused, match="is not a valid discussion id"):
            folders.existing(name)

    @pytest.mark.parametrize("name", ["../x", "", "a/b"])
    def test_nor_is_there_a_place_to_make_it(self, folders, name):
        with pytest.raises(ArchiveRefused, match="is not a valid discussion id"):
            folders.making(name)

    def test_a_discussion_that_is_not_there_is_refused(self, folders):
        with pytest.raises(ArchiveRefused, match="there is no discussion 'trip'"):
            folders.existing("trip")


class TestOtherFolders:
    """Those of another installation, named by whichever of its folders."""

    @pytest.mark.parametrize("named", [".", "Public/DiscussionIds"])
    def test_of_a_program(self, folders, tmp_path, named):
        """Also those that have not moved out of its own folder: a discussions root may be one of a program."""
        program = tmp_path / "old"
        theirs = DiscussionFolders(program / "Public/DiscussionIds")
        remember(theirs)
        source, found = folders.found_in(program / named)
        assert (source.root, source.key_hash, found) == (theirs.root, None, ["trip"])
        assert source.install == program

    @pytest.mark.parametrize("named", ["data", "data/DiscussionIds"])
    def test_of_a_folder_of_data(self, folders, tmp_path, named):
        """It is nobody's program."""
        theirs = DiscussionFolders(tmp_path / "data/DiscussionIds")
        remember(theirs)
        remember(theirs, "home")
        source, found = folders.found_in(tmp_path / named)
        assert (source.root, source.install, found) == (theirs.root, None, ["home", "trip"])

    def test_one_discussion(self, keyed, tmp_path):
        """Of the key, or of nobody: by the folder above it."""
        theirs = DiscussionFolders(tmp_path / "data", HASH, KEY)
        remember(theirs)
        remember(DiscussionFolders(tmp_path / "data"), "plain")
        source, found = keyed.found_in(tmp_path / "data" / HASH / "trip")
        assert (source.root, source.key_hash, found) == (theirs.root, HASH, ["trip"])
        source, found = keyed.found_in(tmp_path / "data" / "plain")
        assert (source.root, source.key_hash, found) == (theirs.root, None, ["plain"])

    def test_it_is_copied_whole(self, keyed, tmp_path):
        """And encrypted, where ours are; nothing of the source changes."""
        theirs = DiscussionFolders(tmp_path / "old")
        remember(theirs)
        before = {path.name: path.read_bytes() for path in (tmp_path / "old/trip").iterdir()}
        assert keyed.take_over(theirs, "trip") == []
        assert {path.name: path.read_bytes() for path in (tmp_path / "old/trip").iterdir()} == before
        assert sorted(keyed.files("trip")) == ["memories.json", "state_document.md", "vector_memory.db"]
        assert (keyed.root / HASH / "trip/state_document.md").read_bytes().startswith(TOKEN_START)
        assert keyed.store("trip").read_text("state_document.md") == "# State"

    def test_what_is_damaged_is_left_out_and_told(self, folders, tmp_path):
        """The rest is copied; of nothing good no discussion is made."""
        theirs = DiscussionFolders(tmp_path / "old")
        remember(theirs)
        (tmp_path / "old/trip/memories.json").write_text("{broken")
        assert folders.take_over(theirs, "trip") == ["memories.json"]
        assert sorted(folders.files("trip")) == ["state_document.md", "vector_memory.db"]
        with pytest.raises(ArchiveRefused, match="'trip' already exists and is not changed"):
            folders.take_over(theirs, "trip")
        (tmp_path / "old/bad").mkdir()
        (tmp_path / "old/bad/memories.json").write_text("{broken")
        with pytest.raises(ArchiveRefused, match="nothing of the discussion 'bad' can be read"):
            folders.take_over(theirs, "bad")
        assert folders.ids() == ["trip"]

    def test_the_place_of_one(self, folders, tmp_path):
        """The root, or that of an old installation as long as nothing is at the root."""
        old = DiscussionFolders(tmp_path / "install/Public/DiscussionIds")
        remember(old, "older")
        remember(folders)
        assert folders.bases == (folders.root, old.root)
        assert (folders.place_of("trip"), folders.place_of("older")) == (folders.root, old.root)

    def test_none(self, folders, keyed, tmp_path):
        """The folder is named, and whose they were to be."""
        with pytest.raises(ArchiveRefused, match=r"old contains no discussions without an API key$"):
            folders.found_in(tmp_path / "old")
        with pytest.raises(ArchiveRefused, match=r"old contains no discussions for this API key$"):
            keyed.found_in(tmp_path / "old")


class TestZip:
    """Out and in again."""

    def test_what_was_exported_comes_in_again(self, folders, tmp_path):
        remember(folders)
        target = tmp_path / "trip.zip"
        assert folders.export("trip", target) == Exported(3, [])
        elsewhere = DiscussionFolders(tmp_path / "other", install=tmp_path / "install")
        assert elsewhere.bring_in(target) == "trip"
        store = elsewhere.store("trip")
        assert ChunkList(store, "memories.json").load() == (Entry("They met.", "h"),)
        assert sorted(elsewhere.files("trip")) == ["memories.json", "state_document.md", "vector_memory.db"]
        assert elsewhere.ids() == ["trip"]

    def test_an_export_may_hold_every_file_of_a_discussion(self, folders, tmp_path):
        remember(folders)
        lists = {name: b"[]" for name in FILES if name.endswith(".json")}
        objects = dict.fromkeys(
            ("condensation_tracker.json", "timestamps.json", "vision_responses.json"), b"{}"
        )
        there = folders.existing("trip").folder
        for name, data in {**lists, **objects}.items():
            (there / name).write_bytes(data)
        assert folders.export("trip", tmp_path / "trip.zip") == Exported(len(FILES), [])
        elsewhere = DiscussionFolders(tmp_path / "elsewhere")
        assert elsewhere.bring_in(tmp_path / "trip.zip") == "trip"
        assert sorted(elsewhere.files("trip")) == sorted(FILES)

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
        with pytest.raises(ArchiveRefused, match="already exists"):
            folders.export("trip", tmp_path / "trip.zip")
        with pytest.raises(ArchiveRefused, match="the discussion 'trip' already exists"):
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
            ({"trip/passwd": b""}, "is not an export"),
            ({"a/memories.json": b"[]", "b/memories.json": b"[]"}, "is not an export"),
            ({"memories.json": b"[]"}, "is not an export"),
            ({"a/../../memories.json": b"[]"}, "is not an export"),
            ({}, "is not an export"),
            ({"../memories.json": b"[]"}, "is not a valid discussion id"),
            ({"trip/memories.json": b"{"}, r"memories\.json: "),
            ({"trip/state_document.md": b"\xff"}, r"state_document\.md: "),
            ({"trip/vector_memory.db": b"text"}, "not an SQLite database"),
            ({"trip/vector_memory.db": b"SQLite format 3\0" + b"x" * 5000}, r"vector_memory\.db: "),
            ({"trip/vector_memory.db": database("CREATE TABLE other (x)")}, "no such table: memories"),
            ({"trip/vector_memory.db": database("CREATE TABLE memories (x)")}, "no such column"),
            ({"trip/memories.json": b"{}"}, "found an object, allowed: a list of objects"),
            ({"trip/memory_ends.json": b"[1]"}, "line 1: expected an object with the strings"),
            ({"trip/chat_summary.json": b"[1]"}, "entry 1: expected an object with the strings"),
            ({"trip/timestamps.json": b"[]"}, "found a list, allowed: an object"),
            ({"trip/memories.json": b"[" * 100_000}, r"memories\.json: "),
            ({".making-x/memories.json": b"[]"}, "is not a valid discussion id"),
            ({" /memories.json": b"[]"}, "is not a valid discussion id"),
        ],
        ids=range(19),
    )
    def test_a_zip_file_of_something_else_is_refused(self, folders, tmp_path, files, message):
        """And leaves nothing behind."""
        source = tmp_path / "odd.zip"
        with zipfile.ZipFile(source, "w") as archive:
            [archive.writestr(name, data) for name, data in files.items()]
        with pytest.raises(ArchiveRefused, match=message):
            folders.bring_in(source)
        assert not folders.root.exists()

    def test_the_same_name_twice_is_refused(self, folders, tmp_path):
        source = tmp_path / "odd.zip"
        with pytest.warns(UserWarning, match="Duplicate"), zipfile.ZipFile(source, "w") as archive:
            archive.writestr("trip/memories.json", b"[]")
            archive.writestr("trip/memories.json", b"[]")
        with pytest.raises(ArchiveRefused, match=r"two files of the name 'trip/memories\.json'"):
            folders.bring_in(source)

    @pytest.mark.parametrize("case", [case for case in ODD])
    def test_a_forged_zip_file_is_refused(self, folders, tmp_path, case):
        """And leaves nothing behind, inside and outside of the folders."""
        remember(folders)
        folders.export("trip", tmp_path / "trip.zip")
        (folders.root / "trip").rename(folders.root / "moved")
        with pytest.raises(ArchiveRefused):
            folders.bring_in(make_odd(tmp_path / "trip.zip", tmp_path / "odd.zip", ODD[case]))
        assert [path.name for path in folders.root.iterdir()] == ["moved"]
        assert list(tmp_path.rglob("evil*")) == []

    def test_more_than_a_discussion_may_have_is_refused(self, folders, tmp_path, monkeypatch):
        """When it comes in, and when it would go out: nobody makes a file that cannot come back."""
        remember(folders)
        folders.export("trip", tmp_path / "trip.zip")
        monkeypatch.setattr(discussion_folders, "MOST_IMPORT", 40)
        with pytest.raises(ArchiveRefused, match=r"too large for a zip file of its own; --backup takes it"):
            folders.export("trip", tmp_path / "other.zip")
        (folders.root / "trip").rename(folders.root / "moved")
        with pytest.raises(
            ArchiveRefused, match=r"trip\.zip is too large: a discussion in a zip file has at most"
        ):
            folders.bring_in(tmp_path / "trip.zip")
        assert [path.name for path in folders.root.iterdir()] == ["moved"]

    @pytest.mark.parametrize("missing", [0, 1])
    def test_as_much_as_a_discussion_may_have_goes_out_and_comes_in(
        self, folders, tmp_path, monkeypatch, missing
    ):
        """To the byte."""
        remember(folders)
        folders.export("trip", tmp_path / "trip.zip")
        with zipfile.ZipFile(tmp_path / "trip.zip") as archive:
            size = sum(info.file_size for info in archive.infolist())
        monkeypatch.setattr(discussion_folders, "MOST_IMPORT", size - missing)
        elsewhere = DiscussionFolders(tmp_path / "elsewhere")
        acts = [
            lambda: folders.export("trip", tmp_path / "other.zip").files == 3,
            lambda: elsewhere.bring_in(tmp_path / "trip.zip") == "trip",
        ]
        for act in acts:
            if missing:
                with pytest.raises(ArchiveRefused, match="too large"):
                    act()
            else:
                assert act()

    def test_how_much_that_is_is_told(self, folders, tmp_path, monkeypatch):
        remember(folders)
        folders.export("trip", tmp_path / "trip.zip")
        monkeypatch.setattr(discussion_folders, "read_entry", lambda archive, info, most: None)
        with pytest.raises(ArchiveRefused, match=r"has at most 1024 MB, unpacked$"):
            DiscussionFolders(tmp_path / "elsewhere").bring_in(tmp_path / "trip.zip")

    def test_a_database_with_a_damaged_page_is_refused(self, folders, tmp_path):
        remember(folders)
        path = tmp_path / "made.db"
        with closing(sqlite3.connect(path)) as connection, connection:
            connection.execute(f"CREATE TABLE memories ({COLUMNS})")
            connection.executemany("INSERT INTO memories (memory_text) VALUES (?)", [("x" * 100,)] * 200)
        data = path.read_bytes()
        with zipfile.ZipFile(tmp_path / "odd.zip", "w") as archive:
            archive.writestr("tour/vector_memory.db", data[:12288] + b"\xff" * 4096 + data[16384:])
        with pytest.raises(ArchiveRefused, match=r"vector_memory\.db: a damaged SQLite database"):
            folders.bring_in(tmp_path / "odd.zip")

    def test_a_database_that_cannot_be_read_now_is_an_error(self, folders, tmp_path, monkeypatch):
        """It is not left out: another time it can be."""
        remember(folders)

        def fail(data):
            raise sqlite3.OperationalError("database is locked")

        monkeypatch.setattr(discussion_folders, "_check_database", fail)
        with pytest.raises(sqlite3.OperationalError):
            folders.export("trip", tmp_path / "trip.zip")

    def test_a_folder_in_a_zip_file_counts_for_nothing(self, folders, tmp_path):
        """Other programs that pack it again write one."""
        with zipfile.ZipFile(tmp_path / "trip.zip", "w") as archive:
            archive.writestr("trip/", b"")
            archive.writestr("trip/memories.json", b"[]")
        assert folders.bring_in(tmp_path / "trip.zip") == "trip"

    @pytest.mark.parametrize(
        ("place", "value", "message"),
        [
            (6, b"\x01", "is encrypted"),
            (8, b"\x63", "compression"),
            (8, b"\x08", "zip file: "),
            (8, b"\x0e", "zip file: "),
            (14, b"\xee\xee\xee\xee", "CRC"),
        ],
        ids=["encrypted", "unknown-compression", "no-deflate", "no-lzma", "damaged"],
    )
    def test_a_zip_file_that_cannot_be_unpacked_is_refused(self, folders, tmp_path, place, value, message):
        """Its headers are changed, in both places where they stand."""
        source = tmp_path / "odd.zip"
        with zipfile.ZipFile(source, "w") as archive:
            archive.writestr("trip/memories.json", b"[]" + b" " * 40)
        raw = bytearray(source.read_bytes())
        for start in (0, raw.index(b"PK\x01\x02") + 2):
            raw[start + place : start + place + len(value)] = value
        source.write_bytes(raw)
        with pytest.raises(ArchiveRefused, match=f"cannot be read as a zip file: .*{message}|{message}"):
            folders.bring_in(source)
        assert not folders.root.exists()

    @pytest.mark.parametrize(
        "name",
        ["memories.json.bak", "memories.json.corrupt-20310504-102030-123456", ".notes", "plan.tmp"],
    )
    def test_backups_are_not_overwritten(self, folders, tmp_path, name):
        """They are all that is left of an older discussion of that id; other files are somebody's too."""
        remember(folders)
        folders.export("trip", tmp_path / "trip.zip")
        (folders.root / "trip").rename(folders.root / "moved")
        (folders.root / "trip").mkdir()
        (folders.root / "trip" / name).write_text("[]")
        with pytest.raises(ArchiveRefused, match=f"trip contains {name}; move that away first"):
            folders.bring_in(tmp_path / "trip.zip")
        assert [path.name for path in (folders.root / "trip").iterdir()] == [name]

    def test_what_is_written_while_an_import_is_read_is_kept(self, folders, tmp_path, monkeypatch):
        """A server may begin the discussion after the first look: the folder is looked at again before it goes."""
        remember(folders)
        folders.export("trip", tmp_path / "trip.zip")
        place = folders.root / "trip"
        place.rename(folders.root / "moved")
        looks, read = [], zipfile.ZipFile.open

        def reading(archive, name, *more):
            looks.append(getattr(name, "filename", name))
            if len(looks) == len(set(looks)) + 1:  # the first file that is read again: the check is over
                place.mkdir()
                (place / "memories.json").write_text("[]")
            return read(archive, name, *more)

        monkeypatch.setattr(zipfile.ZipFile, "open", reading)
        with pytest.raises(ArchiveRefused, match=r"trip contains memories\.json; move that away first"):
            folders.bring_in(tmp_path / "trip.zip")
        assert (place / "memories.json").read_text() == "[]"
        assert sorted(path.name for path in folders.root.iterdir()) == ["moved", "trip"]

    def test_what_a_killed_server_left_is_in_nobodys_way(self, folders, tmp_path):
        remember(folders)
        folders.export("trip", tmp_path / "trip.zip")
        (folders.root / "trip").rename(folders.root / "moved")
        (folders.root / "trip").mkdir()
        for name in (".lock", ".memory.lease", ".memories.json.0123.tmp"):
            (folders.root / "trip" / name).touch()
        folders.bring_in(tmp_path / "trip.zip")
        assert sorted(path.name for path in (folders.root / "trip").iterdir()) == sorted(
            folders.files("trip")
        )
        assert sorted(path.name for path in folders.root.iterdir()) == ["moved", "trip"]

    def test_a_folder_that_somebody_works_in_is_left(self, folders, tmp_path):
        remember(folders)
        folders.export("trip", tmp_path / "trip.zip")
        (folders.root / "trip").rename(folders.root / "moved")
        held, done = threading.Event(), threading.Event()

        def holder():
            with folders.store("trip").lease("memory", None):
                held.set()
                done.wait(PATIENCE_S)

        thread = threading.Thread(target=holder)
        thread.start()
        held.wait(PATIENCE_S)
        with pytest.raises(ArchiveRefused, match="is in use"):
            folders.bring_in(tmp_path / "trip.zip")
        done.set()
        thread.join()
        assert sorted(path.name for path in folders.root.iterdir()) == ["moved", "trip"]

    def test_what_killed_imports_left_goes(self, folders, tmp_path):
        """After an hour; a younger one may be at work."""
        remember(folders)
        folders.export("trip", tmp_path / "trip.zip")
        (folders.root / "trip").rename(folders.root / "moved")
        for name, age_s in ((".importing-old", 3660), (".importing-new", 3000)):
            (folders.root / name).mkdir()
            made = (folders.root / name).stat().st_mtime
            os.utime(folders.root / name, (made - age_s,) * 2)
        folders.bring_in(tmp_path / "trip.zip")
        assert sorted(path.name for path in folders.root.iterdir()) == [".importing-new", "moved", "trip"]

    @pytest.mark.skipif(os.name == "nt", reason="no mode bits")
    def test_an_export_that_fails_leaves_no_half_file(self, folders, tmp_path, monkeypatch):
        """As on a full disk."""
        remember(folders)
        (tmp_path / "out").mkdir()

        def full(*names):
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(os, "replace", full)
        with pytest.raises(OSError, match="No space left"):
            folders.export("trip", tmp_path / "out" / "trip.zip")
        assert list((tmp_path / "out").iterdir()) == []

    def test_a_zip_file_is_for_the_owner_only(self, folders, tmp_path):
        """It holds private chats."""
        remember(folders)
        folders.export("trip", tmp_path / "trip.zip")
        assert stat.S_IMODE((tmp_path / "trip.zip").stat().st_mode) == 0o600

    def test_what_the_memories_cover_goes_with_them(self, folders, keyed, tmp_path):
        """Into a folder of a key, encrypted."""
        end = End("h", "b", ("g", "h"))
        FileMemories(keyed.store("trip")).append("They met.", end, after=())
        keyed.export("trip", tmp_path / "trip.zip")
        folders.bring_in(tmp_path / "trip.zip")
        moved = FileMemories(folders.store("trip"))
        assert (moved.load(), moved.ends(moved.load())) == ((Entry("They met.", "h"),), (end,))

    def test_of_a_damaged_file_the_backup_is_taken(self, folders, tmp_path):
        remember(folders)
        ChunkList(folders.store("trip"), "memories.json").append(Entry("They left.", "i"), after="h")
        (folders.root / "trip/memories.json").write_text("[{")
        assert folders.export("trip", tmp_path / "trip.zip") == Exported(3, [])
        with zipfile.ZipFile(tmp_path / "trip.zip") as archive:
            assert b"They met." in archive.read("trip/memories.json")
        assert (folders.root / "trip/memories.json").read_text() == "[{"

    def test_what_nothing_good_is_left_of_is_left_out_and_told(self, folders, tmp_path):
        remember(folders)
        (folders.root / "trip/memories.json").write_text("{}")
        (folders.root / "trip/vector_memory.db").write_bytes(b"SQLite format 3\0" + b"x" * 5000)
        assert folders.export("trip", tmp_path / "trip.zip") == Exported(
            1, ["memories.json", "vector_memory.db"]
        )

    def test_a_discussion_of_which_nothing_is_left_is_refused(self, folders, tmp_path):
        (folders.root / "trip").mkdir(parents=True)
        (folders.root / "trip/memories.json").write_text("{}")
        with pytest.raises(ArchiveRefused, match="nothing of the discussion 'trip' can be read"):
            folders.export("trip", tmp_path / "trip.zip")
        assert [path.name for path in tmp_path.iterdir()] == ["DiscussionIds"]

    def test_a_zip_file_needs_a_folder(self, folders, tmp_path):
        remember(folders)
        with pytest.raises(ArchiveRefused, match="there is no folder"):
            folders.export("trip", tmp_path / "none/trip.zip")

    @pytest.mark.parametrize("data", [b"text", None], ids=["no-zip", "missing"])
    def test_what_is_no_zip_file_is_refused(self, folders, tmp_path, data):
        source = tmp_path / "odd.zip"
        source.write_bytes(data) if data is not None else source.unlink(missing_ok=True)
        with pytest.raises(ArchiveRefused, match="cannot be read as a zip file"):
            folders.bring_in(source)
