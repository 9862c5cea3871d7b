"""TagTextExtractor: the text between `<tag>` and `</tag>`. Calls no model. Source: spec nodes.md 3.8."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from Middleware.workflows.handlers.base.base_workflow_node_handler import TEXT, Schema, WorkflowNodeHandler
from Middleware.workflows.handlers.node_types import NODES
from Middleware.workflows.models.execution_context import ExecutionContext


def text_in_tag(text: str, tag: str) -> str:
    """The stripped text of the first pair, which ends at the first closing tag; `""` when there is no
    pair.
    """
    _, opened, rest = text.partition(f"<{tag}>")
    inside, closed, _ = rest.partition(f"</{tag}>")
    return inside.strip() if opened and closed else ""


@NODES.register("TagTextExtractor")
class TagTextExtractorNode(WorkflowNodeHandler):
    """Outputs the text inside the tag `fieldToExtract` in `tagToExtractFrom`, or `defaultText` if there is
    none.
    """

    FIELDS: ClassVar[Mapping[str, str]] = {
        "tagToExtractFrom": "The text to search. Takes variables.",
        "fieldToExtract": "The name of the tag without brackets. Takes variables.",
        "defaultText": "The output if the tag is missing or empty. Takes variables.",
    }
    SCHEMA: ClassVar[Schema] = {
        "properties": {"tagToExtractFrom": TEXT, "fieldToExtract": TEXT, "defaultText": TEXT}
    }
    ADVICE: ClassVar[Schema] = {
        "properties": {"tagToExtractFrom": {"minLength": 1}, "fieldToExtract": {"minLength": 1}},
        "required": ["tagToExtractFrom", "fieldToExtract"],
    }
    RUNS_DRY = True

    def handle(self, context: ExecutionContext) -> str:
        source, tag = context.config.get("tagToExtractFrom"), context.config.get("fieldToExtract")
        if not source or not tag:
            return ""
        found = text_in_tag(context.fill(source), context.fill(tag))
        return found or context.fill(context.config.get("defaultText") or "")
