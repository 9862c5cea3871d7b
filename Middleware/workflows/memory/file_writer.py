"""File memories: new messages become entries of `memories.json`, one after the other, each saved at once.

The model's work is done under a lease; an entry is added only if the ones before are still those that it
was made after. Source: spec memory.md 7.3, 7.4, 18.1, 18.2 (18, 26).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import groupby

from Middleware.common.errors import RequestCancelled
from Middleware.common.types import Messages
from Middleware.services.discussion_store import (
    SUMMARY,
    ChunkList,
    DiscussionStore,
    Entries,
    Entry,
    an_object,
)
from Middleware.services.file_memories import End, FileMemories, end_at, remembered
from Middleware.utilities.hashing_utils import message_hash
from Middleware.workflows.memory import calls
from Middleware.workflows.memory.calls import Templates, ask, run_tool
from Middleware.workflows.memory.chunking import (
    chunk_messages,
    chunk_text,
    forgotten_places,
    tokens_of,
    unprocessed_range,
    without_system,
)
from Middleware.workflows.memory.settings import MEMORY_LEASE, SettingsFile, lock_timeout_s
from Middleware.workflows.models.execution_context import ExecutionContext

logger = logging.getLogger(__name__)


# --------------------------------------------------------------------------
# Old file memories, a batch at a time, become one. Source: spec memory.md 7.7, 18.2 (26).


TRACKER = "condensation_tracker.json"
_KEY = "lastCondensationHash"
_BEFORE = 3


def read_tracker(covered: str) -> dict[str, str]:
    """What the tracker's file holds."""
    return {_KEY: covered}


def read_tracker_hash(store: DiscussionStore) -> str | None:
    """Hash of the last memory that needs no condensing; None: there is none."""
    covered: str | None = store.read_json(TRACKER, {}, an_object).get(_KEY)
    return covered


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
            "%s: condenseMemories needs memoriesBeforeCondensation, so nothing is condensed", settings.name
        )
        return
    size = settings.whole_number("memoriesBeforeCondensation")
    buffer = settings.whole_number("memoryCondensationBuffer")
    memories = FileMemories(store)
    entries = memories.load()
    position = _position(context, store, memories)
    places = batch_places(entries, position, memories.pinned(), size)
    if places is None or len(remembered(entries[places.stop :])) < buffer:
        return
    batch = entries[places.start : places.stop]
    before = remembered(entries[: places.start])[-_BEFORE:]
    text = _condense_batch(context, settings, remembered(batch), before)
    if not text.strip():
        logger.error(
            "%s: the condensed memories came back empty, so the memories are not changed", settings.name
        )
        return
    if memories.condense(places.start, batch, text):
        save_tracker(store, batch[-1].hash)
        logger.info("%d memories were condensed to one", size)
    else:
        logger.warning("the memories have changed in the meantime, so the condensed ones are dropped")


def batch_places(entries: Entries, position: int, pinned: Collection[int], size: int) -> range | None:
    """The first entries from `position` on of which `size` are memories and none is pinned; None: there are
    not so many in a row. What was forgotten is taken along and not counted.
    """
    start, found = position, 0
    for place in range(position, len(entries)):
        if place in pinned:
            start, found = place + 1, 0
        elif not entries[place].is_forgotten:
            found += 1
            if found == size:
                return range(start, place + 1)
    return None


def _position(context: ExecutionContext, store: DiscussionStore, memories: FileMemories) -> int:
    """Index of the first memory that was not condensed yet."""
    covered = read_tracker_hash(store)
    if covered is None:
        return 0
    found = memories.condensed_until(covered)
    if found is None:
        context.warn(
            "the last condensed memory no longer exists, so condensing starts again at the first memory"
        )
        return 0
    return found


