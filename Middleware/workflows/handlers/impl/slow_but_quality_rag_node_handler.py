"""`SlowButQualityRAG`: has each piece of a text turned into a memory, and stores none. Source: spec
memory.md 11.2.
"""

from __future__ import annotations

from typing import ClassVar

from Middleware.common.errors import ConfigError, RequestCancelled
from Middleware.common.types import NodeConfig
from Middleware.services.discussion_store import DiskFaults, Entry
from Middleware.workflows.handlers.base.base_workflow_node_handler import (
    MACHINE,
    ChildName,
    WorkflowNodeHandler,
)
from Middleware.workflows.handlers.node_types import NODES
from Middleware.workflows.memory.calls import NO_SUMMARY
from Middleware.workflows.memory.file_writer import memory_of, summary_text
from Middleware.workflows.memory.reader import CHUNK_BREAK, MemoryReader
from Middleware.workflows.memory.settings import SettingsFile
from Middleware.workflows.models.execution_context import CleanText, ExecutionContext
from Middleware.workflows.models.node_keys import ANY, TEXT, Keys


@NODES.register("SlowButQualityRAG")
class SlowButQualityRagNode(WorkflowNodeHandler):
    """Splits `ragTarget` at `--ChunkBreak--`, has a model turn each piece into a memory, and outputs them
    together.
    """

    PALETTE = "memory"

    POWERS = frozenset([MACHINE])

    KEYS: ClassVar[Keys] = {
        "ragTarget": TEXT(
            "The text, which is split at `--ChunkBreak--`. Takes variables.", required=True, form="text"
        ),
        "ragType": ANY("The field must be there, but its value is not used.", required=True),
        "fileMemoryWorkflowName": TEXT(
            "A workflow that creates each memory instead of the model.", form="names:workflows"
        ),
    }
    FITTING = ("systemPrompt", "prompt", "endpointName", "preset", "maxResponseSizeInTokens")
    KEEPS_TO_DISCUSSION = True

    def writes(self, config: NodeConfig) -> str:
        return ""

    def handle(self, context: ExecutionContext) -> str:
        if context.store is None:
            return ""
        if not isinstance(context.config.get("ragTarget"), str) or "ragType" not in context.config:
            raise ConfigError("a SlowButQualityRAG needs a 'ragTarget' and a 'ragType'")
        settings = SettingsFile(context.workflow_file.file, context.config)
        store, disk, made = context.store, DiskFaults(), []
        why = "earlier memories are not shown to the model"
        entries = list(disk.try_work(MemoryReader(store).memories, (), why))
        for piece in context.fill(context.value("ragTarget")).split(CHUNK_BREAK):
            if context.is_cancelled():
                raise RequestCancelled
            summary = disk.try_work(lambda: summary_text(store), NO_SUMMARY, why)
            text = memory_of(context, settings, piece, entries, summary)
            made.append(text)
            entries.append(Entry(text, ""))
        return CleanText("".join(made))

    def children(self, config: NodeConfig) -> list[ChildName]:
        name = config.get("fileMemoryWorkflowName")
        return [ChildName("/fileMemoryWorkflowName", name, None, 4)] if isinstance(name, str) and name else []
