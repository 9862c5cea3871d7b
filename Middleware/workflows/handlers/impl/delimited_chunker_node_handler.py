"""DelimitedChunker: the first or last pieces of a text. Calls no model. Source: spec nodes.md 3.9."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from Middleware.workflows.handlers.base.base_workflow_node_handler import TEXT, Schema, WorkflowNodeHandler
from Middleware.workflows.handlers.node_types import NODES
from Middleware.workflows.models.execution_context import ExecutionContext


def fault(config: Mapping[str, Any]) -> str | None:
    """What is wrong with the fields, the first fault in the order that workflows rely on; None if nothing
    is.
    """
    for name in ("content", "delimiter", "mode", "count"):
        if config.get(name) is None:
            return f"No {name} specified"
    count, mode = config["count"], config["mode"]
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

    FIELDS: ClassVar[Mapping[str, str]] = {
        "content": "The text. Takes variables.",
        "delimiter": "What separates the pieces. Takes variables.",
        "mode": "Which end of the text to keep.",
        "count": "How many pieces to keep.",
    }
    SCHEMA: ClassVar[Schema] = {"properties": {"content": TEXT, "delimiter": TEXT}}
    ADVICE: ClassVar[Schema] = {
        "properties": {
            "delimiter": {"minLength": 1},
            "mode": {"enum": ["head", "tail"]},
            "count": {"type": "integer", "minimum": 1},
        },
        "required": ["content", "delimiter", "mode", "count"],
    }
    RUNS_DRY = True

    def handle(self, context: ExecutionContext) -> str:
        config = context.config
        if wrong := fault(config):
            return wrong
        content, delimiter = context.fill(config["content"]), context.fill(config["delimiter"])
        if not content:
            return ""
        if not delimiter:
            return "Invalid delimiter: must resolve to a non-empty string"
        return chunk(content, delimiter, count=config["count"], tail=config["mode"] == "tail")
