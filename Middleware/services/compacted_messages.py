"""How far the summary of a context compactor reaches, for windows that begin behind it.

The files themselves are made by `workflows/memory/compactor.py`. Source: spec memory.md 10, prompt-reuse.md
1.
"""

from __future__ import annotations

from Middleware.services.discussion_store import ChunkList, DiscussionStore, DiskFaults, Entries

OLD_FILE = "context_compactor_old.json"
"""The summary of the older messages: its text, and the hash of the last message in it; then its boundary."""
REACH_FILE = "context_compactor_reach.json"
"""How far the oldest summary reaches: one entry a state of it, the last three. Its text is the hash of the
summary; its hash is the boundary and, after blanks, the hashes of the messages that this state has and the
one before has not. And where Old ended (`OLD_END`), for the hash of a text that is said again is no place.
"""
OLD_END = "__old_end__"


def summary_end(store: DiscussionStore) -> str:
    """The last message that the summary holds: `<index>:<hash>`, its place in the conversation and its
    `message_hash`, or the hash alone where its place is not known. `""` where there is none, or the disk does
    not give it. Raises Forbidden for a file of another key.
    """
    return DiskFaults().try_work(lambda: _summary_end(store), "", "the window cannot follow the summary")


def _summary_end(store: DiscussionStore) -> str:
    entries = ChunkList(store, OLD_FILE).load()
    if not entries:
        return ""
    place = old_end(ChunkList(store, REACH_FILE).load())
    return place if place.rpartition(":")[2] == entries[0].hash else entries[0].hash


def old_end(reach: Entries) -> str:
    """Where Old ended, `<index>:<hash>`; `""`: that is not known."""
    return next((entry.hash for entry in reversed(reach) if entry.text == OLD_END), "")
