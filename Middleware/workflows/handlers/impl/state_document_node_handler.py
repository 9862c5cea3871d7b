"""`GetCurrentStateDocument`: the state document of the discussion. Source: spec memory.md 9.1."""

from __future__ import annotations

from Middleware.workflows.handlers.base.base_workflow_node_handler import WorkflowNodeHandler
from Middleware.workflows.handlers.registry import NODES
from Middleware.workflows.memory.reader import NO_STATE_DOCUMENT, MemoryReader
from Middleware.workflows.models.execution_context import ExecutionContext


@NODES.register("GetCurrentStateDocument")
class StateDocumentNode(WorkflowNodeHandler):
    """Gives the whole document as it is stored."""

    RUNS_DRY = True

    def handle(self, context: ExecutionContext) -> str:
        return NO_STATE_DOCUMENT if context.store is None else MemoryReader(context.store).state_document()
