"""Folders as WilmerAI writes them, made by hand from its formats: they open, and a write changes one file only.

Source: spec memory.md 2, 3, 8.1, 13.
"""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from Middleware.services.discussion_store import ChunkList, DiscussionStore, Entry
from Middleware.utilities.encryption_utils import api_key_hash, derive_key
from Middleware.workflows.memory.reader import MemoryReader
from Middleware.workflows.memory.vector_search import MemoryQuery, VectorSearch
from Middleware.workflows.memory.vector_store import ChunkRecord, VectorDatabase
from tests.workflows.memory.test_vector_store import PEER_SCHEMA

KEY, USER = "test-key", "alice"
FIRST = "1b16b1df538ba12dc3f97edbb85caa7050d46c148134290feba80f8236c83db9"
SECOND = "0d9b5c2f7f1c6f2e1a6c5a4a4f9d3a0f5f7b6f0b9c7f0a3b8a5d3c1e2f4a6b8c"
MEMORIES = (
    b"[\n    {\n"
    b'        "text_block": "Mara and Theo reached the ferry town and sold the map.",\n'
    b'        "hash": "' + FIRST.encode() + b'"\n    },\n    {\n'
    b'        "text_block": "Theo admitted \\u2014 late \\u2014 that the map was a copy.",\n'
    b'        "hash": "' + SECOND.encode() + b'"\n    }\n]'
)
SUMMARY = (
    b'[\n    {\n        "text_block": "They sold a map.",\n        "hash": "'
    + FIRST.encode()
    + b'"\n    }\n]'
)
PLAIN = {
    "memories.json": MEMORIES,
    "chat_summary.json": SUMMARY,
    "condensation_tracker.json": b'{\n    "lastCondensationHash": "' + FIRST.encode() + b'"\n}',
    "context_compactor_old.json": (
        b'[\n    {\n        "text_block": "They argued.",\n        "hash": "'
        + FIRST.encode()
        + b'"\n    },\n'
        b'    {\n        "text_block": "__boundary__",\n        "hash": "41:'
        + SECOND.encode()
        + b'"\n    }\n]'
    ),
    "timestamps.json": b'{\n    "' + FIRST.encode() + b'": "(Thursday, 2026-03-05 19:09:41)"\n}',
    "vision_responses.json": b'{\n    "' + FIRST.encode() + b'": "A harbour."\n}',
    "state_document.md": b"# State\nMara waits.\n",
}
ENCRYPTED = {
    "memories.json": (
        b"gAAAAABxP7MAAAECAwQFBgcICQoLDA0OD_T0Om7bL4WFiqAri4XdSBhy5KxosSNCqrI5uywLJ3qu7Z1tiB6B_OQKAPrSVGtl4GMAKJXTll"
        b"RiMA_LrH58JIQ6BeSNFtOqQIbO6BwDbt-2e55yB2mOdZ6pKfM0Sef1uuYe7LUzcBDKPkoNjzAAFyU-GeZ2R8r6jn9fXHKhDAeQEyFNi0mG"
        b"WP5TAhruJKk957JaQgx9AuNLw7veOG-FTbovymMYUoxJFfwmKwdMuask"
    ),
    "state_document.md": (
        b"gAAAAABxP7MAAAECAwQFBgcICQoLDA0OD7V7L3nQ8u9iiBVfsH_x9x6B-TAh7FG7fWN9ugR8hS38JTuNwAzJ6zytmyG4EPsAERDqu2SV58K"
        b"yAWywq3EzbpE="
    ),
}
"""Made with the key of `alice` for `test-key` (the check values of the format)."""
DATABASE = f"""{PEER_SCHEMA}
INSERT INTO memories VALUES (1, 'trip', 'Theo owes Mara a ticket.', '2031-05-04T10:20:30.123456+00:00', '{{}}');
INSERT INTO memories_fts (rowid, title, summary, entities, key_phrases, memory_text_unweighted)
    VALUES (1, 'Debt', 'Theo owes Mara a ticket.', 'Theo Mara', 'ticket', 'Theo owes Mara a ticket.');
INSERT INTO vector_memory_hash_log (discussion_id, message_hash, timestamp)
    VALUES ('trip', 'abc', '2031-05-04T10:20:30.123456+00:00');
"""


def put(folder: Path, files: dict[str, bytes], prefix: str = "") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name, data in files.items():
        (folder / f"{prefix}{name}").write_bytes(data)
    return folder