def _condense_batch(
    context: ExecutionContext, settings: SettingsFile, batch: Entries, before: Entries
) -> str:
    text = calls.MEMORY_SEPARATOR.join(entry.text for entry in batch)
    earlier = calls.MEMORY_SEPARATOR.join(entry.text for entry in before) or calls.NO_EARLIER_MEMORIES
    own, general = "condenseMemoriesMaxResponseSizeInTokens", "maxResponseSizeInTokens"
    has_own = own in settings.values or settings.values.get(general) is None
    length = settings.whole_number(own if has_own else general, minimum=1)
    config = settings.node(
        {
            "endpointName": settings.override("condenseMemoriesEndpointName", "endpointName"),
            "preset": settings.override("condenseMemoriesPreset", "preset"),
            "maxResponseSizeInTokens": length,
        }
    )
    templates = Templates(
        settings.text("condenseMemoriesSystemPrompt", calls.CONDENSE_SYSTEM),
        settings.text("condenseMemoriesPrompt", calls.CONDENSE_PROMPT),
    )
    values = {
        "[MemoriesToCondense]": text,
        "[Memories_Before_Memories_to_Condense]": earlier,
        "[TextChunk]": text,
    }
    return ask(context, config, templates, values)


# --------------------------------------------------------------------------
# How far long work on memories is: told after each step, by default in the log.


Told = Callable[[int, int], None]
"""Called with the number of steps that are done, and of all."""


def log_progress(done: int, whole: int) -> None:
    logger.info("memory %d of %d", done, whole)


# --------------------------------------------------------------------------

_RECENT = 3


@dataclass(frozen=True, slots=True)
class FileMemoryPlan:
    """What is to be done. `ends`: what each chunk covers. `after`: the entries that it was made from."""

    chunks: list[Messages]
    ends: list[End]
    after: Entries
    rebuilding: bool


@contextmanager
def memory_turn(context: ExecutionContext, store: DiscussionStore, settings: SettingsFile) -> Iterator[bool]:
    """Wait until nobody else makes memories of the discussion, of whichever kind. False, with a warning: it
    took too long, or the request was cancelled."""
    with store.lease(MEMORY_LEASE, lock_timeout_s(settings), context.is_cancelled) as held:
        if not held:
            context.warn(
                "another request is making memories of this discussion, so this one leaves them "
                "to a later turn"
            )
        yield held


def write_file_memories(
    context: ExecutionContext, store: DiscussionStore, settings: SettingsFile, told: Told = log_progress
) -> None:
    """Remember what is new, if it is enough, and condense.

    Raises ConfigError, BackendError, RequestCancelled; what was stored by then stays stored.
    """
    rebuilding = not FileMemories(store).exists
    messages = without_system(context.messages)
    if plan_chunks(store, settings, messages, rebuilding=rebuilding) is None:
        return
    with memory_turn(context, store, settings) as is_ours:
        if not is_ours:
            return
        plan = plan_chunks(store, settings, messages, rebuilding=rebuilding)
        if plan is not None and write_plan(context, store, settings, plan, told):
            condense(context, store, settings)


def plan_chunks(
    store: DiscussionStore, settings: SettingsFile, messages: Messages, *, rebuilding: bool
) -> FileMemoryPlan | None:
    """The chunks to be remembered now; None: there is nothing new, or not enough. Makes an empty memory file.

    `rebuilding`: there was no memory file (somebody may have deleted it); then only the size counts.
    """
    memories = FileMemories(store)
    entries = memories.open()
    rebuilding = rebuilding and not entries
    lookback = settings.whole_number("lookbackStartTurn")
    start, end = unprocessed_range(messages, memories.ends(entries), lookback)
    # who deletes the file has its memories made anew, but for those that were forgotten
    forgotten = frozenset() if entries else forgotten_messages(messages[:end], memories.lines())
    new = [messages[at] for at in range(start, end) if at not in forgotten]
    if not new:
        return None
    size = settings.scaled_size("chunkEstimatedTokenSize")
    most = settings.whole_number("maxMessagesBetweenChunks")
    if tokens_of(new) < size and (rebuilding or len(new) < most):
        return None
    chunks, ends = cut_chunks(messages, range(start, end), forgotten, size)
    return FileMemoryPlan(chunks, ends, entries, rebuilding)


