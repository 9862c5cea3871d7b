"""The file memories of a discussion, what each of them covers and which are pinned: `memories.json`,
`memory_ends.json` and `memory_pins.json`.

The hash that an entry carries is no place: people say "continue" more than once. So the second file, which
only we know, has a line for each entry, in order: the hashes of the messages that it covers. Entries of other
programs have no line; then the hash is all that is known. The line is written first: a line without its entry
counts for nothing. A memory that was forgotten stays as an entry without text. Source: spec memory.md 3.2,
18.2 (18, 26), operate.md 6.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Any

from Middleware.services.discussion_store import (
    MEMORIES,
    MEMORY_ENDS,
    MEMORY_PINS,
    ChunkList,
    DiscussionStore,
    Entries,
    Entry,
)
from Middleware.utilities.hashing_utils import sha256_hex

BEFORE = 8
"""So many messages, up to the last one that an entry covers, tell its place."""
MOST_PINS_FIRST = 8
"""So many pinned memories come before what a limit lets through."""


@dataclass(frozen=True, slots=True)
class End:
    """What is known of one entry. `hash`: of the last message that it covers, as the entry has it.

    `before`: hash of the last messages up to there ("": not known). `messages`: hashes of all that it covers,
    in order (none: not known); `after`: of the message before them ("": none, or not known). `breaks`: places
    in `messages` of which the message before is another one than the one that stands there: a branch began.
    `condensed`: condensing is done up to this entry. `summary`: hash of the summary that ends with this
    entry.
    `forgotten`: first and last place (exclusive) in `covered_hashes` of messages of which nothing is to be
    remembered. `copied`: it comes from another discussion and covers no message of this one.
    """

    hash: str
    before: str = ""
    messages: tuple[str, ...] = ()
    after: str = ""
    condensed: bool = False
    summary: str = ""
    breaks: tuple[tuple[int, str], ...] = ()
    forgotten: tuple[tuple[int, int], ...] = ()
    copied: bool = False

    @property
    def covered_hashes(self) -> tuple[str, ...]:
        """Hashes of the messages that are known to be covered."""
        return self.messages or (() if self.copied else (self.hash,))

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
    own = [end for end in ends if end.covered_hashes]
    messages = tuple(each for end in own for each in end.covered_hashes)
    previous = [each for end in own for each in (end.previous if end.messages else (end.after,))]
    breaks = tuple(
        (place, each) for place, each in enumerate(previous) if place and each and each != messages[place - 1]
    )
    starts = accumulate((len(end.covered_hashes) for end in own), initial=0)
    forgotten = tuple(
        (at + first, at + stop) for end, at in zip(own, starts, strict=False) for first, stop in end.forgotten
    )
    return replace(
        ends[-1],
        messages=messages,
        after=own[0].after if own else "",
        breaks=breaks,
        forgotten=forgotten,
        copied=not own,
    )


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
        raise ValueError(f"line {index + 1}: expected an object with the strings `hash` and `before`")
    covered, before, after, summary = texts
    return End(
        covered,
        before,
        tuple(messages),
        after,
        bool(line.get("condensed")),
        summary,
        _breaks(index, line.get("breaks", {}), len(messages)),
        _ranges(index, line.get("forgotten", [])),
        bool(line.get("copied")),
    )


def _ranges(index: int, value: Any) -> tuple[tuple[int, int], ...]:
    """`[[<first>, <last, exclusive>], ...]` of a line."""
    pairs: list[Any] = value if isinstance(value, list) else [None]
    if not all(map(_is_pair, pairs)):
        raise ValueError(f"line {index + 1}: `forgotten` is a list of pairs of places")
    return tuple((pair[0], pair[1]) for pair in pairs)


def _is_pair(value: Any) -> bool:
    return isinstance(value, list) and len(value) == 2 and all(type(place) is int for place in value)


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
            **({"forgotten": [list(each) for each in end.forgotten]} if end.forgotten else {}),
            **({"copied": True} if end.copied else {}),
        }
        for end in ends
    ]


def remembered(entries: Sequence[Entry]) -> Entries:
    """The entries without those that were forgotten."""
    return tuple(entry for entry in entries if not entry.is_forgotten)


@dataclass(frozen=True, slots=True)
class Pin:
    """A pinned entry: its hash, and `before` of its end ("": not known)."""

    hash: str
    before: str


def pins_of(value: Any) -> tuple[Pin, ...]:
    """The form of `memory_pins.json`, newest pin last. Raises TypeError, ValueError."""
    if not isinstance(value, list):
        raise TypeError(f"found a {type(value).__name__}, allowed: a list of objects")
    return tuple(_pin(index, item) for index, item in enumerate(value))


def _pin(index: int, item: Any) -> Pin:
    line = item if isinstance(item, dict) else {}
    covered, before = line.get("hash"), line.get("before")
    if not isinstance(covered, str) or not isinstance(before, str):
        raise ValueError(f"pin {index + 1}: expected an object with the strings `hash` and `before`")
    return Pin(covered, before)


def pinned_places(pins: Sequence[Pin], ends: Sequence[End]) -> list[int]:
    """Places of the pinned entries, newest pin first; a pin of an entry that is gone has none."""
    found: list[int] = []
    for pin in reversed(pins):
        places = [at for at, end in enumerate(ends) if end.hash == pin.hash and at not in found]
        places = [at for at in places if ends[at].before == pin.before] or places
        found += places[:1]
    return found


class FileMemories:
    """The files as one. Every change holds the discussion's lock."""

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
        return align_entries([entry.hash for entry in entries], self.lines()) if entries else ()

    def lines(self) -> Ends:
        """What is known of entries, also of such that are gone."""
        lines: Ends = self._store.read_json(MEMORY_ENDS, (), ends_of)
        return lines

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
            if entries[position:stop] != batch or not set(range(position, stop)).isdisjoint(self.pinned()):
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

    def pinned(self) -> list[int]:
        """Places of the pinned entries, newest pin first."""
        pins = self._store.read_json(MEMORY_PINS, (), pins_of)
        return pinned_places(pins, self.ends(self.load())) if pins else []

    def set_pins(self, places: Sequence[int]) -> None:
        """Pin the entries at these places, newest pin first, and no others."""
        with self._store.lock():
            ends = self.ends(self.load())
            lines = [{"hash": ends[at].hash, "before": ends[at].before} for at in reversed(places)]
            self._store.update_json(MEMORY_PINS, lambda old: lines if lines or old else None, (), pins_of)

    def has_changed(self, batch: Sequence[Entry]) -> bool:
        """Whether one of these entries was forgotten or edited since; condensing them does not count."""
        entries = self.load()
        known, ends = set(entries), self.ends(entries)
        now = {end.hash for end in ends} - {end.hash for end in ends if end.condensed}
        return any(entry not in known and entry.hash in now for entry in batch)

    def edit(self, place: int, text: str) -> None:
        """Give an entry another text."""
        with self._store.lock():
            entries = self.load()
            self._save(
                (*entries[:place], replace(entries[place], text=text), *entries[place + 1 :]),
                self.ends(entries),
            )

    def forget(self, places: Collection[int]) -> None:
        """Leave of these entries nothing but what they cover, also in the backup; they are pinned no more."""
        with self._store.lock():
            entries = self.load()
            ends = [
                replace(end, forgotten=((0, len(end.covered_hashes)),) if end.covered_hashes else ())
                if at in places
                else end
                for at, end in enumerate(self.ends(entries))
            ]
            self.set_pins([at for at in self.pinned() if at not in places])
            blank = [replace(entry, text="") if at in places else entry for at, entry in enumerate(entries)]
            self._save(blank, ends)
            for name in (MEMORIES, MEMORY_ENDS):
                self._store.settle_backup(name)

    def put_first(self, entries: Sequence[Entry], ends: Sequence[End], pinned: Sequence[int]) -> None:
        """Have these memories before one's own, behind those that were copied before.

        `pinned`: places in `entries` of those that are, newest pin first; pins of one's own count as newer.
        """
        with self._store.lock():
            own, pins = self.load(), self.pinned()
            own_ends = self.ends(own)
            at = next((place for place, end in enumerate(own_ends) if not end.copied), len(own))
            self._save((*own[:at], *entries, *own[at:]), (*own_ends[:at], *ends, *own_ends[at:]))
            own_pins = [place if place < at else place + len(entries) for place in pins]
            self.set_pins([*own_pins, *(at + place for place in pinned)])

    def take_over(self, other: FileMemories) -> None:
        """Have the memories of another discussion instead of one's own, but for those that were copied."""
        entries = other.load()
        with self._store.lock():
            own = self.load()
            copied = [pair for pair in zip(own, self.ends(own), strict=True) if pair[1].copied]
            self._save(
                (*(entry for entry, _ in copied), *entries),
                (*(end for _, end in copied), *other.ends(entries)),
            )

    def _save(self, entries: Sequence[Entry], ends: Sequence[End]) -> None:
        self._save_ends(ends)
        self._list.replace(*entries)

    def _save_ends(self, ends: Sequence[End]) -> None:
        self._store.update_json(MEMORY_ENDS, lambda _: lines_of(ends), (), ends_of)
