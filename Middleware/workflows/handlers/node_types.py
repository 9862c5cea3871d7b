"""NODES, the table of node types, keyed by the JSON `type`. `VALID_NODE_TYPES` is its live view.

The handlers register themselves when `Middleware.workflows.handlers.impl` is imported.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache, lru_cache
from typing import Any

from Middleware.common.constants import VALID_NODE_TYPES
from Middleware.common.registry import Registry
from Middleware.utilities.streaming_utils import node_descriptions, node_fields
from Middleware.workflows.handlers.base.base_workflow_node_handler import WorkflowNodeHandler
from Middleware.workflows.memory.settings import MEMORY_KEYS
from Middleware.workflows.models.node_keys import (
    CHILD_NODES,
    COMMON_KEYS,
    DEFAULT_TYPE,
    EVERY_NODE,
    INTEGER,
    MODEL_NODES,
    Keys,
    NodeKey,
    must_hold,
    sentences,
    should_hold,
)

NODES: Registry[type[WorkflowNodeHandler]] = Registry("node type", WorkflowNodeHandler, view=VALID_NODE_TYPES)

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
        {"type": "object", **_with_fields(must_hold(COMMON_KEYS), node_fields(strict=True))},
        _with_fields(should_hold(COMMON_KEYS), node_fields(strict=False)),
    )


def _with_fields(part: Mapping[str, Any], fields: Mapping[str, Any]) -> dict[str, Any]:
    return {**part, "properties": {**part["properties"], **fields}}


_OTHER_NUMBERS: Keys = {"chunksPerMemory": INTEGER.but(default=3), "offlineWikiApiPort": INTEGER}
"""Numbers that no node and no memory settings state; a text in the second stays as it is."""

_NUMBERS_OF_SETTINGS = (
    "vectorMemoryMaxResponseSizeInTokens",
    "vectorMemoryChunkEstimatedTokenSize",
    "vectorMemoryMaxMessagesBetweenChunks",
    "chunkEstimatedTokenSize",
    "maxMessagesBetweenChunks",
    "memoryCondensationBuffer",
)
"""Numbers that no node reads: of memory settings, whose object may be the config of a call."""


def number_defaults() -> Mapping[str, int | float | None]:
    """Field -> default of all fields that are made numbers before a node of some type runs.

    None: a text that is no number stays as it is. Of two types that state a field the one registered first
    counts. Source: workflows.md 6.6.
    """
    return _number_defaults(tuple(NODES))


def number_keys(node_type: object) -> Keys:
    """Field -> key of the fields that are made numbers before a node of this type runs. What it states itself
    counts as it states it; what only others state, as there.
    """
    return _number_keys(known_type(node_type), tuple(NODES))


@lru_cache(maxsize=4)
def _number_defaults(types: tuple[str, ...]) -> Mapping[str, int | float | None]:
    return {name: key.default for name, key in _stated_numbers(types).items()}


@lru_cache(maxsize=256)
def _number_keys(name: str, types: tuple[str, ...]) -> Keys:
    own = NODES[name].KEYS
    merged = {**_stated_numbers(types), **own}
    return {field: key for field, key in merged.items() if key.number}


def _stated_numbers(types: tuple[str, ...]) -> Keys:
    found: dict[str, NodeKey] = {
        name: INTEGER.but(default=MEMORY_KEYS[name].default) for name in _NUMBERS_OF_SETTINGS
    }
    found |= _OTHER_NUMBERS
    for keys in (COMMON_KEYS, *(NODES[name].KEYS for name in types)):
        for name, key in keys.items():
            if key.number:
                found.setdefault(name, key)
    return found


# --------------------------------------------------------------------------
# The common fields in words, and which of them fit which node: for editors and docs.


def every_node() -> dict[str, str]:
    """Field -> sentence. What fits any type."""
    return {**sentences(EVERY_NODE), **node_descriptions(of_models=False)}


def model_nodes() -> dict[str, str]:
    """Field -> sentence. What fits a node that calls a model."""
    return {**sentences(MODEL_NODES), **node_descriptions(of_models=True)}


def descriptions() -> dict[str, str]:
    """Field -> sentence. All of them."""
    return {**every_node(), **model_nodes(), **sentences(CHILD_NODES)}
