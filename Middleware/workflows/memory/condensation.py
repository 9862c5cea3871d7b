"""Old file memories, a batch at a time, become one. Source: spec memory.md 7.7, 18.2 (26)."""

from __future__ import annotations

import logging

from Middleware.services.chunk_list import Entries
from Middleware.services.discussion_store import DiscussionStore, an_object
from Middleware.services.file_memories import FileMemories
from Middleware.workflows.memory import prompts
from Middleware.workflows.memory.calls import Templates, ask
from Middleware.workflows.memory.settings import SettingsFile
from Middleware.workflows.models.execution_context import ExecutionContext

logger = logging.getLogger(__name__)

TRACKER = "condensation_tracker.json"
_KEY = "lastCondensationHash"
_BEFORE = 3


def read_tracker(covered: str) -> dict[str, str]:
    """What the tracker's file holds."""
    return {_KEY: covered}


def save_tracker(store: DiscussionStore, covered: str) -> None:
    """Remember that memories up to this one need no condensing any more."""
    store.update_json(TRACKER, lambda _: read_tracker(covered), {}, an_object)


def condense(context: ExecutionContext, store: DiscussionStore, settings: SettingsFile) -> None:
    """Join the oldest memories that were not condensed yet, if there are enough; at most one batch.

    Runs under the lease of the memories. Raises as a direct call does.
    """
    if not settings.flag("condenseMemories"):
        return
    if settings.values.get("memoriesBeforeCondensation") is None:
        logger.error(
            "%s: condenseMemories needs memoriesBeforeCondensation; nothing is condensed", settings.name
        )
        return
    size = settings.whole_number("memoriesBeforeCondensation", 0, minimum=1)
    buffer = settings.whole_number("memoryCondensationBuffer", 0)
    memories = FileMemories(store)
    entries = memories.load()
    position = _position(context, store, memories)
    if not entries or len(entries) - position < size + buffer:
        return
    batch = entries[position : position + size]
    text = _condense_batch(context, settings, batch, entries[max(0, position - _BEFORE) : position])
    if not text.strip():
        logger.error(
            "%s: the condensed memories came back empty; the memories stay as they are", settings.name
        )
        return
    if memories.condense(position, batch, text):
        save_tracker(store, batch[-1].hash)
        logger.info("%d memories were condensed to one", len(batch))
    else:
        logger.warning("the memories have changed meanwhile; what was condensed from them is dropped")


def _position(context: ExecutionContext, store: DiscussionStore, memories: FileMemories) -> int:
    """Index of the first memory that was not condensed yet."""
    covered = store.read_json(TRACKER, {}, an_object).get(_KEY)
    if covered is None:
        return 0
    found = memories.condensed_until(covered)
    if found is None:
        context.warn("the last condensed memory is not there any more; condensing begins at the first memory")
        return 0
    return found


def _condense_batch(
    context: ExecutionContext, settings: SettingsFile, batch: Entries, before: Entries
) -> str:
    text = prompts.MEMORY_SEPARATOR.join(entry.text for entry in batch)
    earlier = prompts.MEMORY_SEPARATOR.join(entry.text for entry in before) or prompts.NO_EARLIER_MEMORIES
    own = "condenseMemoriesMaxResponseSizeInTokens"
    length = settings.whole_number(
        own if own in settings.values else "maxResponseSizeInTokens", 500, minimum=1
    )
    config = settings.node(
        {
            "endpointName": settings.override("condenseMemoriesEndpointName", "endpointName"),
            "preset": settings.override("condenseMemoriesPreset", "preset"),
            "maxResponseSizeInTokens": length,
        }
    )
    templates = Templates(
        settings.text("condenseMemoriesSystemPrompt", prompts.CONDENSE_SYSTEM),
        settings.text("condenseMemoriesPrompt", prompts.CONDENSE_PROMPT),
    )
    values = {
        "[MemoriesToCondense]": text,
        "[Memories_Before_Memories_to_Condense]": earlier,
        "[TextChunk]": text,
    }
    return ask(context, config, templates, values)
