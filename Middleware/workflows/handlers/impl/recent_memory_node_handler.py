"""Nodes that give the memories of a discussion as they are: the newest, all of them, or what a workflow
makes of
them. Source: spec memory.md 9.1, 9.5.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from Middleware.common.errors import ConfigError
from Middleware.common.types import NodeConfig
from Middleware.services.discussion_store import DiskFaults
from Middleware.workflows.handlers.base.base_workflow_node_handler import (
    INTEGER,
    NUMBERLIKE,
    TEXT,
    Schema,
    WorkflowNodeHandler,
)
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


@NODES.register("RecentMemory")
class RecentMemoryNode(WorkflowNodeHandler):
    """Creates the file memories that are due, then runs `recentMemoryToolWorkflow` and outputs its result."""

    def user_settings(self, config: NodeConfig) -> tuple[str, ...]:
        return ("discussionIdMemoryFileWorkflowSettings", "recentMemoryToolWorkflow")

    def handle(self, context: ExecutionContext) -> NodeResult:
        remember(context, DiskFaults(), files_only=True)
        workflow = context.user.recent_memory_tool_workflow
        return tool_value(context, "recentMemoryToolWorkflow", workflow, NONE_GENERATED)

    def dry_notes(self, context: ExecutionContext) -> list[str]:
        return ["would make the file memories that are due"] if context.store is not None else []


@NODES.register("ConversationMemory")
class ConversationMemoryNode(WorkflowNodeHandler):
    """Runs `conversationMemoryToolWorkflow` and outputs its result."""

    def user_settings(self, config: NodeConfig) -> tuple[str, ...]:
        return ("conversationMemoryToolWorkflow",)

    def handle(self, context: ExecutionContext) -> NodeResult:
        if context.store is None:
            return NO_MEMORIES
        workflow = context.user.conversation_memory_tool_workflow
        return tool_value(context, "conversationMemoryToolWorkflow", workflow, NO_MEMORIES)


@NODES.register("GetCurrentMemoryFromFile")
class MemoryFromFileNode(WorkflowNodeHandler):
    """Outputs all file memories, with `customDelimiter` between them."""

    FIELDS: ClassVar[Mapping[str, str]] = {
        "customDelimiter": "The text between two memories. Default `--ChunkBreak--`.",
    }
    ADVICE: ClassVar[Schema] = {"properties": {"customDelimiter": TEXT}}

    def handle(self, context: ExecutionContext) -> str:
        if context.store is None:
            return NO_MEMORIES
        reader, delimiter = MemoryReader(context.store), context.config.get("customDelimiter")
        between = CHUNK_BREAK if delimiter is None else str(delimiter)
        return DiskFaults().try_work(
            lambda: reader.all_memories(between), NO_MEMORIES, "the memories cannot be read"
        )


@NODES.register("RecentMemorySummarizerTool")
class RecentMemorySummarizerNode(WorkflowNodeHandler):
    """Outputs the newest file memories. Without a discussion id, it outputs pieces of the newest messages."""

    FIELDS: ClassVar[Mapping[str, str]] = {
        "maxSummaryChunksFromFile": "How many memories to output. -1 means all, and 0 means three.",
        "maxTurnsToPull": "Without a discussion id: how many messages to select.",
        "lookbackStart": "Without a discussion id: how many of the newest messages to skip first.",
        "customDelimiter": "The text between two memories. Default `--ChunkBreak--`.",
    }
    SCHEMA: ClassVar[Schema] = {
        "properties": {
            "maxTurnsToPull": NUMBERLIKE,
            "maxSummaryChunksFromFile": NUMBERLIKE,
            "lookbackStart": NUMBERLIKE,
        },
        "required": ["maxTurnsToPull", "maxSummaryChunksFromFile"],
    }
    ADVICE: ClassVar[Schema] = {
        "properties": {
            "maxTurnsToPull": INTEGER,
            "maxSummaryChunksFromFile": INTEGER,
            "lookbackStart": INTEGER,
            "customDelimiter": TEXT,
        }
    }

    def handle(self, context: ExecutionContext) -> str:
        turns = needed_number(context.config, "maxTurnsToPull")
        chunks = needed_number(context.config, "maxSummaryChunksFromFile")
        if context.store is not None:
            reader = MemoryReader(context.store)
            newest = DiskFaults().try_work(
                lambda: reader.last_memories(chunks), (), "the memories cannot be read"
            )
            text = CHUNK_BREAK.join(newest) or NONE_GENERATED
        else:
            lookback = context.config.get("lookbackStart") or 0
            pieces = recent_pieces(context.messages, turns, lookback)
            text = NONE_TO_GRAB if pieces is None else CHUNK_BREAK.join(pieces)
        delimiter = context.config.get("customDelimiter")
        return text if delimiter is None else text.replace(CHUNK_BREAK, str(delimiter))


def needed_number(config: NodeConfig, name: str) -> int:
    """A number that the node cannot do without. Raises ConfigError."""
    value = config.get(name)
    if not isinstance(value, int) or isinstance(value, bool):
        raise ConfigError(f"'{name}' must be a whole number, not {value!r}")
    return value
