"""Lists of texts, each with the hash of the last thing it covers: memories, summary, compactor state.

The only code that knows the form of these files. Source: spec memory.md 3.2, 18.1.
"""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from typing import Any

from Middleware.services.discussion_store import DiscussionStore, FolderUnusable

MEMORIES = "memories.json"
SUMMARY = "chat_summary.json"

_Stamp = tuple[str, int, int, int]
"""Path, inode, size and time of change: another write has another one."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One text. `hash`: of the last message (in the summary: of the last memory) that it covers."""

    text: str
    hash: str


Entries = tuple[Entry, ...]


class ParsedLists:
    """Plain lists that were parsed already; the newest few. Thread-safe. Texts of encrypted files never."""

    def __init__(self, limit: int = 8) -> None:
        self._limit = limit
        self._lists: OrderedDict[_Stamp, Entries] = OrderedDict()
        self._guard = threading.Lock()

    def get(self, stamp: _Stamp) -> Entries | None:
        with self._guard:
            if stamp in self._lists:
                self._lists.move_to_end(stamp)
            return self._lists.get(stamp)

    def put(self, stamp: _Stamp, entries: Entries) -> None:
        with self._guard:
            self._lists[stamp] = entries
            while len(self._lists) > self._limit:
                self._lists.popitem(last=False)


@cache
def parsed_lists() -> ParsedLists:
    """What this process has parsed."""
    return ParsedLists()


class ChunkList:
    """One such file of a discussion, oldest entry first."""

    def __init__(self, store: DiscussionStore, name: str) -> None:
        self._store, self._name = store, name

    @property
    def exists(self) -> bool:
        return os.path.exists(self._store.path(self._name))

    def load(self) -> Entries:
        """The entries; none when there is no file, or one of another form (it is set aside).

        Raises Forbidden for a file of another key.
        """
        stamp = None if self._store.is_encrypted else self._stamp()
        if stamp is not None and (known := parsed_lists().get(stamp)) is not None:
            return known
        entries: Entries = self._store.read_json(self._name, (), entries_of)
        if stamp is not None:
            parsed_lists().put(stamp, entries)
        return entries

    def open(self) -> Entries:
        """As `load`, but a file that is missing is made, empty (it ends the time of rebuilding)."""
        if not self.exists:
            with suppress(FolderUnusable):  # without a folder there are no entries either
                self._store.update_json(self._name, lambda value: [] if value is None else None)
        return self.load()

    def update(self, change: Callable[[Entries], Sequence[Entry] | None]) -> Entries:
        """Change the entries under the discussion's lock (None: leave the file); what is stored then."""

        stored: Entries = ()

        def apply_change(entries: Entries) -> Any:
            nonlocal stored
            new = change(entries)
            stored = entries if new is None else tuple(new)
            if new is None:
                return None
            return [{"text_block": entry.text, "hash": entry.hash} for entry in new]

        self._store.update_json(self._name, apply_change, (), entries_of)
        return stored

    def append(self, entry: Entry, *, after: str | None) -> bool:
        """Add an entry if the newest one has the hash `after` (None: if there is none); tells whether."""
        added = False

        def change(entries: Entries) -> Sequence[Entry] | None:
            nonlocal added
            added = newest_hash(entries) == after
            return (*entries, entry) if added else None

        self.update(change)
        return added

    def replace(self, *entries: Entry) -> None:
        """Make these the whole list."""
        self.update(lambda _: entries)

    def _stamp(self) -> _Stamp | None:
        path = self._store.path(self._name)
        try:
            facts = path.stat()
        except OSError:  # what cannot be looked at is read, and whoever reads it says why not
            return None
        return str(path), facts.st_ino, facts.st_size, facts.st_mtime_ns


def entries_of(value: Any) -> Entries:
    """The form of such a file. Raises TypeError, ValueError."""
    if not isinstance(value, list):
        raise TypeError(f"found {_kind(value)}, allowed: a list of objects")
    return tuple(_entry(index, item) for index, item in enumerate(value))


def _entry(index: int, item: Any) -> Entry:
    text, covered = (item.get("text_block"), item.get("hash")) if isinstance(item, dict) else (None, None)
    if not isinstance(text, str) or not isinstance(covered, str):
        raise ValueError(f"entry {index + 1}: an object with the texts `text_block` and `hash` is needed")
    return Entry(text, covered)


def newest_hash(entries: Sequence[Entry]) -> str | None:
    """The hash of the last entry, None when there is none."""
    return entries[-1].hash if entries else None


def _kind(value: Any) -> str:
    return "an object" if isinstance(value, dict) else f"a {type(value).__name__}"
