"""`StaticResponse`: a text written in the workflow. Source: spec nodes.md 3.3."""

from __future__ import annotations

from typing import ClassVar

from Middleware.workflows.handlers.base.base_workflow_node_handler import WorkflowNodeHandler
from Middleware.workflows.handlers.node_types import NODES
from Middleware.workflows.models.execution_context import ExecutionContext
from Middleware.workflows.models.node_keys import TEXT, Keys


@NODES.register("StaticResponse")
class StaticResponseNode(WorkflowNodeHandler):
    """Outputs `content` with its variables filled in. It never calls a model."""

    KEYS: ClassVar[Keys] = {
        "content": TEXT("The text. Takes variables.", advised=True, form="text"),
    }
    RUNS_DRY = True

    def handle(self, context: ExecutionContext) -> str:
        return context.fill(context.value("content"))
