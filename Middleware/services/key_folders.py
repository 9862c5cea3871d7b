"""Where the discussions of keys lie: counted, for whoever makes a key and must not hide a memory by it, and
those of the key that the environment gives, for whoever corrects a memory.

Reads names of folders and files, and opens none. Source: spec keys.md 1, 7, memory.md 2.2, 15, operate.md 6.
"""

from __future__ import annotations

import os
from collections.abc import Collection
from pathlib import Path

from Middleware.config.key_file import KeyEntry, is_key_folder
from Middleware.config.users import UserSettings
from Middleware.services.data_folders import discussions_root, old_discussions
from Middleware.services.discussion_folders import DiscussionFolders
from Middleware.utilities.encryption_utils import (
    api_key_hash,
    derive_key,
    folder_of_key,
    hash_of_digest,
    key_readings,
)

KEY, NEW_KEY = "HEADRACE_API_KEY", "HEADRACE_NEW_API_KEY"
_OLD_NAMES = {KEY: "WILMER_API_KEY", NEW_KEY: "WILMER_NEW_API_KEY"}
"""Our variable -> WilmerAI's, which is read when ours is not set."""


def key_in(name: str) -> str:
    """The key that the environment gives under our name, else under the old one; empty: none."""
    return os.environ.get(name, "").strip() or os.environ.get(_OLD_NAMES[name], "").strip()


def folders_of_key(user: UserSettings, key: str | None) -> tuple[DiscussionFolders, ...]:
    """The discussions of a key (None: of none), one for each reading of its bytes; files are read and written
    with it if the user encrypts.
    """
    return tuple(
        DiscussionFolders(
            discussions_root(user),
            api_key_hash(reading) if reading else None,
            derive_key(reading, user.name) if reading and user.encrypt_using_api_key else None,
            old_discussions(user),
        )
        for reading in (key_readings(key) if key else (None,))
    )


def folder_of_entry(entry: KeyEntry) -> str | None:
    """As `folder_of_key`, where the key itself is not at hand."""
    return hash_of_digest(entry.sha256) if entry.folder is None else folder_of_key(None, entry.folder)


def count_discussions(user: UserSettings, folder: str | None) -> int:
    """How many discussions of the user are in a key's folder; None: those without a key."""
    return len(_folders(user, folder).ids())


def is_discussion(user: UserSettings, folder: str) -> bool:
    """Whether a chat without a key has this name, so that a key's folder of the name would lie in it."""
    return bool(_folders(user, None).files(folder))


def folders_in_no_entry(user: UserSettings, entries: Collection[KeyEntry]) -> dict[str, int]:
    """Folders of keys that no entry leads to, sorted, with the number of their discussions."""
    known = {folder_of_entry(entry) for entry in entries}
    names = {path.name for base in _folders(user, None).bases for path in _folders_in(base)}
    found = {name: count_discussions(user, name) for name in sorted(names - known)}
    return {name: count for name, count in found.items() if count and not is_discussion(user, name)}


def _folders(user: UserSettings, folder: str | None) -> DiscussionFolders:
    return DiscussionFolders(discussions_root(user), folder, None, old_discussions(user))


def _folders_in(base: Path) -> list[Path]:
    """Those whose names a key's folder may have."""
    try:
        return [path for path in base.iterdir() if path.is_dir() and is_key_folder(path.name)]
    except OSError:
        return []
