"""Nodes that give the memories of a discussion as they are: the newest, all of them, or what a workflow
makes of
them. Source: spec memory.md 9.1, 9.5.
"""

from __future__ import annotations

from typing import ClassVar

from Middleware.common.types import NodeConfig
from Middleware.services.discussion_store import DiskFaults
from Middleware.workflows.handlers.base.base_workflow_node_handler import MACHINE, WorkflowNodeHandler
from Middleware.workflows.handlers.node_types import NODES
from Middleware.workflows.memory.reader import (
    CHUNK_BREAK,
    NO_MEMORIES,
    NONE_GENERATED,
    NONE_TO_GRAB,
    MemoryReader,
    recent_pieces,
)
from Middleware.workflows.memory.writer import remember, tool_value
from Middleware.workflows.models.execution_context import ExecutionContext, NodeResult
from Middleware.workflows.models.node_keys import INTEGER, NAME, NEEDED_INTEGER, Keys

_DELIMITER = NAME("The text between two memories. Default `{default}`.", default=CHUNK_BREAK)


@NODES.register("RecentMemory")
class RecentMemoryNode(WorkflowNodeHandler):
    """Creates the file memories that are due, then runs `recentMemoryToolWorkflow` and outputs its result."""

    PALETTE = "memory"

    POWERS = frozenset([MACHINE])

    KEEPS_TO_DISCUSSION = True

    def user_settings(self, config: NodeConfig) -> tuple[str, ...]:
        return ("discussionIdMemoryFileWorkflowSettings", "recentMemoryToolWorkflow")

    def handle(self, context: ExecutionContext) -> NodeResult:
        remember(context, DiskFaults(), files_only=True)
        workflow = context.user.recent_memory_tool_workflow
        return tool_value(context, "recentMemoryToolWorkflow", workflow, NONE_GENERATED)

    def writes(self, config: NodeConfig) -> str:
        return "makes file memories of the discussion"

    def dry_notes(self, context: ExecutionContext) -> list[str]:
        return ["would make the file memories that are due"] if context.store is not None else []


@NODES.register("ConversationMemory")
class ConversationMemoryNode(WorkflowNodeHandler):
    """Runs `conversationMemoryToolWorkflow` and outputs its result."""

    PALETTE = "memory"

    POWERS = frozenset([MACHINE])

    KEEPS_TO_DISCUSSION = True

    def user_settings(self, config: NodeConfig) -> tuple[str, ...]:
        return ("conversationMemoryToolWorkflow",)

    def writes(self, config: NodeConfig) -> str:
        return ""

    def handle(self, context: ExecutionContext) -> NodeResult:
        if context.store is None:
            return NO_MEMORIES
        workflow = context.user.conversation_memory_tool_workflow
        return tool_value(context, "conversationMemoryToolWorkflow", workflow, NO_MEMORIES)


@NODES.register("GetCurrentMemoryFromFile")
class MemoryFromFileNode(WorkflowNodeHandler):
    """Outputs all file memories, with `customDelimiter` between them."""

    PALETTE = "memory"

    POWERS = frozenset([MACHINE])

    KEYS: ClassVar[Keys] = {
        "customDelimiter": _DELIMITER,
    }
    KEEPS_TO_DISCUSSION = True

    def writes(self, config: NodeConfig) -> str:
        return ""

    def handle(self, context: ExecutionContext) -> str:
        if context.store is None:
            return NO_MEMORIES
        reader, delimiter = MemoryReader(context.store), context.value("customDelimiter")
        return DiskFaults().try_work(
            lambda: reader.all_memories(delimiter), NO_MEMORIES, "the memories cannot be read"
        )


@NODES.register("RecentMemorySummarizerTool")
class RecentMemorySummarizerNode(WorkflowNodeHandler):
    """Outputs the newest file memories. Without a discussion id, it outputs pieces of the newest messages."""

    PALETTE = "memory"

    POWERS = frozenset([MACHINE])

    KEYS: ClassVar[Keys] = {
        "maxSummaryChunksFromFile": NEEDED_INTEGER(
            "How many memories to output. -1 means all, and 0 means three."
        ),
        "maxTurnsToPull": NEEDED_INTEGER("Without a discussion id: how many messages to select."),
        "lookbackStart": INTEGER(
            "Without a discussion id: how many of the newest messages to skip first.", default=0
        ),
        "customDelimiter": _DELIMITER,
    }
    KEEPS_TO_DISCUSSION = True

    def writes(self, config: NodeConfig) -> str:
        return ""

    def handle(self, context: ExecutionContext) -> str:
        turns = context.value("maxTurnsToPull")
        chunks = context.value("maxSummaryChunksFromFile")
        if context.store is not None:
            reader = MemoryReader(context.store)
            newest = DiskFaults().try_work(
                lambda: reader.last_memories(chunks), (), "the memories cannot be read"
            )
            text = CHUNK_BREAK.join(newest) or NONE_GENERATED
        else:
            pieces = recent_pieces(context.messages, turns, context.value("lookbackStart"))
            text = NONE_TO_GRAB if pieces is None else CHUNK_BREAK.join(pieces)
        return text.replace(CHUNK_BREAK, context.value("customDelimiter"))
