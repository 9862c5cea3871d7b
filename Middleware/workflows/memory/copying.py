"""The memories of an old chat go before those of a new one.

They are copied under hashes of their own, which fit no message, so nothing counts as remembered in the new
chat that is not. What was copied once is not copied again. Source: spec operate.md 6.
"""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass

from Middleware.services.discussion_folders import ArchiveRefused, correct
from Middleware.services.discussion_store import (
    SUMMARY,
    ChunkList,
    DiscussionStore,
    Entries,
    Entry,
    an_object,
)
from Middleware.services.file_memories import End, Ends, FileMemories
from Middleware.workflows.memory.file_writer import TRACKER, read_tracker_hash, save_tracker
from Middleware.workflows.memory.reader import STATE_DOCUMENT, MemoryReader
from Middleware.workflows.memory.vector_corrections import VectorCorrections, copied_hash
from Middleware.workflows.memory.vector_rows import MemoryRow
from Middleware.workflows.memory.vector_store import VectorDatabase


@dataclass(frozen=True, slots=True)
class Copied:
    """How many memories were copied (or would be), and whether the summary and the state document were."""

    files: int
    facts: int
    summary: bool
    state: bool


@dataclass(frozen=True, slots=True)
class _Old:
    """What an old chat holds. `ends`: of the `entries`; `pinned`: places in them; `tracker`: hash of the last
    condensed one. `reach`: the newest memory (id) that the state document knows; None: it asks for none.
    """

    discussion_id: str
    entries: Entries
    ends: Ends
    pinned: list[int]
    tracker: str
    summary: Entries
    summarised: int | None
    document: str
    rows: list[MemoryRow]
    pinned_rows: list[int]
    reach: int | None

    def hash_at(self, covered: str, count: int | None) -> str:
        """What stands for `covered` in the copy, if it ends the first `count` entries: the hash of the last
        one of these that is copied.
        """
        kept = [entry.hash for entry in self.entries[: count or 0] if not entry.is_forgotten]
        return copied_hash(self.discussion_id, kept[-1] if kept else covered)


def copy_memories(old: DiscussionStore, new: DiscussionStore, *, preview: bool = False) -> Copied:
    """Put the memories of `old` before those of `new`; summary and state document where `new` has none.

    Whole or not at all; it can be undone in `new`. Raises ArchiveRefused, Forbidden, OSError,
    `sqlite3.Error`.
    """
    if old.folder == new.folder:
        raise ArchiveRefused("a discussion can't be copied to itself")
    with nullcontext() if preview else old.lock():
        found = _read(old)
    with nullcontext() if preview else new.lock():
        copying = _Copying(found, new)
        done = copying.plan(VectorCorrections(new).missing_rows(found.rows, old))
        if not preview and done != Copied(0, 0, False, False):
            with correct(new):
                copying.write()
    return done


def _read(store: DiscussionStore) -> _Old:
    files, reader = FileMemories(store), MemoryReader(store)
    entries = files.load()
    rows, pinned_rows = VectorCorrections(store).rows()
    reach = VectorDatabase(store).unmerged_memories()[0]
    return _Old(
        store.discussion_id,
        entries,
        files.ends(entries),
        files.pinned(),
        read_tracker_hash(store) or "",
        reader.summary_entries(),
        reader.count_summarised(),
        (store.read_text(STATE_DOCUMENT) or "").strip(),
        rows,
        pinned_rows,
        None if reach is None else reach.memory_id,
    )


class _Copying:
    """One copy. `plan` first, then `write`."""

    def __init__(self, old: _Old, new: DiscussionStore) -> None:
        self._old, self._new = old, new
        self._files, self._vectors = FileMemories(new), VectorCorrections(new)
        known = {entry.hash for entry in self._files.load()}
        self._places = [
            place
            for place, entry in enumerate(old.entries)
            if not entry.is_forgotten and copied_hash(old.discussion_id, entry.hash) not in known
        ]
        self._rows: list[MemoryRow] = []

    def plan(self, rows: list[MemoryRow]) -> Copied:
        """`rows`: those that are not there yet."""
        self._rows = rows
        return Copied(
            len(self._places),
            len(rows),
            bool(self._old.summary) and not ChunkList(self._new, SUMMARY).load(),
            bool(self._old.document) and not (self._new.read_text(STATE_DOCUMENT) or "").strip(),
        )

    def write(self) -> None:
        done, old = self.plan(self._rows), self._old
        if self._places:
            self._write_files()
        if self._rows:
            places = {row.id: place for place, row in enumerate(self._rows)}
            pinned = [places[each] for each in old.pinned_rows if each in places]
            self._vectors.put_first(self._rows, self._new.discussion_id, pinned)
        if done.summary:
            covered = old.hash_at(old.summary[-1].hash, old.summarised)
            ChunkList(self._new, SUMMARY).replace(Entry(old.summary[-1].text, covered))
        if done.state:
            self._new.update_text(STATE_DOCUMENT, lambda _: old.document)
            if self._rows and old.reach is not None:
                self._vectors.set_reach(sum(row.id <= old.reach for row in self._rows))

    def _write_files(self) -> None:
        old = self._old
        hashes = [copied_hash(old.discussion_id, old.entries[place].hash) for place in self._places]
        entries = [
            Entry(old.entries[place].text, each) for place, each in zip(self._places, hashes, strict=True)
        ]
        ends = [
            End(each, condensed=old.ends[place].condensed, summary=old.ends[place].summary, copied=True)
            for place, each in zip(self._places, hashes, strict=True)
        ]
        pinned = [self._places.index(place) for place in old.pinned if place in self._places]
        self._files.put_first(entries, ends, pinned)
        if old.tracker and not self._new.read_json(TRACKER, {}, an_object):
            places = [place for place, entry in enumerate(old.entries) if entry.hash == old.tracker]
            if places:
                save_tracker(self._new, old.hash_at(old.tracker, places[-1] + 1))