def forgotten_messages(messages: Messages, done: Sequence[End]) -> frozenset[int]:
    """Places of the messages of which nothing is to be remembered, by what is known of `done` entries."""
    if not any(end.forgotten for end in done):
        return frozenset()
    return forgotten_places(list(map(message_hash, messages)), done)


def cut_chunks(
    messages: Messages, places: range, forgotten: Collection[int], size: int
) -> tuple[list[Messages], list[End]]:
    """The messages at these places as chunks, and what each covers. What is forgotten is a chunk of its own,
    of which no memory is made.
    """
    hashes = list(map(message_hash, messages))
    chunks: list[Messages] = []
    ends: list[End] = []
    start = places.start
    for is_forgotten, group in groupby(places, lambda at: at in forgotten):
        part = [messages[at] for at in group]
        for chunk in [part] if is_forgotten else chunk_messages(part, size):
            end = end_at(hashes, start, start + len(chunk))
            chunks.append(chunk)
            ends.append(replace(end, forgotten=((0, len(chunk)),)) if is_forgotten else end)
            start += len(chunk)
    return chunks, ends


def write_plan(
    context: ExecutionContext,
    store: DiscussionStore,
    settings: SettingsFile,
    plan: FileMemoryPlan,
    told: Told,
) -> bool:
    """Store one memory a chunk; false: nothing new may be condensed."""
    memories, known = FileMemories(store), plan.after
    for number, (chunk, end) in enumerate(zip(plan.chunks, plan.ends, strict=True), 1):
        if context.is_cancelled():
            raise RequestCancelled
        text = "" if end.forgotten else _next_memory(context, settings, chunk, store)
        if not (text.strip() or end.forgotten):
            context.warn(
                f"memory {number} of {len(plan.chunks)} came back empty and is requested again next time"
            )
            break
        if not memories.append(text, end, after=known):
            context.warn("the memories have changed in the meantime, so the new ones are dropped")
            return False
        known = (*known, Entry(text, end.hash))
        told(number, len(plan.chunks))
    if plan.rebuilding and settings.flag("condenseMemories") and (newest := memories.mark_condensed()):
        save_tracker(store, newest)
    return True


def _next_memory(
    context: ExecutionContext, settings: SettingsFile, chunk: Messages, store: DiscussionStore
) -> str:
    """The memory of a chunk, behind those that there are."""
    entries = remembered(FileMemories(store).load())
    return memory_of(context, settings, chunk_text(chunk), entries, summary_text(store))


def memory_of(
    context: ExecutionContext, settings: SettingsFile, text: str, entries: Sequence[Entry], summary: str
) -> str:
    """The memory that a piece of text becomes, by the settings' workflow or by a direct call."""
    recent = join_entries(entries[-_RECENT:])
    full = join_entries(entries)
    workflow = settings.text("fileMemoryWorkflowName")
    if workflow:
        return run_tool(context, workflow, (text, recent.strip(), full.strip(), summary.strip()))
    config = settings.node(
        {"maxResponseSizeInTokens": settings.whole_number("maxResponseSizeInTokens", minimum=1)}
    )
    values = {
        "[Memory_file]": recent,
        "[Full_Memory_file]": full,
        "[Chat_Summary]": summary,
        "[TextChunk]": text,
    }
    return ask(context, config, templates_of(settings), values)


def templates_of(settings: SettingsFile) -> Templates:
    """The settings' own prompts; ours when it has neither."""
    system, prompt = settings.text("systemPrompt"), settings.text("prompt")
    if not system and not prompt:
        return Templates(calls.MEMORY_SYSTEM, calls.MEMORY_PROMPT)
    return Templates(system, prompt)


def join_entries(entries: Sequence[Entry]) -> str:
    """Memory texts for a prompt."""
    return calls.MEMORY_SEPARATOR.join(entry.text for entry in entries) or calls.NO_EARLIER_MEMORIES


def summary_text(store: DiscussionStore) -> str:
    """The summary of the discussion, or the sentence that there is none."""
    entries = ChunkList(store, SUMMARY).load()
    return entries[0].text if entries else calls.NO_SUMMARY
