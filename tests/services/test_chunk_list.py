"""Lists of texts with hashes: their form on disk, changes, and what a wrong file says."""

from __future__ import annotations

import json

import pytest

from Middleware.services.discussion_store import (
    ChunkList,
    DiscussionStore,
    Entry,
    ParsedLists,
    newest_hash,
    parsed_lists,
)
from Middleware.utilities.encryption_utils import TOKEN_START, derive_key

ONE, TWO = Entry("Mara sold the map.", "a" * 64), Entry("Theo wept. café", "b" * 64)
GOLDEN = (
    '[\n    {\n        "text_block": "Mara sold the map.",\n        "hash": "' + "a" * 64 + '"\n    },\n'
    '    {\n        "text_block": "Theo wept. caf\\u00e9",\n        "hash": "' + "b" * 64 + '"\n    }\n]'
)


@pytest.fixture
def store(tmp_path):
    return DiscussionStore(tmp_path / "discussions", "talk", install=tmp_path / "install")


@pytest.fixture
def memories(store):
    return ChunkList(store, "memories.json")


@pytest.fixture
def file(store):
    store.folder.mkdir(parents=True)
    return store.folder / "memories.json"


class TestForm:
    """The bytes of memory.md 3.1 and 3.2."""

    def test_what_is_written_is_the_form_to_the_byte(self, memories, store):
        """Four spaces, escapes, no line end at the end."""
        memories.replace(ONE, TWO)
        assert store.path("memories.json").read_text("ascii") == GOLDEN

    def test_it_is_read_in_any_order_of_keys_with_unknown_keys_ignored(self, memories, file):
        """Other programs write these files too."""
        file.write_text('[{"hash": "h", "mood": 1, "text_block": "t"}]')
        assert memories.load() == (Entry("t", "h"),)

    def test_loading_makes_no_file_and_opening_makes_an_empty_one(self, memories, store):
        """A search must leave no trace; a memory run ends the time of rebuilding."""
        assert (memories.load(), memories.exists) == ((), False)
        assert memories.open() == ()
        assert store.path("memories.json").read_text() == "[]"

    def test_opening_leaves_a_file_as_it_is(self, memories, file):
        file.write_text(GOLDEN)
        assert memories.open() == (ONE, TWO)
        assert file.read_text() == GOLDEN

    @pytest.mark.parametrize("text", ['{"text_block": "t"}', "{}", '"text"', "null", "5"])
    def test_a_file_that_is_no_list_is_set_aside_and_the_work_goes_on(self, memories, file, text, caplog):
        """Replacing it would lose what somebody wrote."""
        file.write_text(text)
        assert memories.load() == ()
        assert memories.append(ONE, after=None)
        assert [path.read_text() for path in file.parent.glob("memories.json.corrupt-*")] == [text]
        assert "allowed: a list of objects" in caplog.text

    @pytest.mark.parametrize("item", ["text", {"text_block": "t"}, {"text_block": 1, "hash": "h"}], ids=str)
    def test_an_entry_of_another_form_is_named_and_the_backup_used(self, memories, file, item, caplog):
        file.write_text(json.dumps([{"text_block": "t", "hash": "h"}, item]))
        file.with_name("memories.json.bak").write_text(GOLDEN)
        assert memories.append(Entry("three", "h"), after=TWO.hash)
        assert memories.load() == (ONE, TWO, Entry("three", "h"))
        assert "entry 2: expected an object with the strings `text_block` and `hash`" in caplog.text

    def test_with_a_key_the_empty_file_is_encrypted_too(self, tmp_path):
        """And its texts are not kept in memory."""
        key = derive_key("test-key", "alice")
        store = DiscussionStore(tmp_path, "talk", encryption_key=key, install=tmp_path / "install")
        assert ChunkList(store, "memories.json").open() == ()
        assert store.path("memories.json").read_bytes().startswith(TOKEN_START)


class TestChanges:
    """Adding only what continues what is there."""

    def test_an_entry_is_added_after_the_one_it_was_made_from(self, memories):
        assert memories.append(ONE, after=None)
        assert memories.append(TWO, after=ONE.hash)
        assert memories.load() == (ONE, TWO)

    def test_an_entry_made_from_an_older_state_is_not_added(self, memories):
        """Somebody else remembered these messages meanwhile."""
        memories.append(ONE, after=None)
        assert not memories.append(TWO, after=None)
        assert memories.load() == (ONE,)

    @pytest.mark.parametrize(("change", "stored"), [([TWO], (TWO,)), (None, (ONE,)), ([], ())])
    def test_a_change_gives_what_is_stored_then(self, memories, change, stored):
        """Also where it leaves the file as it is."""
        memories.append(ONE, after=None)
        assert memories.update(lambda entries: change) == stored == memories.load()

    def test_a_change_by_another_program_is_seen(self, memories, file):
        """The parsed list belongs to one state of the file."""
        file.write_text(GOLDEN)
        memories.load()
        file.write_text("[ ]")
        assert memories.load() == ()


class TestParsedLists:
    """The few lists that are kept parsed."""

    def test_eight_lists_are_kept(self):
        lists = ParsedLists()
        for number in range(9):
            lists.put((str(number), 1, 1, 1), ())
        assert [lists.get((str(number), 1, 1, 1)) for number in (0, 1, 8)] == [None, (), ()]

    def test_the_least_used_list_goes(self):
        lists = ParsedLists(limit=2)
        first, second, third = (("a", 1, 1, 1), ("b", 1, 1, 1), ("c", 1, 1, 1))
        lists.put(first, (ONE,))
        lists.put(second, ())
        lists.get(first)
        lists.put(third, ())
        assert (lists.get(first), lists.get(second)) == ((ONE,), None)

    def test_an_unchanged_file_is_parsed_once(self, memories, file):
        file.write_text(GOLDEN)
        assert memories.load() is memories.load()
        assert parsed_lists() is parsed_lists()


def test_the_newest_hash_of_nothing_is_none():
    assert (newest_hash(()), newest_hash((ONE, TWO))) == (None, TWO.hash)
