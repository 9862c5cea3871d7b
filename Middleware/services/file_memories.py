"""The file memories of a discussion, and what each of them covers: `memories.json` and `memory_ends.json`.

The hash that an entry carries is no place: people say "continue" more than once. So the second file, which
only we know, has a line for each entry, in order: the hashes of the messages that it covers. Entries of other
programs have no line; then the hash is all that is known. The line is written first: a line without its entry
counts for nothing. Source: spec memory.md 3.2, 18.2 (18, 26).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from Middleware.services.discussion_store import (
    MEMORIES,
    MEMORY_ENDS,
    ChunkList,
    DiscussionStore,
    Entries,
    Entry,
)
from Middleware.utilities.hashing_utils import sha256_hex

BEFORE = 8
"""So many messages, up to the last one that an entry covers, tell its place."""


@dataclass(frozen=True, slots=True)
class End:
    """What is known of one entry. `hash`: of the last message that it covers, as the entry has it.

    `before`: hash of the last messages up to there ("": not known). `messages`: hashes of all that it covers,
    in order (none: not known); `after`: of the message before them ("": none, or not known). `breaks`: places
    in `messages` of which the message before is another one than the one that stands there: a branch began.
    `condensed`: condensing is done up to this entry. `summary`: hash of the summary that ends with this
    entry.
    """

    hash: str
    before: str = ""
    messages: tuple[str, ...] = ()
    after: str = ""
    condensed: bool = False
    summary: str = ""
    breaks: tuple[tuple[int, str], ...] = ()

    @property
    def covered_hashes(self) -> tuple[str, ...]:
        """Hashes of the messages that are known to be covered."""
        return self.messages or (self.hash,)

    @property
    def previous(self) -> tuple[str, ...]:
        """For each of `messages`, the hash of the message that stood before it ("": none, or not known)."""
        before = [self.after, *self.messages[:-1]]
        for place, each in self.breaks:
            before[place] = each
        return tuple(before)


Ends = tuple[End, ...]
_TEXTS = (("hash", None), ("before", None), ("after", ""), ("summary", ""))
"""Texts of a line, and what stands for one that is missing; None: it must be there."""


def before_of(hashes: Sequence[str], index: int) -> str:
    """The hash that tells the place of message `index` among the messages with these hashes."""
    return sha256_hex("\n".join(hashes[max(0, index + 1 - BEFORE) : index + 1]))


def end_at(hashes: Sequence[str], start: int, stop: int) -> End:
    """The end of an entry that covers the messages `start` to `stop` (exclusive)."""
    after = hashes[start - 1] if start else ""
    return End(hashes[stop - 1], before_of(hashes, stop - 1), tuple(hashes[start:stop]), after)


def join_ends(ends: Sequence[End]) -> End:
    """What is known of one entry that stands for several."""
    messages = tuple(each for end in ends for each in end.covered_hashes)
    previous = [each for end in ends for each in (end.previous if end.messages else (end.after,))]
    breaks = tuple(
        (place, each) for place, each in enumerate(previous) if place and each and each != messages[place - 1]
    )
    return replace(ends[-1], messages=messages, after=ends[0].after, breaks=breaks)


def align_entries(hashes: Sequence[str], lines: Sequence[End]) -> Ends:
    """The line of each entry, by the hashes of the entries.

    An entry of another program has none. Lines between two entries belong to the later one (the entries were
    condensed by another program); lines behind the last entry belong to entries that are gone.
    """
    found: list[End] = []
    place = 0
    for each in hashes:
        at = next((at for at in range(place, len(lines)) if lines[at].hash == each), None)
        found.append(
            End(each) if at is None else join_ends(lines[place : at + 1]) if at > place else lines[at]
        )
        place = place if at is None else at + 1
    return tuple(found)


def ends_of(value: Any) -> Ends:
    """The form of `memory_ends.json`. Raises TypeError, ValueError."""
    if not isinstance(value, list):
        raise TypeError(f"found a {type(value).__name__}, allowed: a list of objects")
    return tuple(_end(index, item) for index, item in enumerate(value))


def _end(index: int, item: Any) -> End:
    line = item if isinstance(item, dict) else {}
    texts: list[Any] = [line.get(key, default) for key, default in _TEXTS]
    messages = line.get("messages", [])
    if not isinstance(messages, list) or not all(isinstance(each, str) for each in (*texts, *messages)):
        raise ValueError(f"line {index + 1}: an object with the texts `hash` and `before` is needed")
    covered, before, after, summary = texts
    breaks = _breaks(index, line.get("breaks", {}), len(messages))
    return End(covered, before, tuple(messages), after, bool(line.get("condensed")), summary, breaks)


def _breaks(index: int, value: Any, count: int) -> tuple[tuple[int, str], ...]:
    """`{"<place>": "<hash>"}` of a line."""
    places: list[tuple[str, Any]] = [*value.items()] if isinstance(value, dict) else [("", None)]
    if not all(key.isdecimal() and int(key) < count and isinstance(each, str) for key, each in places):
        raise ValueError(f"line {index + 1}: `breaks` is an object of places and hashes")
    return tuple((int(key), each) for key, each in places)


def lines_of(ends: Sequence[End]) -> list[dict[str, Any]]:
    """The value of the file; what is not known of an entry is left out."""
    return [
        {
            "hash": end.hash,
            "before": end.before,
            **({"messages": list(end.messages)} if end.messages else {}),
            **({"after": end.after} if end.after else {}),
            **({"breaks": {str(place): each for place, each in end.breaks}} if end.breaks else {}),
            **({"condensed": True} if end.condensed else {}),
            **({"summary": end.summary} if end.summary else {}),
        }
        for end in ends
    ]


class FileMemories:
    """Both files as one. Every change holds the discussion's lock."""

    def __init__(self, store: DiscussionStore) -> None:
        self._store, self._list = store, ChunkList(store, MEMORIES)

    @property
    def exists(self) -> bool:
        return self._list.exists

    def open(self) -> Entries:
        """The entries, oldest first; a file that is missing is made (it ends the time of rebuilding)."""
        return self._list.open()

    def load(self) -> Entries:
        """The entries, oldest first; leaves no trace. Raises Forbidden for a file of another key."""
        return self._list.load()

    def ends(self, entries: Entries) -> Ends:
        """What each of these entries covers."""
        if not entries:
            return ()
        return align_entries(
            [entry.hash for entry in entries], self._store.read_json(MEMORY_ENDS, (), ends_of)
        )

    def append(self, text: str, end: End, *, after: Entries) -> bool:
        """Add a memory if the entries are still these; tells whether. Their texts may have been edited."""
        with self._store.lock():
            entries = self.load()
            if [entry.hash for entry in entries] != [entry.hash for entry in after]:
                return False
            self._save((*entries, Entry(text, end.hash)), (*self.ends(entries), end))
            return True

    def condense(self, position: int, batch: Entries, text: str) -> bool:
        """Put one entry in the place of `batch`, if that is still there; tells whether."""
        stop = position + len(batch)
        with self._store.lock():
            entries = self.load()
            if entries[position:stop] != batch:
                return False
            ends = self.ends(entries)
            whole = replace(join_ends(ends[position:stop]), condensed=True)
            self._save(
                (*entries[:position], Entry(text, whole.hash), *entries[stop:]),
                (*ends[:position], whole, *ends[stop:]),
            )
            return True

    def condensed_until(self, covered: str) -> int | None:
        """How many entries need no condensing, if the last one's hash is `covered`; None: there is no such
        entry.
        """
        entries = self.load()
        places = [place for place, entry in enumerate(entries) if entry.hash == covered]
        if len(places) > 1:
            ends = self.ends(entries)
            places = [place for place in places if ends[place].condensed][-1:] or places
        return places[0] + 1 if places else None

    def mark_condensed(self) -> str | None:
        """Remember that no entry that there is now needs condensing; the newest one's hash."""
        with self._store.lock():
            ends = self.ends(self.load())
            if not ends:
                return None
            self._save_ends((*ends[:-1], replace(ends[-1], condensed=True)))
            return ends[-1].hash

    def summarised_until(self, summary: Entry) -> int | None:
        """How many entries the summary covers; None: the entry that it ends with is gone."""
        entries = self.load()
        places = [place for place, entry in enumerate(entries) if entry.hash == summary.hash]
        if len(places) > 1:
            ends, mark = self.ends(entries), sha256_hex(summary.text)
            places = [place for place in places if ends[place].summary == mark] or places
        return places[-1] + 1 if places else None

    def mark_summarised(self, summary: Entry, place: int, former: Entries) -> None:
        """Remember that `summary`, about to be stored, ends with the entry that stood at `place`.

        Condensing may have moved it to the front meanwhile. The mark of the `former` summary stays as long as
        that one may still be the stored one.
        """
        with self._store.lock():
            entries = self.load()
            places = [at for at, entry in enumerate(entries) if entry.hash == summary.hash]
            if not places:
                return
            at = max((each for each in places if each <= place), default=places[0])
            kept = {sha256_hex(entry.text) for entry in former}
            ends = [end if end.summary in kept else replace(end, summary="") for end in self.ends(entries)]
            ends[at] = replace(ends[at], summary=sha256_hex(summary.text))
            self._save_ends(ends)

    def take_over(self, other: FileMemories) -> None:
        """Have the memories of another discussion instead of one's own."""
        entries = other.load()
        with self._store.lock():
            self._save(entries, other.ends(entries))

    def _save(self, entries: Sequence[Entry], ends: Sequence[End]) -> None:
        self._save_ends(ends)
        self._list.replace(*entries)

    def _save_ends(self, ends: Sequence[End]) -> None:
        self._store.update_json(MEMORY_ENDS, lambda _: lines_of(ends), (), ends_of)
