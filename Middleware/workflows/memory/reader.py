"""What nodes read of a discussion's memories, as text. Never calls a model, makes no file by reading.

Source: spec memory.md 9, 18.2 (18, 27).
"""

from __future__ import annotations

from collections.abc import Sequence

from Middleware.common.types import Messages
from Middleware.services.chunk_list import SUMMARY, ChunkList, Entries, Entry
from Middleware.services.discussion_store import DiscussionStore
from Middleware.services.file_memories import FileMemories
from Middleware.utilities.search_utils import without_roles
from Middleware.workflows.memory.chunking import chunk_messages, chunk_text
from Middleware.workflows.memory.prompts import NO_SUMMARY
from Middleware.workflows.memory.state_document import STATE_DOCUMENT

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
        """Oldest first."""
        return self._memories.load()

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
        """The newest `count` texts, oldest first; -1: all, 0: three."""
        entries = self.memories()
        if count < 0:
            return texts_of(entries)
        return texts_of(entries[-(count or 3) :])

    def not_summarised(self) -> Entries:
        """The memories after the one that the summary ends with; all if it is not found or there is no
        summary.
        """
        return self.memories()[self.count_summarised() or 0 :]

    def count_summarised(self) -> int | None:
        """How many memories the summary covers; None: it ends with an unknown one."""
        summary = self.summary_entries()
        return self._memories.summarised_until(summary[-1]) if summary else 0

    def behind_summary(self) -> int:
        """How many memories the summary lacks; -1: there are none, or the summary ends with an unknown
        one.
        """
        memories, covered = self.memories(), self.count_summarised()
        return -1 if not memories or covered is None else len(memories) - covered

    def save_summary(self, text: str, place: int, covered: str, *, instead_of: Entries | None = None) -> bool:
        """Make `text` the summary; `place`: of the last memory in it, `covered`: its hash.

        False, and nothing is saved: the summary is not `instead_of` any more (None: whatever it is).
        """
        with self._store.lock():
            now = self._summary.load()
            if instead_of is not None and now != instead_of:
                return False
            summary = Entry(text, covered)
            self._memories.mark_summarised(summary, place, now)
            self._summary.replace(summary)
            return True

    def state_document(self) -> str:
        """The whole document, or the sentence that there is none. Raises Forbidden."""
        text = self._store.read_text(STATE_DOCUMENT) or ""
        return text if text.strip() else NO_STATE_DOCUMENT


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
