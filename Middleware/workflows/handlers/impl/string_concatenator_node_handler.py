"""StringConcatenator: joins texts. Calls no model. Source: spec nodes.md 3.4."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from Middleware.workflows.handlers.base.base_workflow_node_handler import TEXT, Schema, WorkflowNodeHandler
from Middleware.workflows.handlers.node_types import NODES
from Middleware.workflows.models.execution_context import ExecutionContext


@NODES.register("StringConcatenator")
class StringConcatenatorNode(WorkflowNodeHandler):
    """Joins the items of `strings` with `delimiter`. If `strings` is not a list, the output is empty."""

    FIELDS: ClassVar[Mapping[str, str]] = {
        "strings": "The pieces. Takes variables.",
        "delimiter": "The text between the pieces. Variables are not filled in. Default: nothing.",
    }
    SCHEMA: ClassVar[Schema] = {"properties": {"delimiter": TEXT}}
    ADVICE: ClassVar[Schema] = {"properties": {"strings": {"type": "array"}}, "required": ["strings"]}
    RUNS_DRY = True

    def handle(self, context: ExecutionContext) -> str:
        items = context.config.get("strings")
        if items is None:
            items = []
        if not isinstance(items, list):
            context.warn(f"'strings' must be a list, not {type(items).__name__}; the output is empty")
            return ""
        delimiter = context.config.get("delimiter")
        return ("" if delimiter is None else delimiter).join(
            context.fill(item) if isinstance(item, str) else str(item) for item in items
        )
