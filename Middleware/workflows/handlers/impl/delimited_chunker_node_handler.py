"""DelimitedChunker: the first or last pieces of a text. Calls no model. Source: spec nodes.md 3.9."""

from __future__ import annotations

from typing import ClassVar

from Middleware.workflows.handlers.base.base_workflow_node_handler import WorkflowNodeHandler
from Middleware.workflows.handlers.node_types import NODES
from Middleware.workflows.models.execution_context import ExecutionContext
from Middleware.workflows.models.node_keys import ANY, TEXT, WANTED_TEXT, Keys, as_it_is


def fault(context: ExecutionContext) -> str | None:
    """What is wrong with the fields, the first fault in the order that workflows rely on; None if nothing
    is.
    """
    for name in ("content", "delimiter", "mode", "count"):
        if context.value(name) is None:
            return f"No {name} specified"
    count, mode = context.value("count"), context.value("mode")
    if not isinstance(count, int) or isinstance(count, bool):
        return f"Invalid count: must be an integer, got {type(count).__name__}"
    if count < 1:
        return f"Invalid count: must be >= 1, got {count}"
    if mode not in ("head", "tail"):
        return f"Invalid mode: must be 'head' or 'tail', got '{mode}'"
    return None


def chunk(content: str, delimiter: str, *, count: int, tail: bool) -> str:
    """The first or last `count` pieces of `content`, joined again."""
    pieces = content.split(delimiter)
    return delimiter.join(pieces[-count:] if tail else pieces[:count])


@NODES.register("DelimitedChunker")
class DelimitedChunkerNode(WorkflowNodeHandler):
    """Keeps the first or last `count` pieces of `content`. If a field is wrong, the output says which one."""

    KEYS: ClassVar[Keys] = {
        "content": TEXT("The text. Takes variables.", advised=True, empty=None, form="text"),
        "delimiter": WANTED_TEXT("What separates the pieces. Takes variables.", empty=None),
        "mode": ANY("Which end of the text to keep.", should={"enum": ["head", "tail"]}, advised=True),
        "count": ANY(
            "How many pieces to keep.", should={"type": "integer", "minimum": 1}, advised=True, read=as_it_is
        ),
    }
    RUNS_DRY = True

    def handle(self, context: ExecutionContext) -> str:
        if wrong := fault(context):
            return wrong
        content, delimiter = (context.fill(context.value(name)) for name in ("content", "delimiter"))
        if not content:
            return ""
        if not delimiter:
            return "Invalid delimiter: must resolve to a non-empty string"
        return chunk(content, delimiter, count=context.value("count"), tail=context.value("mode") == "tail")
