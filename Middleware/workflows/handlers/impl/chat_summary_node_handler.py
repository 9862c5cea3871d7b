"""Nodes around the rolling summary: read it, collect what it lacks, fold memories in, store it.

Source: spec memory.md 9.6 to 9.8, 18.2 (3, 7).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import ClassVar

from Middleware.common.errors import ConfigError
from Middleware.common.types import NodeConfig
from Middleware.services.discussion_store import DiscussionStore, DiskFaults, Entries, Entry
from Middleware.workflows.handlers.base.base_workflow_node_handler import MACHINE, WorkflowNodeHandler
from Middleware.workflows.handlers.node_types import NODES
from Middleware.workflows.memory.calls import (
    NO_SUMMARY,
    SUMMARY_SEPARATOR,
    clean_reply,
    insert_values,
    without_thoughts,
)
from Middleware.workflows.memory.reader import NONE_TO_GRAB, MemoryReader, recent_pieces, texts_of
from Middleware.workflows.memory.settings import (
    DEFAULT_LOCK_TIMEOUT_S,
    SUMMARY_LEASE,
    SUMMARY_WORKFLOW_LEASE,
    lock_timeout_s,
    memory_settings,
)
from Middleware.workflows.memory.writer import remember, tool_value
from Middleware.workflows.models.execution_context import (
    CleanText,
    ExecutionContext,
    LlmCall,
    NodeResult,
    result_text,
)
from Middleware.workflows.models.node_keys import FLAG, INTEGER, NEEDED_INTEGER, NEEDED_TEXT, TEXT, Keys

_Place = tuple[int, Entry]
"""A memory, and where it is among all of them."""
SUMMARY_MARK = "[CHAT_SUMMARY]"
MEMORIES_MARK = "[LATEST_MEMORIES]"
NO_SUMMARY_FOUND = "No summary found"
UNREADABLE, NOT_KEPT = "the summary cannot be read", "the summary stays as it is"
"""What a fault of the disk means, in the log."""


@NODES.register("GetCurrentSummaryFromFile")
class SummaryFromFileNode(WorkflowNodeHandler):
    """Outputs the rolling summary of the discussion as it is stored."""

    PALETTE = "memory"

    POWERS = frozenset([MACHINE])

    KEEPS_TO_DISCUSSION = True

    def writes(self, config: NodeConfig) -> str:
        return ""

    def handle(self, context: ExecutionContext) -> str:
        if context.store is None:
            return NO_SUMMARY
        return DiskFaults().try_work(MemoryReader(context.store).summary, NO_SUMMARY, UNREADABLE)


@NODES.register("ChatSummaryMemoryGatheringTool")
class MemoryGatheringNode(WorkflowNodeHandler):
    """Outputs the memories that the summary does not cover yet. Without a discussion id, it outputs pieces
    of the newest messages.
    """

    PALETTE = "memory"

    POWERS = frozenset([MACHINE])

    KEYS: ClassVar[Keys] = {
        "maxTurnsToPull": NEEDED_INTEGER(
            "How many of the newest messages are used if there is no discussion id."
        ),
    }
    KEEPS_TO_DISCUSSION = True

    def writes(self, config: NodeConfig) -> str:
        return ""

    def handle(self, context: ExecutionContext) -> str:
        turns = context.value("maxTurnsToPull")
        if context.store is not None:
            new = DiskFaults().try_work(MemoryReader(context.store).not_summarised, (), UNREADABLE)
            return SUMMARY_SEPARATOR.join(entry.text for _, entry in new)
        pieces = recent_pieces(context.messages, turns, 0)
        return NONE_TO_GRAB if pieces is None else SUMMARY_SEPARATOR.join(pieces)


@NODES.register("FullChatSummary")
class FullChatSummaryNode(WorkflowNodeHandler):
    """Creates the file memories that are due, brings the rolling summary up to date, and outputs it."""

    PALETTE = "memory"

    POWERS = frozenset([MACHINE])

    KEYS: ClassVar[Keys] = {
        "isManualConfig": FLAG("Output only what is stored."),
    }
    KEEPS_TO_DISCUSSION = True

    def user_settings(self, config: NodeConfig) -> tuple[str, ...]:
        by_hand = bool(config.get("isManualConfig"))
        return () if by_hand else ("discussionIdMemoryFileWorkflowSettings", "chatSummaryToolWorkflow")

    def handle(self, context: ExecutionContext) -> NodeResult:
        if context.store is None:
            return None
        store, reader, disk = context.store, MemoryReader(context.store), DiskFaults()
        if context.value("isManualConfig"):
            return disk.try_work(lambda: _whole_summary(reader), "", UNREADABLE) or NO_SUMMARY_FOUND
        remember(context, disk, files_only=True)
        if not disk.failed and store.can_be_written():
            value = disk.try_work(lambda: _brought_up_to_date(context, store, reader), None, NOT_KEPT)
            if not disk.failed:
                return value
        return disk.try_work(lambda: _whole_summary(reader), "", UNREADABLE) or NO_SUMMARY_FOUND

    def writes(self, config: NodeConfig) -> str:
        if config.get("isManualConfig"):
            return ""
        return "makes file memories and brings the summary of the discussion up to date"

    def dry_notes(self, context: ExecutionContext) -> list[str]:
        if context.store is None or context.value("isManualConfig"):
            return []
        return ["would make the file memories that are due and bring the summary up to date"]


def _brought_up_to_date(
    context: ExecutionContext, store: DiscussionStore, reader: MemoryReader
) -> NodeResult:
    """The summary, by the user's workflow if it lacks more than one memory."""
    if reader.behind_summary() in (0, 1):
        return _whole_summary(reader)
    with _turn(context, store, SUMMARY_WORKFLOW_LEASE) as held:
        if not held or reader.behind_summary() in (0, 1):
            return _whole_summary(reader)
        workflow = context.user.chat_summary_tool_workflow
        otherwise = _whole_summary(reader) or NO_SUMMARY_FOUND
        return tool_value(context, "chatSummaryToolWorkflow", workflow, otherwise)


