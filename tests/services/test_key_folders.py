"""Discussions are counted in the folders of keys, and folders that no key leads to are found (keys.md 1, 7; memory.md 2.2)."""

from __future__ import annotations

import os

import pytest

from Middleware.config.key_file import KeyEntry
from Middleware.config.users import UserSettings
from Middleware.services.key_folders import (
    KEY,
    NEW_KEY,
    count_discussions,
    folder_of_entry,
    folders_in_no_entry,
    folders_of_key,
    is_discussion,
    key_in,
)
from Middleware.utilities.encryption_utils import api_key_hash, derive_key

DIGEST = "0123456789abcdef" * 4
HASH = DIGEST[:16]


@pytest.fixture
def root(tmp_path):
    """The folder of the user's discussions."""
    (tmp_path / "chats").mkdir()
    return tmp_path / "chats"


@pytest.fixture
def ana(root):
    return UserSettings("ana", discussion_directory=str(root))


@pytest.fixture
def remember(root):
    """`remember("kim/trip")`: a discussion with a memory."""

    def make(*places):
        for place in places:
            (root / place).mkdir(parents=True, exist_ok=True)
            (root / place / "memories.json").write_text("[]", "utf-8")

    return make


@pytest.mark.parametrize(
    ("name", "ours", "old"),
    [
        (KEY, "HEADRACE_API_KEY", "WILMER_API_KEY"),
        (NEW_KEY, "HEADRACE_NEW_API_KEY", "WILMER_NEW_API_KEY"),
    ],
)
def test_the_key_of_the_environment(monkeypatch, name, ours, old):
    """WilmerAI's variable is read where ours is not set, or blank."""
    for variable in (ours, old):
        monkeypatch.delenv(variable, raising=False)
    assert key_in(name) == ""
    monkeypatch.setenv(old, " second ")
    assert key_in(name) == "second"
    monkeypatch.setenv(ours, " ")
    assert key_in(name) == "second"
    monkeypatch.setenv(ours, " first ")
    assert key_in(name) == "first"


@pytest.mark.parametrize(
    ("folder", "expected"), [(None, HASH), ("kim", "kim"), ("", None)], ids=["hash", "named", "root"]
)
def test_the_folder_of_an_entry(folder, expected):
    """The hash of its key, unless it names one; an empty name means the place of chats without a key."""
    assert folder_of_entry(KeyEntry("Kim", DIGEST, folder=folder)) == expected


@pytest.mark.parametrize(("folder", "count"), [(None, 2), ("kim", 3), (HASH, 1), ("eve", 0)])
def test_discussions_are_counted_where_they_lie(ana, remember, folder, count):
    """Those of a key do not count for chats without one, nor for another key."""
    remember("sea", "hill", "kim/a", "kim/b", "kim/c", f"{HASH}/d")
    assert count_discussions(ana, folder) == count


def test_an_empty_folder_is_no_discussion(ana, root):
    (root / "kim" / "a").mkdir(parents=True)
    assert count_discussions(ana, "kim") == 0
    assert not is_discussion(ana, "kim")


def test_a_chat_without_a_key_may_have_the_name(ana, remember):
    """A key's folder of that name would lie in it."""
    remember("sea", "kim/a")
    assert is_discussion(ana, "sea")
    assert not is_discussion(ana, "kim") and not is_discussion(ana, "eve")


class TestFoldersOfKey:
    def test_without_a_key(self, ana, remember):
        remember("trip")
        (folders,) = folders_of_key(ana, None)
        assert (folders.key_hash, folders.encryption_key, folders.ids()) == (None, None, ["trip"])

    def test_each_reading_of_a_key_is_one(self, ana):
        """Old programs read its bytes as Latin-1."""
        both = [folders.key_hash for folders in folders_of_key(ana, "ü")]
        assert both == [api_key_hash("ü"), api_key_hash("Ã¼")]

    def test_files_are_encrypted_if_the_user_says_so(self, root):
        user = UserSettings("ana", discussion_directory=str(root), encrypt_using_api_key=True)
        (folders,) = folders_of_key(user, "k1")
        assert folders.encryption_key == derive_key("k1", "ana")


class TestFoldersInNoEntry:
    def test_are_named_with_their_discussions(self, ana, remember):
        """In the order of their names."""
        remember("kim/a", "eve/a", "eve/b", f"{HASH}/a")
        assert list(folders_in_no_entry(ana, []).items()) == [(HASH, 1), ("eve", 2), ("kim", 1)]

    def test_not_those_of_entries(self, ana, remember):
        """Named or by the key's hash; an entry whose chats lie in the root leads to no folder."""
        remember("kim/a", "eve/a", f"{HASH}/a")
        entries = [
            KeyEntry("1", DIGEST),
            KeyEntry("2", "f" * 64, folder="kim"),
            KeyEntry("3", "e" * 64, folder=""),
        ]
        assert folders_in_no_entry(ana, entries) == {"eve": 1}

    def test_not_what_holds_no_discussion(self, ana, root, remember):
        """Files, empty folders, and what is made beside a discussion."""
        remember(".making-1/a")
        (root / "kim").mkdir()
        (root / "notes.txt").write_text("x")
        assert folders_in_no_entry(ana, []) == {}

    def test_not_a_discussion_of_a_chat_without_a_key(self, ana, remember):
        """Though something else lies in it that looks like one."""
        remember("sea", "sea/a", "kim/a")
        assert folders_in_no_entry(ana, []) == {"kim": 1}

    def test_nor_any_where_there_is_no_folder(self, root, ana):
        """Nobody has talked yet."""
        root.rmdir()
        assert folders_in_no_entry(ana, []) == {}

    @pytest.mark.parametrize(
        "name", ["Kim", "a:b", " ", pytest.param("con", id="a-device")] if os.name == "posix" else ["Kim"]
    )
    def test_nor_what_no_key_can_name(self, ana, remember, name):
        """Made by hand: nobody is advised to write into the keys file what is refused there."""
        remember(f"{name}/x", "kim/a")
        assert folders_in_no_entry(ana, []) == {"kim": 1}
