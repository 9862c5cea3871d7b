"""What a user looks up and corrects in the memory of a discussion: search, edit, forget, pin, copy, undo.

The command and the console call these functions; each gives a value that says what was done, or with
`preview` what would be. A correction holds the discussion's lock, is done whole or not at all, and keeps what
was before for `undo`. A memory is called by its number: `f12` the 12th file memory, `v40` the vector memory
with the id 40; then there are `summary` and `state`. Source: spec operate.md 6.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from glob import escape
from pathlib import Path

from Middleware.common.errors import MiddlewareError
from Middleware.services.discussion_folders import NAMES, ArchiveRefused, correct
from Middleware.services.discussion_store import SUMMARY, ChunkList, DiscussionStore, Entry
from Middleware.services.file_memories import FileMemories
from Middleware.utilities.hashing_utils import sha256_hex
from Middleware.utilities.text_utils import is_unspaced, without_halves
from Middleware.workflows.memory.reader import STATE_DOCUMENT, MemoryReader, settle_document, texts_of
from Middleware.workflows.memory.vector_corrections import VectorCorrections
from Middleware.workflows.memory.vector_store import VectorDatabase

SUMMARY_NUMBER, STATE_NUMBER = "summary", "state"
_NUMBER = re.compile(r"(?P<kind>[fv])(?P<number>[1-9]\d{0,15})|summary|state")
_WORD = re.compile(r"\w+")
_WORDS_IN_A_ROW, _CHARACTERS_IN_A_ROW = 5, 12
"""So many must be the same elsewhere to say that a text is still there; characters where no blanks are."""
_SUM_DIGITS = 12

EmbedText = Callable[[str], Mapping[str, Sequence[float]]]
"""A text to its vectors, by model. Raises MiddlewareError, ValueError."""


class NoSuchMemory(ArchiveRefused):
    """Nothing has the number, or nothing any longer."""


class MemoryChanged(ArchiveRefused):
    """What was seen before is no longer so."""


@dataclass(frozen=True, slots=True)
class Remembered:
    """One thing that memory holds. `date`: of a vector memory, UTC, ISO 8601."""

    number: str
    text: str
    is_pinned: bool = False
    date: str = ""

    @property
    def sum(self) -> str:
        """The first 12 hex digits of the SHA-256 of its text, by which one that was changed is known."""
        return sha256_hex(self.text)[:_SUM_DIGITS]


@dataclass(frozen=True, slots=True)
class Edited:
    """`elsewhere`: what still holds the old text. `no_vector`: why the new text got none ("": it needs none,
    or has one).
    """

    old: Remembered
    text: str
    elsewhere: tuple[Remembered, ...] = ()
    no_vector: str = ""


@dataclass(frozen=True, slots=True)
class Forgotten:
    """`gone`: the memories, as they were. `already`: numbers of those that had been forgotten before.
    `elsewhere`: what still holds the text. `unsure`: numbers of those of which it is not known what they were
    made of, so that a rebuild may bring them back. `damaged`: files that were put aside as damaged and may
    hold the text.
    """

    gone: tuple[Remembered, ...]
    already: tuple[str, ...] = ()
    elsewhere: tuple[Remembered, ...] = ()
    unsure: tuple[str, ...] = ()
    damaged: tuple[Path, ...] = ()


@dataclass(frozen=True, slots=True)
class Undone:
    """`state`: the UTC time from which things are again. `old`, `new`: how many memories there were, and
    are.
    """

    state: str
    old: int
    new: int


def is_memory(number: str) -> bool:
    """Whether it is the number of a file memory or a vector memory."""
    return number[:1] in ("f", "v") and number[1:].isdecimal()


def fold(text: str) -> str:
    """A text as it is compared: small letters, single blanks."""
    return " ".join(text.casefold().split())


class Corrections:
    """For one discussion, which must be there. `embed`: None where nobody asks for vectors. `seen`: number ->
    `sum` of what somebody saw under it; if it is another text by now, it is not changed. `kept`: the state
    before the last correction, as `undo` puts it back; empty: nothing was corrected.

    Methods raise ArchiveRefused (what was asked for cannot be done), NoSuchMemory and MemoryChanged among it,
    Forbidden (another key), OSError, `sqlite3.Error`.
    """

    def __init__(
        self, store: DiscussionStore, embed: EmbedText | None = None, seen: Mapping[str, str] | None = None
    ) -> None:
        self._store, self._embed, self._seen = store, embed, seen or {}
        self.kept = ""
        self._files, self._vectors = FileMemories(store), VectorCorrections(store)
        self._reader = MemoryReader(store)

    # --- looking ---

    def all(self) -> list[Remembered]:
        """All that memory holds: file memories and vector memories, each oldest first, summary, state
        document.
        """
        return [*self._all_files(), *self._all_facts(), *self._texts()]

    def _all_files(self) -> Iterator[Remembered]:
        pinned = set(self._files.pinned())
        for place, entry in enumerate(self._files.load()):
            if not entry.is_forgotten:
                yield Remembered(f"f{place + 1}", entry.text, place in pinned)

    def _all_facts(self) -> Iterator[Remembered]:
        facts, pinned = self._vectors.facts()
        for fact in facts:
            yield Remembered(f"v{fact.id}", fact.text, fact.id in pinned, fact.date)

    def _texts(self) -> Iterator[Remembered]:
        if summary := "\n".join(texts_of(self._reader.summary_entries())):
            yield Remembered(SUMMARY_NUMBER, summary)
        if document := (self._store.read_text(STATE_DOCUMENT) or "").strip():
            yield Remembered(STATE_NUMBER, document)

    def search(self, text: str) -> list[Remembered]:
        """All that holds `text`, whatever its case and its blanks."""
        wanted = fold(text)
        if not wanted:
            raise ArchiveRefused("the text to search for is blank")
        return [each for each in self.all() if wanted in fold(each.text)]

    # --- changing ---

    def edit(self, number: str, text: str, *, preview: bool = False) -> Edited:
        """Give a memory, the summary or the state document another text. Blank ones are refused."""
        text = without_halves(text).strip()
        if not text:
            raise ArchiveRefused("the new text is blank; to remove a memory, forget it")
        kind, place = _parse_number(number)
        vectors, no_vector = self._embedded(text) if kind == "v" and not preview else ({}, "")
        with self._turn(preview):
            old = self._known(number, may_be_missing=kind == STATE_NUMBER)
            elsewhere = self._holding([old.text], [number])
            if not preview:
                with correct(self._store) as self.kept:
                    self._put_text(kind, place, text, vectors)
        return Edited(old, text, elsewhere, no_vector)

    def _put_text(self, kind: str, place: int, text: str, vectors: Mapping[str, Sequence[float]]) -> None:
        if kind == "f":
            self._files.edit(place - 1, text)
        elif kind == "v":
            self._vectors.edit(place, text, vectors)
        elif kind == SUMMARY_NUMBER:
            self._put_summary(text)
        else:
            if VectorDatabase(self._store).exists:
                # a merge that was killed behind its write must not bring its facts again
                settle_document(VectorDatabase(self._store), self._store.read_text(STATE_DOCUMENT) or "")
            self._store.update_text(STATE_DOCUMENT, lambda _: text)

    def _put_summary(self, text: str) -> None:
        covered, covered_hash = self._reader.count_summarised(), self._reader.summary_entries()[-1].hash
        if covered:
            self._reader.save_summary(text, covered - 1, covered_hash)
        else:
            ChunkList(self._store, SUMMARY).replace(Entry(text, covered_hash))

    def _embedded(self, text: str) -> tuple[Mapping[str, Sequence[float]], str]:
        """Vectors of a text, and why there are none."""
        if self._embed is None:
            return {}, ""
        try:
            return self._embed(text), ""
        except (MiddlewareError, ValueError) as error:
            return {}, str(error)

    def forget(
        self,
        numbers: Sequence[str] = (),
        *,
        matching: str = "",
        for_good: bool = False,
        preview: bool = False,
    ) -> Forgotten:
        """Remove memories: those with these numbers and those that hold the text `matching`.

        No memory is made again of what they were made of. `for_good`: what was kept to undo, backups and free
        pages of the database go too.
        """
        with self._turn(preview):
            gone, already = self._chosen(numbers, matching)
            texts = [matching] if matching else [each.text for each in gone]
            elsewhere = self._holding(texts, [each.number for each in gone])
            chosen = [_parse_number(each.number) for each in gone]
            unsure = self._vectors.without_source([place for kind, place in chosen if kind == "v"])
            if not preview and gone:
                with correct(self._store) as self.kept:
                    self._remove(chosen)
            damaged = self._remove_copies() if for_good and not preview else ()
        names = tuple(f"v{each}" for each in sorted(unsure))
        return Forgotten(tuple(gone), tuple(already), elsewhere, names, damaged)

    def _chosen(self, numbers: Sequence[str], matching: str) -> tuple[list[Remembered], list[str]]:
        """The memories to be forgotten, and the numbers of those that are already."""
        wanted = dict.fromkeys(numbers)
        if matching:
            found = [each.number for each in self.search(matching) if is_memory(each.number)]
            if not found:
                raise ArchiveRefused(f"no memory contains {matching!r}")
            wanted |= dict.fromkeys(found)
        gone, already = [], []
        for number in wanted:
            if number in (SUMMARY_NUMBER, STATE_NUMBER):
                raise ArchiveRefused(f"{number}: only memories can be forgotten; edit the {number} instead")
            if self._is_forgotten(number):
                already.append(number)
            else:
                gone.append(self._known(number))
        return gone, already

    def _is_forgotten(self, number: str) -> bool:
        kind, place = _parse_number(number)
        if kind == "v":
            known = {fact.id for fact in self._vectors.facts()[0]}
            return place not in known and place in self._vectors.forgotten_ids()
        return any(entry.is_forgotten for entry in self._files.load()[place - 1 : place])

    def _remove(self, chosen: Sequence[tuple[str, int]]) -> None:
        if files := [place - 1 for kind, place in chosen if kind == "f"]:
            self._files.forget(files)
        if facts := [place for kind, place in chosen if kind == "v"]:
            self._vectors.forget(facts)

    def _remove_copies(self) -> tuple[Path, ...]:
        """Remove what still holds what was forgotten; files that were put aside as damaged stay."""
        self._store.kept_states.remove()
        damaged = []
        for path in [self._store.path(name) for name in NAMES]:
            path.with_name(f"{path.name}.bak").unlink(missing_ok=True)
            damaged += sorted(path.parent.glob(f"{escape(path.name)}.corrupt-*"))
        self._vectors.wipe_free_pages()
        return tuple(damaged)

    def pin(self, number: str, *, pinned: bool = True, preview: bool = False) -> Remembered:
        """Pin a memory, as the newest pin, or take its pin off; how it was."""
        with self._turn(preview):
            kind, place = _parse_number(number)
            if kind not in ("f", "v"):
                raise ArchiveRefused(f"{number}: only memories can be pinned")
            old = self._known(number)
            if not preview and (pinned or old.is_pinned):
                with correct(self._store) as self.kept:
                    if kind == "v":
                        self._vectors.set_pin(place, pinned=pinned)
                    else:
                        others = [each for each in self._files.pinned() if each != place - 1]
                        self._files.set_pins([place - 1, *others] if pinned else others)
        return old

    def undo(self, state: str | None = None, *, preview: bool = False) -> Undone:
        """Put back what was before the newest correction; what was remembered since then goes with it.

        `state`: what must be the newest (`kept`); None: whichever it is.
        """
        with self._turn(preview):
            states = self._store.kept_states
            if state is not None and states.states[-1:] != [state]:
                raise MemoryChanged("this is no longer the newest correction, so it was not undone")
            if not states.states:
                raise ArchiveRefused("there is no correction to undo")
            newest, old = states.states[-1], self._count()
            if preview:
                return Undone(newest, old, old)
            states.begin(newest)
            states.put_back(newest)
            states.drop(newest)
            return Undone(newest, old, self._count())

    def _count(self) -> int:
        return len(self._reader.memories()) + VectorDatabase(self._store).count()

    # --- parts ---

    def _turn(self, preview: bool) -> AbstractContextManager[None]:
        """The discussion's lock; a preview needs none."""
        return nullcontext() if preview else self._store.lock()

    def _known(self, number: str, *, may_be_missing: bool = False) -> Remembered:
        """What has this number."""
        seen = self._seen.get(number)
        for each in self.all():
            if each.number == number:
                if seen not in (None, each.sum):
                    raise MemoryChanged(f"the text of {number} was changed meanwhile, so nothing was done")
                return each
        if may_be_missing and seen is None:
            return Remembered(number, "")
        raise NoSuchMemory(f"there is no {number} in this discussion")

    def _holding(self, texts: Sequence[str], leave_out: Sequence[str]) -> tuple[Remembered, ...]:
        """What holds one of the `texts`, or several words of it in a row, but for those numbers."""
        wanted = {piece for text in texts for piece in _pieces(text)}
        whole = [folded for text in texts if (folded := _words(text))]
        return tuple(
            each
            for each in self.all()
            if each.number not in leave_out
            and (
                any(text in _words(each.text) for text in whole) or not wanted.isdisjoint(_pieces(each.text))
            )
        )


def _parse_number(number: str) -> tuple[str, int]:
    """(`f` or `v`, the number), or (`summary` or `state`, 0). Raises ArchiveRefused."""
    found = _NUMBER.fullmatch(number)
    if found is None:
        raise ArchiveRefused(f"found {number!r}, allowed: a number such as f12 or v40, summary, state")
    return (found["kind"], int(found["number"])) if found["kind"] else (number, 0)


def _words(text: str) -> str:
    """The words of a text in small letters, with single blanks between them."""
    return " ".join(_WORD.findall(text.casefold()))


def _pieces(text: str) -> Iterator[str]:
    """Words of a text that stand in a row; of a text without blanks, characters."""
    words = _words(text).split()
    for at in range(len(words) - _WORDS_IN_A_ROW + 1):
        yield " ".join(words[at : at + _WORDS_IN_A_ROW])
    for run in filter(is_unspaced, words):
        for at in range(len(run) - _CHARACTERS_IN_A_ROW + 1):
            yield run[at : at + _CHARACTERS_IN_A_ROW]
