"""`GetCurrentStateDocument`: the state document of the discussion. Source: spec memory.md 9.1."""

from __future__ import annotations

from Middleware.services.discussion_store import DiskFaults
from Middleware.workflows.handlers.base.base_workflow_node_handler import MACHINE, WorkflowNodeHandler
from Middleware.workflows.handlers.node_types import NODES
from Middleware.workflows.memory.reader import NO_STATE_DOCUMENT, MemoryReader
from Middleware.workflows.models.execution_context import ExecutionContext


@NODES.register("GetCurrentStateDocument")
class StateDocumentNode(WorkflowNodeHandler):
    """Outputs the whole state document of the discussion."""

    PALETTE = "memory"

    POWERS = frozenset([MACHINE])

    RUNS_DRY = True

    def handle(self, context: ExecutionContext) -> str:
        if context.store is None:
            return NO_STATE_DOCUMENT
        reader = MemoryReader(context.store)
        return DiskFaults().try_work(
            reader.state_document, NO_STATE_DOCUMENT, "the state document cannot be read"
        )