@contextmanager
def _turn(context: ExecutionContext, store: DiscussionStore, lease: str) -> Iterator[bool]:
    """Wait for another request that works on the summary: two would fold the same memories in twice.

    False as well where the summary could not be stored.
    """
    if not store.can_be_written():
        yield False
        return
    try:
        timeout_s = lock_timeout_s(memory_settings(context))
    except ConfigError:
        timeout_s = DEFAULT_LOCK_TIMEOUT_S
    with store.lease(lease, timeout_s, context.is_cancelled) as held:
        if not held:
            context.warn("another request works on the summary of this discussion; it is given as it is")
        yield held


def _whole_summary(reader: MemoryReader) -> str:
    return "\n".join(texts_of(reader.summary_entries()))


@NODES.register("WriteCurrentSummaryToFileAndReturnIt")
class WriteSummaryNode(WorkflowNodeHandler):
    """Stores `input` as the summary of all existing memories, and outputs it."""

    PALETTE = "memory"

    POWERS = frozenset([MACHINE])

    KEYS: ClassVar[Keys] = {
        "input": TEXT("The new summary. Takes variables.", required=True, form="text"),
    }
    KEEPS_TO_DISCUSSION = True

    def handle(self, context: ExecutionContext) -> str:
        text = without_thoughts(context.fill(context.value("input")))
        if context.store is None or not context.store.can_be_written():
            return text
        reader = MemoryReader(context.store)
        return DiskFaults().try_work(
            lambda: _store_summary(context, reader, text), text, "the new summary is not kept"
        )

    def writes(self, config: NodeConfig) -> str:
        return "stores the summary of the discussion"

    def dry_notes(self, context: ExecutionContext) -> list[str]:
        return ["would store the summary"] if context.store is not None else []


def _store_summary(context: ExecutionContext, reader: MemoryReader, text: str) -> str:
    """Store the text as the summary of all memories; what is stored then."""
    newest = reader.newest_place()
    if newest is None:
        raise ValueError("a summary cannot be stored while the discussion has no memories to anchor it to")
    if not text.strip():
        context.warn("the new summary is blank; the old one stays")
        return reader.summary()
    reader.save_summary(text, *newest)
    return text


