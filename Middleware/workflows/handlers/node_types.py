"""NODES, the table of node types, keyed by the JSON `type`. `VALID_NODE_TYPES` is its live view.

The handlers register themselves when `Middleware.workflows.handlers.impl` is imported.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from Middleware.common.constants import VALID_NODE_TYPES
from Middleware.common.registry import Registry
from Middleware.utilities.streaming_utils import node_fields
from Middleware.workflows.handlers.base.base_workflow_node_handler import (
    COMMON_ADVICE,
    COMMON_SCHEMA,
    Schema,
    WorkflowNodeHandler,
)

NODES: Registry[type[WorkflowNodeHandler]] = Registry("node type", WorkflowNodeHandler, view=VALID_NODE_TYPES)

DEFAULT_TYPE = "Standard"

OLD_NAMES = frozenset(["Conversational"])
"""Names that older workflows use for the default type, and mean it."""


def known_type(node_type: object) -> str:
    """The registered name that a node's `type` stands for (missing or unknown: `Standard`)."""
    return node_type if isinstance(node_type, str) and node_type in NODES else DEFAULT_TYPE


@cache
def _handler(name: str) -> WorkflowNodeHandler:
    return NODES[name]()


def node_handler(node_type: object) -> WorkflowNodeHandler:
    """The one handler object of a type; a type that nobody registered (or no text) is run as `Standard`."""
    return _handler(known_type(node_type))


def node_schema(node_type: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """JSON Schemas of one type, common fields included: what must hold, what should hold. Draft 2020-12."""
    handler = NODES[node_type]
    must, should = common_schema()
    return (
        {"allOf": [must, dict(handler.SCHEMA)]},
        {"allOf": [should, dict(handler.ADVICE)]},
    )


def common_schema() -> tuple[dict[str, Any], dict[str, Any]]:
    """Of the fields that any node may have, keys of cleaning rules included: what must, what should hold."""
    return (
        _with_fields(COMMON_SCHEMA, node_fields(strict=True)),
        _with_fields(COMMON_ADVICE, node_fields(strict=False)),
    )


def _with_fields(part: Schema, fields: Mapping[str, Any]) -> dict[str, Any]:
    return {**part, "properties": {**part["properties"], **fields}}
