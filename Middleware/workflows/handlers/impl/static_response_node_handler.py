"""`StaticResponse`: a text written in the workflow. Source: spec nodes.md 3.3."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from Middleware.workflows.handlers.base.base_workflow_node_handler import TEXT, Schema, WorkflowNodeHandler
from Middleware.workflows.handlers.node_types import NODES
from Middleware.workflows.models.execution_context import ExecutionContext


@NODES.register("StaticResponse")
class StaticResponseNode(WorkflowNodeHandler):
    """Outputs `content` with its variables filled in. It never calls a model."""

    FIELDS: ClassVar[Mapping[str, str]] = {
        "content": "The text. Takes variables.",
    }
    SCHEMA: ClassVar[Schema] = {"properties": {"content": TEXT}}
    ADVICE: ClassVar[Schema] = {"required": ["content"]}
    RUNS_DRY = True

    def handle(self, context: ExecutionContext) -> str:
        content = context.config.get("content")
        return "" if content is None else context.fill(content)