def make_database(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(DATABASE)
    return path


def bytes_of(folder: Path) -> dict[str, bytes]:
    """All files but locks and the backups that a write makes."""
    found = {path.name: path.read_bytes() for path in sorted(folder.iterdir()) if path.is_file()}
    return {
        name: data for name, data in found.items() if not name.startswith(".") and not name.endswith(".bak")
    }


@pytest.fixture
def root(tmp_path):
    return tmp_path / "DiscussionIds"


@pytest.fixture
def open_trip(root, tmp_path):
    """Discussion `trip`, with or without a key."""

    def store(*, keyed=False, encrypted=False):
        return DiscussionStore(
            root,
            "trip",
            key_hash=api_key_hash(KEY) if keyed else None,
            encryption_key=derive_key(KEY, USER) if encrypted else None,
            install=tmp_path / "install",
        )

    return store


def add(store):
    """One more memory."""
    assert ChunkList(store, "memories.json").append(Entry("new", "h"), after=SECOND)


class TestPlain:
    """Three places of plain files."""

    @pytest.fixture(params=["plain", "flat", "keyed"])
    def trip(self, request, root, open_trip):
        """A store, the folder of its files, and what stands before their names."""
        if request.param == "flat":
            flat = {name: data for name, data in PLAIN.items() if name.endswith(".json")}
            return open_trip(), put(root, flat, "trip_"), "trip_"
        if request.param == "keyed":
            return open_trip(keyed=True), put(root / "62af8704764faf8e" / "trip", PLAIN), ""
        return open_trip(), put(root / "trip", PLAIN), ""

    def test_readers_give_what_is_there(self, trip):
        reader = MemoryReader(trip[0])
        assert reader.all_memories("|") == (
            "Mara and Theo reached the ferry town and sold the map.|Theo admitted \u2014 late \u2014 that the map was a copy."
        )
        assert (reader.summary(), reader.behind_summary()) == ("They sold a map.", 1)

    def test_a_write_changes_one_file_and_keeps_its_form(self, trip):
        """Byte for byte: the old text, then the new entry."""
        store, folder, prefix = trip
        before = bytes_of(folder)
        add(store)
        entry = b',\n    {\n        "text_block": "new",\n        "hash": "h"\n    }\n]'
        expected = {**before, f"{prefix}memories.json": MEMORIES[:-2] + entry}
        assert bytes_of(folder) == expected
        assert (folder / f"{prefix}memories.json.bak").read_bytes() == MEMORIES

    def test_a_written_file_has_the_bytes_of_the_format(self, trip):
        store, folder, prefix = trip
        entries = ChunkList(store, "memories.json").load()
        ChunkList(store, "memories.json").replace(*entries)
        assert (folder / f"{prefix}memories.json").read_bytes() == MEMORIES


class TestEncrypted:
    """Files of a key."""

    def test_they_are_read_with_the_key(self, root, open_trip):
        put(root / "62af8704764faf8e" / "trip", ENCRYPTED)
        reader = MemoryReader(open_trip(keyed=True, encrypted=True))
        assert reader.all_memories("|") == "Caf\u00e9 at noon."
        assert reader.state_document() == "# State\nMara waits.\n"

    def test_a_write_encrypts_one_file_and_its_backup(self, root, open_trip):
        folder = put(root / "62af8704764faf8e" / "trip", ENCRYPTED)
        store = open_trip(keyed=True, encrypted=True)
        ChunkList(store, "memories.json").append(Entry("new", "h"), after=FIRST)
        assert (folder / "state_document.md").read_bytes() == ENCRYPTED["state_document.md"]
        assert (folder / "memories.json").read_bytes().startswith(b"gAAAAA")
        assert (folder / "memories.json.bak").read_bytes().startswith(b"gAAAAA")
        assert MemoryReader(store).all_memories("|") == "Caf\u00e9 at noon.|new"

    def test_plain_files_from_before_are_read_and_encrypted_when_written(self, root, open_trip):
        folder = put(root / "62af8704764faf8e" / "trip", PLAIN)
        store = open_trip(keyed=True, encrypted=True)
        assert MemoryReader(store).summary() == "They sold a map."
        add(store)
        assert (folder / "memories.json").read_bytes().startswith(b"gAAAAA")
        assert (folder / "chat_summary.json").read_bytes() == SUMMARY


class TestDatabase:
    """Vector memories in the folder and at their old place."""

    @pytest.fixture(params=["folder", "legacy"])
    def path(self, request, root, tmp_path):
        place = root / "trip" / "vector_memory.db"
        if request.param == "legacy":
            place = tmp_path / "install" / "Public" / "trip_vector_memory.db"
        return make_database(place)

    def test_it_is_searched_without_being_changed(self, path, open_trip):
        before = path.read_bytes()
        (row,) = VectorSearch(open_trip()).find(MemoryQuery("owe"))
        assert (row.text, row.date[:10]) == ("Theo owes Mara a ticket.", "2031-05-04")
        assert path.read_bytes() == before

    def test_it_is_continued_where_it_is(self, path, open_trip):
        """The old rows stay as they are."""
        fact = {"title": "t", "summary": "Mara waits.", "entities": [], "key_phrases": []}
        stored = VectorDatabase(open_trip()).save(ChunkRecord("h", ("h",)), [fact], after="abc")
        assert stored == {2: "Mara waits."}
        with closing(sqlite3.connect(path)) as connection:
            rows = connection.execute("SELECT * FROM memories ORDER BY id").fetchall()
        assert rows[0] == (1, "trip", "Theo owes Mara a ticket.", "2031-05-04T10:20:30.123456+00:00", "{}")
        assert json.loads(rows[1][4]) == fact
