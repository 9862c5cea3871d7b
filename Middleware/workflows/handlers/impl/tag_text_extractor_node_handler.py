"""TagTextExtractor: the text between `<tag>` and `</tag>`. Calls no model. Source: spec nodes.md 3.8."""

from __future__ import annotations

from typing import ClassVar

from Middleware.workflows.handlers.base.base_workflow_node_handler import WorkflowNodeHandler
from Middleware.workflows.handlers.node_types import NODES
from Middleware.workflows.models.execution_context import ExecutionContext
from Middleware.workflows.models.node_keys import TEXT, WANTED_TEXT, Keys


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

    KEYS: ClassVar[Keys] = {
        "tagToExtractFrom": WANTED_TEXT("The text to search. Takes variables.", form="text"),
        "fieldToExtract": WANTED_TEXT("The name of the tag without brackets. Takes variables."),
        "defaultText": TEXT("The output if the tag is missing or empty. Takes variables.", form="text"),
    }
    RUNS_DRY = True

    def handle(self, context: ExecutionContext) -> str:
        source, tag = context.value("tagToExtractFrom"), context.value("fieldToExtract")
        if not source or not tag:
            return ""
        found = text_in_tag(context.fill(source), context.fill(tag))
        return found or context.fill(context.value("defaultText"))
