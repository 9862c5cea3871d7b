"""What every action of `--memory` works with: the user, the key's folders, and what the command line says.

Source: spec memory.md 15, operate.md 6.
"""

from __future__ import annotations

import sqlite3
from argparse import Namespace
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from Middleware.common.asker import ANYBODY, Asker
from Middleware.common.errors import ConfigMissing, MiddlewareError
from Middleware.common.instance_global_variables import launch_facts
from Middleware.common.request_context import RequestContext
from Middleware.config.key_file import KeyEntry, digest_of, mixed_pair
from Middleware.config.key_ring import keys_path, load_key_file
from Middleware.config.loader import tree_of
from Middleware.config.users import UserSettings, load_user, pointer_user
from Middleware.services.data_folders import discussions_root, old_discussions
from Middleware.services.discussion_folders import ArchiveRefused, DiscussionFolders
from Middleware.services.discussion_store import reason_of
from Middleware.services.key_folders import KEY, folder_of_entry, folders_of_key, key_in

FAULTS = (MiddlewareError, OSError, ValueError, sqlite3.Error)
"""What is told in one sentence: the discussion, a file or the disk is at fault."""


@dataclass(frozen=True, slots=True)
class Wishes:
    """The options of the command line. `key_name`: whose discussions, by the name in the keys file."""

    preview: bool = False
    matching: str = ""
    for_good: bool = False
    keep_going: bool = False
    key_name: str = ""

    @classmethod
    def of(cls, arguments: Namespace) -> Wishes:
        """What is not there was not wished for."""
        given = vars(arguments)
        return cls(
            bool(given.get("preview")),
            given.get("matching") or "",
            bool(given.get("for_good")),
            bool(given.get("keep_going")),
            given.get("memory_key") or "",
        )

    def options(self) -> list[str]:
        """Those that are given and not for every action."""
        given = {"--matching": self.matching, "--for-good": self.for_good, "--keep-going": self.keep_going}
        return [name for name, value in given.items() if value]


@dataclass(frozen=True, slots=True)
class Desk:
    """What every action works with. `readings`: the folders of the key, by each reading of its bytes."""

    user: UserSettings
    request: RequestContext
    readings: tuple[DiscussionFolders, ...]
    wishes: Wishes

    @property
    def preview(self) -> bool:
        """Whether to show what would be done, and do nothing."""
        return self.wishes.preview

    @property
    def folders(self) -> DiscussionFolders:
        """Where new discussions go."""
        return self.readings[0]

    def folders_of(self, discussion_id: str) -> DiscussionFolders:
        """Where a discussion is, or would be made."""
        return next((each for each in self.readings if each.files(discussion_id)), self.folders)

    def discussions(self) -> Iterator[tuple[DiscussionFolders, str]]:
        """All there are."""
        return ((each, discussion_id) for each in self.readings for discussion_id in each.ids())


def sentence_of(error: BaseException) -> str:
    """What one of FAULTS says to the user."""
    return reason_of(error) if isinstance(error, OSError | sqlite3.Error) else str(error)


def desk_of(wishes: Wishes) -> Desk:
    """For the user of the launch and the key in the environment. Raises what is one of FAULTS."""
    facts = launch_facts()
    snapshot = tree_of(facts.config_directory).snapshot()
    user = load_user(snapshot, facts.users[0] if facts.users else pointer_user(snapshot))
    key = key_in(KEY) or None
    entry = _entry(key, wishes.key_name)
    asker = ANYBODY if entry is None else Asker(entry.name, key=key, entry=entry)
    request = RequestContext(
        "memory", user.name, "openaichatcompletion", snapshot=snapshot, api_key=key, asker=asker
    )
    _refuse_no_folder(discussions_root(user))
    return Desk(user, request, _readings(user, key, entry), wishes)


def _entry(key: str | None, name: str) -> KeyEntry | None:
    """The entry of the key, or of the name; None: the keys file has none, or there is no such file.

    Raises ConfigError, and Refused for a name that is not there or is another key's.
    """
    path = keys_path(launch_facts())
    try:
        entries = load_key_file(path)
    except ConfigMissing:
        entries = ()
    digest = digest_of(key) if key else ""
    if not name:
        return next((entry for entry in entries if entry.sha256 == digest), None)
    named = next((entry for entry in entries if entry.name == name), None)
    if named is None:
        known = ", ".join(entry.name for entry in entries) or "none"
        raise ArchiveRefused(f"there is no key {name!r} in {path}; there are: {known}")
    if key and named.sha256 != digest:
        raise ArchiveRefused(f"the key in {KEY} is not that of {name}; give one of the two")
    return named


def _readings(user: UserSettings, key: str | None, entry: KeyEntry | None) -> tuple[DiscussionFolders, ...]:
    """The folders of a key, as a request with it finds them. Raises Refused where files cannot be read."""
    if entry is None or (entry.folder is None and key):
        return folders_of_key(user, key)
    if user.encrypt_using_api_key:
        if entry.folder is not None:
            raise ArchiveRefused(mixed_pair(entry.name, user.name))
        raise ArchiveRefused(f"user {user.name} encrypts; give the key of {entry.name} in {KEY}")
    return (DiscussionFolders(discussions_root(user), folder_of_entry(entry), None, old_discussions(user)),)


def _refuse_no_folder(root: Path) -> None:
    """A file in its place would look like a folder without discussions."""
    if root.exists() and not root.is_dir():
        raise ArchiveRefused(f"{root} is a file, allowed: the folder of the discussions")


@dataclass(frozen=True, slots=True)
class Action:
    """`wants`: what stands after its name, in words; `least`, `most`: how many words that are. `options`:
    those of the command line that it takes, beside `--preview`.
    """

    work: Callable[..., int]
    wants: str
    least: int
    most: int
    options: tuple[str, ...] = ()
