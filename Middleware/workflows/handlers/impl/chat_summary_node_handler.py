"""Nodes around the rolling summary: read it, collect what it lacks, fold memories in, store it.

Source: spec memory.md 9.6 to 9.8, 18.2 (3, 7).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import ClassVar

from Middleware.common.errors import ConfigError
from Middleware.common.types import NodeConfig
from Middleware.services.chunk_list import Entries
from Middleware.services.discussion_store import DiscussionStore
from Middleware.workflows.handlers.base.base_workflow_node_handler import (
    FLAG,
    INTEGER,
    NUMBERLIKE,
    TEXT,
    Schema,
    WorkflowNodeHandler,
)
from Middleware.workflows.handlers.impl.recent_memory_node_handler import needed_number
from Middleware.workflows.handlers.registry import NODES
from Middleware.workflows.memory.calls import cleaned, without_thoughts
from Middleware.workflows.memory.prompts import NO_SUMMARY, SUMMARY_SEPARATOR, inserted
from Middleware.workflows.memory.reader import NONE_TO_GRAB, MemoryReader, recent_pieces, texts_of
from Middleware.workflows.memory.settings import (
    DEFAULT_LOCK_TIMEOUT_S,
    SUMMARY_LEASE,
    SUMMARY_WORKFLOW_LEASE,
    lock_timeout_s,
    memory_settings,
)
from Middleware.workflows.memory.tool_workflows import tool_value
from Middleware.workflows.memory.writer import remember
from Middleware.workflows.models.execution_context import ExecutionContext
from Middleware.workflows.models.node_result import CleanText, NodeResult, result_text

SUMMARY_MARK = "[CHAT_SUMMARY]"
MEMORIES_MARK = "[LATEST_MEMORIES]"
NO_SUMMARY_FOUND = "No summary found"


@NODES.register("GetCurrentSummaryFromFile")
class SummaryFromFileNode(WorkflowNodeHandler):
    """Gives the summary as it is stored."""

    def handle(self, context: ExecutionContext) -> str:
        return NO_SUMMARY if context.store is None else MemoryReader(context.store).summary()


@NODES.register("ChatSummaryMemoryGatheringTool")
class MemoryGatheringNode(WorkflowNodeHandler):
    """Gives the memories that the summary lacks; without a discussion, pieces of the newest messages."""

    FIELDS: ClassVar[Mapping[str, str]] = {
        "maxTurnsToPull": "Without a discussion: how many of the newest messages are taken instead.",
    }
    SCHEMA: ClassVar[Schema] = {"properties": {"maxTurnsToPull": NUMBERLIKE}, "required": ["maxTurnsToPull"]}
    ADVICE: ClassVar[Schema] = {"properties": {"maxTurnsToPull": INTEGER}}

    def handle(self, context: ExecutionContext) -> str:
        turns = needed_number(context.config, "maxTurnsToPull")
        if context.store is not None:
            return SUMMARY_SEPARATOR.join(texts_of(MemoryReader(context.store).not_summarised()))
        pieces = recent_pieces(context.messages, turns, 0)
        return NONE_TO_GRAB if pieces is None else SUMMARY_SEPARATOR.join(pieces)


@NODES.register("FullChatSummary")
class FullChatSummaryNode(WorkflowNodeHandler):
    """Makes the file memories that are due, has the summary brought up to date if it lacks some, and gives
    it.
    """

    FIELDS: ClassVar[Mapping[str, str]] = {
        "isManualConfig": "Only give what is stored.",
    }
    ADVICE: ClassVar[Schema] = {"properties": {"isManualConfig": FLAG}}

    def user_settings(self, config: NodeConfig) -> tuple[str, ...]:
        by_hand = bool(config.get("isManualConfig"))
        return () if by_hand else ("discussionIdMemoryFileWorkflowSettings", "chatSummaryToolWorkflow")

    def handle(self, context: ExecutionContext) -> NodeResult:
        if context.store is None:
            return None
        reader = MemoryReader(context.store)
        if context.config.get("isManualConfig"):
            return _whole(reader) or NO_SUMMARY_FOUND
        remember(context, files_only=True)
        if not context.store.can_be_written():
            return _whole(reader) or NO_SUMMARY_FOUND
        if reader.behind_summary() in (0, 1):
            return _whole(reader)
        with _turn(context, context.store, SUMMARY_WORKFLOW_LEASE) as held:
            if not held or reader.behind_summary() in (0, 1):
                return _whole(reader)
            workflow = context.user.chat_summary_tool_workflow
            otherwise = _whole(reader) or NO_SUMMARY_FOUND
            return tool_value(context, "chatSummaryToolWorkflow", workflow, otherwise)

    def dry_notes(self, context: ExecutionContext) -> list[str]:
        if context.store is None or context.config.get("isManualConfig"):
            return []
        return ["would make the file memories that are due and bring the summary up to date"]


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


def _whole(reader: MemoryReader) -> str:
    return "\n".join(texts_of(reader.summary_entries()))


@NODES.register("WriteCurrentSummaryToFileAndReturnIt")
class WriteSummaryNode(WorkflowNodeHandler):
    """Stores `input` as the summary of all memories there are, and gives it."""

    FIELDS: ClassVar[Mapping[str, str]] = {
        "input": "The new summary. Takes variables.",
    }
    SCHEMA: ClassVar[Schema] = {"properties": {"input": TEXT}, "required": ["input"]}

    def handle(self, context: ExecutionContext) -> str:
        authored = context.config.get("input")
        if not isinstance(authored, str):
            raise ConfigError("a WriteCurrentSummaryToFileAndReturnIt needs an 'input'")
        text = without_thoughts(context.fill(authored))
        if context.store is None or not context.store.can_be_written():
            return text
        reader = MemoryReader(context.store)
        memories = reader.memories()
        if not memories:
            raise ValueError(
                "a summary cannot be stored while the discussion has no memories to anchor it to"
            )
        if not text.strip():
            context.warn("the new summary is blank; the old one stays")
            return reader.summary()
        reader.save_summary(text, memories[-1].hash)
        return text

    def dry_notes(self, context: ExecutionContext) -> list[str]:
        return ["would store the summary"] if context.store is not None else []


@NODES.register("chatSummarySummarizer")
class SummarizerNode(WorkflowNodeHandler):
    """Has the node's model fold the memories that the summary lacks into it, a batch a call; gives the
    summary.
    """

    FIELDS: ClassVar[Mapping[str, str]] = {
        "endpointName": "The model that writes the summary.",
        "loopIfMemoriesExceed": "While more memories than this are new, so many are folded in with one call.",
        "minMemoriesPerSummary": "What then remains is folded in only if it is at least so many.",
    }
    SCHEMA: ClassVar[Schema] = {
        "properties": {
            "endpointName": {"type": "string", "minLength": 1},
            "minMemoriesPerSummary": NUMBERLIKE,
            "loopIfMemoriesExceed": NUMBERLIKE,
        },
        "required": ["endpointName"],
    }
    ADVICE: ClassVar[Schema] = {
        "properties": {"minMemoriesPerSummary": INTEGER, "loopIfMemoriesExceed": INTEGER}
    }
    CALLS_MODEL = True

    def handle(self, context: ExecutionContext) -> NodeResult:
        if context.store is None:
            return CleanText(NO_SUMMARY)
        reader = MemoryReader(context.store)
        if reader.not_summarised():
            with _turn(context, context.store, SUMMARY_LEASE) as held:
                if held:
                    self._bring_up_to_date(context, reader)
        return CleanText(reader.summary())

    def _bring_up_to_date(self, context: ExecutionContext, reader: MemoryReader) -> None:
        new = reader.not_summarised()
        if not new:
            return
        system, prompt = (str(context.config.get(key) or "") for key in ("systemPrompt", "prompt"))
        if not any(mark in text for mark in (SUMMARY_MARK, MEMORIES_MARK) for text in (system, prompt)):
            before = reader.summary_entries()
            _saved(context, reader, before, context.dispatch(stream=False), new)
        else:
            self._fold(context, reader, new)

    def _fold(self, context: ExecutionContext, reader: MemoryReader, new: Entries) -> None:
        """Batch after batch; what follows one that was not saved waits, so that no memory is left out."""
        most = max(1, _number(context, "loopIfMemoriesExceed"))
        least = _number(context, "minMemoriesPerSummary")
        while len(new) > most:
            if not _summarise(context, reader, new[:most]):
                return
            new = new[most:]
        if len(new) >= least:
            _summarise(context, reader, new)

    def dry_notes(self, context: ExecutionContext) -> list[str]:
        return ["would store the summary"] if context.store is not None else []


def _number(context: ExecutionContext, name: str) -> int:
    value = context.config.get(name)
    return value if isinstance(value, int) else 3


def _summarise(context: ExecutionContext, reader: MemoryReader, batch: Entries) -> bool:
    """One call for some memories. What is inserted stays as it is: its braces are text."""
    before = reader.summary_entries()
    values = {SUMMARY_MARK: reader.summary(), MEMORIES_MARK: SUMMARY_SEPARATOR.join(texts_of(batch))}
    system, prompt = (
        inserted(context.fill(str(context.config.get(key) or "")), values)
        for key in ("systemPrompt", "prompt")
    )
    reply = context.dispatch(system_prompt=system, prompt=prompt, stream=False)
    return _saved(context, reader, before, reply, batch)


def _saved(
    context: ExecutionContext, reader: MemoryReader, before: Entries, reply: NodeResult, batch: Entries
) -> bool:
    """Store the cleaned reply, unless it is blank or the summary is not `before` any more."""
    text = cleaned(context, result_text(reply))
    if not text.strip():
        context.warn("the new summary is blank; the old one stays")
        return False
    if reader.save_summary(text, batch[-1].hash, instead_of=before):
        return True
    context.warn("the summary has changed meanwhile; what was made from its older state is dropped")
    return False
