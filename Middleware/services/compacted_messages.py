"""How far the summary of a context compactor reaches, for windows that begin behind it.

The files themselves are made by `workflows/memory/compactor.py`. Source: spec memory.md 10, prompt-reuse.md
1.
"""

from __future__ import annotations

from Middleware.services.discussion_store import ChunkList, DiscussionStore, DiskFaults

OLD_FILE = "context_compactor_old.json"
"""The summary of the older messages: its text, and the hash of the last message in it; then its boundary."""


def summary_end(store: DiscussionStore) -> str:
    """`message_hash` of the last message that the summary holds; `""` where there is none, or the disk does
    not give it. Raises Forbidden for a file of another key.
    """
    entries = DiskFaults().try_work(
        ChunkList(store, OLD_FILE).load, (), "the window cannot follow the summary"
    )
    return entries[0].hash if entries else ""
