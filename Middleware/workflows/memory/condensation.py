"""Old file memories, a batch at a time, become one. Source: spec memory.md 7.7."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from Middleware.services.chunk_list import MEMORIES, ChunkList, Entries, Entry
from Middleware.services.discussion_store import DiscussionStore, an_object
from Middleware.workflows.memory import prompts
from Middleware.workflows.memory.calls import Templates, ask
from Middleware.workflows.memory.settings import SettingsFile
from Middleware.workflows.models.execution_context import ExecutionContext

logger = logging.getLogger(__name__)

TRACKER = "condensation_tracker.json"
_KEY = "lastCondensationHash"
_BEFORE = 3


def tracked(covered: str) -> dict[str, str]:
    """What the tracker's file holds."""
    return {_KEY: covered}


def save_tracker(store: DiscussionStore, covered: str) -> None:
    """Remember that memories up to this one need no condensing any more."""
    store.update_json(TRACKER, lambda _: tracked(covered), {}, an_object)


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
    size = settings.whole("memoriesBeforeCondensation", 0, minimum=1)
    buffer = settings.whole("memoryCondensationBuffer", 0)
    memories = ChunkList(store, MEMORIES)
    entries = memories.load()
    position = _position(context, store, entries)
    if not entries or len(entries) - position < size + buffer:
        return
    batch = entries[position : position + size]
    text = _condensed(context, settings, batch, entries[max(0, position - _BEFORE) : position])
    if not text.strip():
        logger.error(
            "%s: the condensed memories came back empty; the memories stay as they are", settings.name
        )
        return
    _save(store, memories, position, batch, text)


def _save(store: DiscussionStore, memories: ChunkList, position: int, batch: Entries, text: str) -> None:
    covered = batch[-1].hash
    end = position + len(batch)
    done = False

    def change(now: Entries) -> Sequence[Entry] | None:
        nonlocal done
        done = now[position:end] == batch
        return (*now[:position], Entry(text, covered), *now[end:]) if done else None

    memories.update(change)
    if done:
        save_tracker(store, covered)
        logger.info("%d memories were condensed to one", len(batch))
    else:
        logger.warning("the memories have changed meanwhile; what was condensed from them is dropped")


def _position(context: ExecutionContext, store: DiscussionStore, entries: Entries) -> int:
    """Index of the first memory that was not condensed yet."""
    covered = store.read_json(TRACKER, {}, an_object).get(_KEY)
    if covered is None:
        return 0
    found = next((index for index, entry in enumerate(entries) if entry.hash == covered), None)
    if found is None:
        context.warn("the last condensed memory is not there any more; condensing begins at the first memory")
        return 0
    return found + 1


def _condensed(context: ExecutionContext, settings: SettingsFile, batch: Entries, before: Entries) -> str:
    text = prompts.MEMORY_SEPARATOR.join(entry.text for entry in batch)
    earlier = prompts.MEMORY_SEPARATOR.join(entry.text for entry in before) or prompts.NO_EARLIER_MEMORIES
    own = "condenseMemoriesMaxResponseSizeInTokens"
    length = settings.whole(own if own in settings.values else "maxResponseSizeInTokens", 500, minimum=1)
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