@NODES.register("chatSummarySummarizer")
class SummarizerNode(WorkflowNodeHandler):
    """Has the node's model add new memories to the summary, some with each call, and outputs the summary."""

    PALETTE = "memory"

    POWERS = frozenset([MACHINE])

    KEYS: ClassVar[Keys] = {
        "endpointName": NEEDED_TEXT("The model that writes the summary."),
        "loopIfMemoriesExceed": INTEGER(
            "As long as there are more new memories than this, each call adds this many of them.", default=3
        ),
        "minMemoriesPerSummary": INTEGER(
            "The new memories that then remain are added only if there are at least this many.", default=3
        ),
    }
    CALLS_MODEL = True
    KEEPS_TO_DISCUSSION = True

    def handle(self, context: ExecutionContext) -> NodeResult:
        if context.store is None:
            return CleanText(NO_SUMMARY)
        store, reader, disk = context.store, MemoryReader(context.store), DiskFaults()
        disk.try_work(lambda: self._in_turn(context, store, reader), None, NOT_KEPT)
        return CleanText(disk.try_work(reader.summary, NO_SUMMARY, UNREADABLE))

    def _in_turn(self, context: ExecutionContext, store: DiscussionStore, reader: MemoryReader) -> None:
        if not reader.not_summarised():
            return
        with _turn(context, store, SUMMARY_LEASE) as held:
            if held and (new := reader.not_summarised()):
                self._bring_up_to_date(context, reader, new)

    def _bring_up_to_date(self, context: ExecutionContext, reader: MemoryReader, new: list[_Place]) -> None:
        system, prompt = (str(context.config.get(key) or "") for key in ("systemPrompt", "prompt"))
        if not any(mark in text for mark in (SUMMARY_MARK, MEMORIES_MARK) for text in (system, prompt)):
            before = reader.summary_entries()
            _save_summary(context, reader, before, context.dispatch(LlmCall(stream=False)), new)
        else:
            self._fold(context, reader, new)

    def _fold(self, context: ExecutionContext, reader: MemoryReader, new: list[_Place]) -> None:
        """Batch after batch; what follows one that was not saved waits, so that no memory is left out."""
        most = max(1, context.value("loopIfMemoriesExceed"))
        least = context.value("minMemoriesPerSummary")
        while len(new) > most:
            if not _summarise(context, reader, new[:most]):
                return
            new = new[most:]
        if len(new) >= least:
            _summarise(context, reader, new)

    def writes(self, config: NodeConfig) -> str:
        return "stores the summary of the discussion"

    def dry_notes(self, context: ExecutionContext) -> list[str]:
        return ["would store the summary"] if context.store is not None else []


def _summarise(context: ExecutionContext, reader: MemoryReader, batch: list[_Place]) -> bool:
    """One call for some memories. What is inserted stays as it is: its braces are text."""
    before = reader.summary_entries()
    values = {
        SUMMARY_MARK: reader.summary(),
        MEMORIES_MARK: SUMMARY_SEPARATOR.join(entry.text for _, entry in batch),
    }
    system, prompt = (
        insert_values(context.fill(str(context.config.get(key) or "")), values)
        for key in ("systemPrompt", "prompt")
    )
    reply = context.dispatch(LlmCall(system_prompt=system, prompt=prompt, stream=False))
    return _save_summary(context, reader, before, reply, batch)


def _save_summary(
    context: ExecutionContext, reader: MemoryReader, before: Entries, reply: NodeResult, batch: list[_Place]
) -> bool:
    """Store the cleaned reply, unless it is blank or the summary is not `before` any more."""
    text = clean_reply(context, result_text(reply))
    if not text.strip():
        context.warn("the new summary is blank; the old one stays")
        return False
    place, newest = batch[-1]
    entries = [entry for _, entry in batch]
    if reader.save_summary(text, place, newest.hash, instead_of=before, batch=entries):
        return True
    context.warn("the summary has changed meanwhile; what was made from its older state is dropped")
    return False
