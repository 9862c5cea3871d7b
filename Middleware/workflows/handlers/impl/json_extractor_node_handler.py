"""JsonExtractor: one top-level field of a JSON object. Calls no model. Source: spec nodes.md 3.7, memory.md
18.2 (20).
"""

from __future__ import annotations

import json
import re
from typing import Any, ClassVar

from Middleware.utilities.model_json import read_whole
from Middleware.workflows.handlers.base.base_workflow_node_handler import WorkflowNodeHandler
from Middleware.workflows.handlers.node_types import NODES
from Middleware.workflows.models.execution_context import ExecutionContext
from Middleware.workflows.models.node_keys import WANTED_TEXT, Keys

_FENCE = re.compile(r"```(?:json|JSON)?(.*)```", re.DOTALL)


def extract_field(text: str, field: str) -> str:
    """The field as text; `""` when `text` is no JSON object or the field is missing or null."""
    text = text.strip()
    if fenced := _FENCE.fullmatch(text):
        text = fenced[1].strip()
    value = _value(text)
    return _value_text(value.get(field)) if isinstance(value, dict) else ""


def _value(text: str) -> Any:
    """The JSON value of a text, also as weak models write it; None: it is none."""
    try:
        return json.loads(text)
    except RecursionError:
        return None
    except ValueError:
        try:
            return read_whole(text)
        except ValueError:
            return None


def _value_text(value: Any) -> str:
    if value is None:
        return ""
    return json.dumps(value) if isinstance(value, dict | list) else str(value)


@NODES.register("JsonExtractor")
class JsonExtractorNode(WorkflowNodeHandler):
    """Outputs the field `fieldToExtract` of the JSON object in `jsonToExtractFrom`, which can be in a code
    fence.
    """

    KEYS: ClassVar[Keys] = {
        "jsonToExtractFrom": WANTED_TEXT("The text that is a JSON object. Takes variables.", form="text"),
        "fieldToExtract": WANTED_TEXT("The name of a key at its top level. Takes variables."),
    }
    RUNS_DRY = True

    def handle(self, context: ExecutionContext) -> str:
        source, field = context.value("jsonToExtractFrom"), context.value("fieldToExtract")
        if not source or not field:
            return ""
        return extract_field(context.fill(source), context.fill(field))
