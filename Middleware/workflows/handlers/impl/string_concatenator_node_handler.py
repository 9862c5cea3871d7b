"""StringConcatenator: joins texts. Calls no model. Source: spec nodes.md 3.4."""

from __future__ import annotations

from typing import ClassVar

from Middleware.workflows.handlers.base.base_workflow_node_handler import WorkflowNodeHandler
from Middleware.workflows.handlers.node_types import NODES
from Middleware.workflows.models.execution_context import ExecutionContext
from Middleware.workflows.models.node_keys import ANY, TEXT, Keys, as_it_is


@NODES.register("StringConcatenator")
class StringConcatenatorNode(WorkflowNodeHandler):
    """Joins the items of `strings` with `delimiter`. If `strings` is not a list, the output is empty."""

    KEYS: ClassVar[Keys] = {
        "strings": ANY(
            "The pieces. Takes variables.", should={"type": "array"}, advised=True, empty=[], read=as_it_is
        ),
        "delimiter": TEXT("The text between the pieces. Variables are not filled in. Default: nothing."),
    }
    RUNS_DRY = True

    def handle(self, context: ExecutionContext) -> str:
        items = context.value("strings")
        if not isinstance(items, list):
            context.warn(f"'strings' must be a list, not {type(items).__name__}; the output is empty")
            return ""
        return str(context.value("delimiter")).join(
            context.fill(item) if isinstance(item, str) else str(item) for item in items
        )
