"""What nodes read of a discussion's memories, as text. Never calls a model, makes no file by reading.

Source: spec memory.md 9, 18.2 (18, 23, 27), operate.md 6.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Sequence
from dataclasses import replace

from Middleware.common.types import Messages
from Middleware.services.discussion_store import SUMMARY, ChunkList, DiscussionStore, Entries, Entry
from Middleware.services.file_memories import MOST_PINS_FIRST, FileMemories, remembered
from Middleware.utilities.hashing_utils import text_hash
from Middleware.utilities.search_utils import without_roles
from Middleware.workflows.memory.calls import NO_SUMMARY, run_tool
from Middleware.workflows.memory.chunking import chunk_messages, chunk_text
from Middleware.workflows.memory.settings import SettingsFile
from Middleware.workflows.memory.vector_store import VectorDatabase
from Middleware.workflows.memory.vector_tables import MOST_REFUSALS, StateReach
from Middleware.workflows.models.execution_context import ExecutionContext

logger = logging.getLogger(__name__)


# --------------------------------------------------------------------------
# The state document of a discussion: new facts are worked in by a workflow, and a bad answer never costs
# the old one.


STATE_DOCUMENT = "state_document.md"
SHORT = 500
"""A document of up to this length may shrink at will."""

_FENCED = re.compile(r"(`{3,}|~{3,})[^\n`]*\n(.*)\n\1[ \t]*", re.S)


def is_kept(settings: SettingsFile) -> bool:
    """Whether the settings ask for a document."""
    return settings.flag("useStateDocument")


def lacks_facts(store: DiscussionStore, settings: SettingsFile) -> bool:
    """Whether there are memories that a merge could bring into the document. Raises `sqlite3.Error`."""
    can_merge = is_kept(settings) and bool(settings.text("stateDocumentWorkflowName"))
    return can_merge and bool(VectorDatabase(store).unmerged_memories()[1])


def merge(
    context: ExecutionContext, store: DiscussionStore, settings: SettingsFile, most: int | None = None
) -> None:
    """Have the settings' workflow work all facts into the document that it does not know yet, in one call.

    `most`: at most so many of them, the oldest. Raises what the workflow raises, OSError, `sqlite3.Error`;
    the facts then wait for the next merge.
    """
    if not is_kept(settings):
        return
    workflow = settings.text("stateDocumentWorkflowName")
    if not workflow:
        logger.error(
            "%s: useStateDocument needs stateDocumentWorkflowName, so there is no state document",
            settings.name,
        )
        return
    ratio = settings.number("stateDocumentMinRetentionRatio")
    old = store.read_text(STATE_DOCUMENT) or ""
    database = VectorDatabase(store)
    reach, waiting = settle_document(database, old)
    facts = waiting[:most]
    if reach is None or not facts:
        return
    newest = facts[-1][0]
    new = run_tool(context, workflow, ("\n".join(f"- {fact}" for _, fact in facts), old))
    document = accept_document(old, new, ratio)
    if document is None:
        refused = reach if not new.strip() else replace(reach, refusals=reach.refusals + 1)
        _keep_old(context, database, refused, newest)
        return
    with store.lock():
        known = set(database.unmerged_memories()[1])
        if set(facts) <= known and (store.read_text(STATE_DOCUMENT) or "") == old:
            database.mark_merged(replace(reach, written_id=newest, written_hash=text_hash(document)))
            store.update_text(STATE_DOCUMENT, lambda _: document)
            database.mark_merged(StateReach(newest))
            return
    context.warn("the state document has changed in the meantime, so the new version is dropped")


def settle_document(
    database: VectorDatabase, document: str
) -> tuple[StateReach | None, list[tuple[int, str]]]:
    """What the document lacks; a merge that was killed when the file was written is done all the same."""
    reach, facts = database.unmerged_memories()
    if reach is None or reach.written_id is None or reach.written_hash != text_hash(document):
        return reach, facts
    database.mark_merged(StateReach(reach.written_id))
    return database.unmerged_memories()


def _keep_old(context: ExecutionContext, database: VectorDatabase, reach: StateReach, newest: int) -> None:
    """The reply was no document: the facts wait, unless they were refused too often."""
    if reach.refusals < MOST_REFUSALS:
        database.mark_merged(replace(reach, written_id=None, written_hash=None))
        context.warn("the new state document is empty or much shorter, so the old one is kept")
    else:
        database.mark_merged(StateReach(newest))
        context.warn(
            f"the new state document was much shorter {MOST_REFUSALS} times, "
            "so the old one is kept without the newest facts"
        )


def accept_document(old: str, reply: str, ratio: float) -> str | None:
    """The document that a reply stands for; None: it is blank, or so short that something must have been
    lost.
    """
    new = without_fence(reply.strip())
    if not new:
        return None
    if ratio and len(old) > SHORT and len(new) < ratio * len(old):
        return None
    return new


def without_fence(text: str) -> str:
    """The text inside a code fence that is around all of it."""
    fenced = _FENCED.fullmatch(text)
    if fenced is None or re.search(rf"^{fenced[1]}", fenced[2], re.M):
        return text
    return fenced[2].strip()


# --------------------------------------------------------------------------

CHUNK_BREAK = "--ChunkBreak--"
NO_MEMORIES = "There are not yet any memories"
NONE_TO_GRAB = "There are no memories to grab yet"
NONE_GENERATED = "No memories have been generated yet"
NO_STATE_DOCUMENT = "No state document has been created yet"
PIECE_TOKENS = 400
"""Size of the pieces of a conversation that stand for memories where there are none."""


class MemoryReader:
    """The memories of one discussion."""

    def __init__(self, store: DiscussionStore) -> None:
        self._store = store
        self._memories, self._summary = FileMemories(store), ChunkList(store, SUMMARY)

    def memories(self) -> Entries:
        """Oldest first, without those that were forgotten."""
        return remembered(self._memories.load())

    def pinned(self) -> Entries:
        """The pinned memories that come before a limit: the newest pins, at most eight."""
        entries = self._memories.load()
        return remembered([entries[at] for at in self._memories.pinned()])[:MOST_PINS_FIRST]

    def summary_entries(self) -> Entries:
        """The summary as its file has it."""
        return self._summary.load()

    def summary(self) -> str:
        """The current summary, or the sentence that there is none."""
        entries = self.summary_entries()
        return entries[0].text if entries else NO_SUMMARY

    def all_memories(self, delimiter: str) -> str:
        return delimiter.join(entry.text for entry in self.memories()) or NO_MEMORIES

    def last_memories(self, count: int) -> list[str]:
        """The newest `count` texts, oldest first, pinned ones before them; -1: all in their order, 0:
        three.
        """
        entries = self.memories()
        if count < 0:
            return texts_of(entries)
        return texts_of(_behind_pins(self.pinned(), entries, count or 3))

    def not_summarised(self) -> list[tuple[int, Entry]]:
        """The memories after the one that the summary ends with, each with its place among all entries; all
        if it is not found or there is no summary.
        """
        start = self.count_summarised() or 0
        places = enumerate(self._memories.load()[start:], start)
        return [(place, entry) for place, entry in places if not entry.is_forgotten]

    def count_summarised(self) -> int | None:
        """How many entries the summary covers; None: it ends with an unknown one."""
        summary = self.summary_entries()
        return self._memories.summarised_until(summary[-1]) if summary else 0

    def behind_summary(self) -> int:
        """How many memories the summary lacks; -1: there are none, or the summary ends with an unknown
        one.
        """
        if not self._memories.load() or self.count_summarised() is None:
            return -1
        return len(self.not_summarised())

    def newest_place(self) -> tuple[int, str] | None:
        """Place and hash of the newest entry, which may be one that was forgotten; None: there is none."""
        entries = self._memories.load()
        return (len(entries) - 1, entries[-1].hash) if entries else None

    def save_summary(
        self,
        text: str,
        place: int,
        covered: str,
        *,
        instead_of: Entries | None = None,
        batch: Sequence[Entry] = (),
    ) -> bool:
        """Make `text` the summary; `place`: of the last memory in it, `covered`: its hash.

        False, and nothing is saved: the summary is not `instead_of` any more (None: whatever it is), or one
        of the `batch` that it was made from was forgotten or edited.
        """
        with self._store.lock():
            now = self._summary.load()
            if (instead_of is not None and now != instead_of) or self._memories.has_changed(batch):
                return False
            summary = Entry(text, covered)
            self._memories.mark_summarised(summary, place, now)
            self._summary.replace(summary)
            return True

    def state_document(self) -> str:
        """The whole document, or the sentence that there is none. Raises Forbidden."""
        text = self._store.read_text(STATE_DOCUMENT) or ""
        return text if text.strip() else NO_STATE_DOCUMENT


def _behind_pins(pinned: Entries, entries: Entries, count: int) -> list[Entry]:
    """Pinned memories, then as many of the newest others as make it `count`."""
    others = [entry for entry in entries if entry not in pinned]
    rest = max(0, count - len(pinned))
    return [*pinned, *others[len(others) - min(rest, len(others)) :]]


def texts_of(entries: Sequence[Entry]) -> list[str]:
    return [entry.text for entry in entries]


def recent_pieces(messages: Messages, turns: int, lookback: int) -> list[str] | None:
    """Pieces of the conversation itself, where there is no discussion; None: there is nothing to take.

    The last message of those selected is left out.
    """
    if len(messages) <= 1 or lookback >= len(messages):
        return None
    end = len(messages) - lookback
    selected = messages[max(0, end - turns) : end]
    if not selected:
        return None
    return [without_roles(chunk_text(chunk)) for chunk in chunk_messages(selected[:-1], PIECE_TOKENS)]
