"""`VectorMemorySearch`: finds vector memories by words, by meaning, or both. Source: spec memory.md 9.4."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from Middleware.common.types import NodeConfig
from Middleware.services.discussion_store import DiskFaults
from Middleware.utilities.search_utils import MOST_ROWS
from Middleware.workflows.handlers.base.base_workflow_node_handler import MACHINE, WorkflowNodeHandler
from Middleware.workflows.handlers.node_types import NODES
from Middleware.workflows.memory.upkeep import model_name
from Middleware.workflows.memory.vector_search import (
    EmbedOne,
    MemoryQuery,
    VectorSearch,
    bm25_weights,
    format_memories,
)
from Middleware.workflows.models.execution_context import ExecutionContext
from Middleware.workflows.models.node_keys import ANY, FLAG, INTEGER, TEXT, Keys, as_it_is, read_shown

NO_DISCUSSION = "Cannot perform VectorMemorySearch without a discussionId."


@NODES.register("VectorMemorySearch")
class VectorMemorySearchNode(WorkflowNodeHandler):
    """Outputs the vector memories that match `input` best. Problems during the search never make it fail."""

    PALETTE = "memory"

    POWERS = frozenset([MACHINE])

    KEYS: ClassVar[Keys] = {
        "input": TEXT(
            "What to search for. Separate several phrases with `;`. Takes variables.",
            read=read_shown,
            form="text",
        ),
        "limit": INTEGER(
            "How many memories to output, at most 1000.", default=5, minimum=1, maximum=MOST_ROWS
        ),
        "searchMode": ANY(
            "How to search: by words, by meaning, or both.",
            should={"type": "string", "pattern": r"(?i)^\s*(keyword|semantic|hybrid)\s*$"},
            default="keyword",
            read=read_shown,
        ),
        "embeddingEndpointName": TEXT(
            "The endpoint that makes the vectors. It is required for `semantic` and `hybrid`.",
            read=read_shown,
            form="names:endpoints",
        ),
        "semanticQuery": TEXT(
            "The text to search for by meaning. If it is absent, `input` is used. Takes variables.",
            empty=None,
            read=str,
            form="text",
        ),
        "bm25Weights": ANY(
            "How much a match counts in the title, summary, entities, key phrases and text.",
            should={"type": "array", "items": {"type": "number"}, "minItems": 5, "maxItems": 5},
            read=as_it_is,
        ),
        "useRecencyScoring": FLAG("Newer memories count more."),
        "includeDates": FLAG("Put the date before each memory."),
        "useEntityExpansion": FLAG("Also output memories about the entities that the first ones name."),
    }
    KEEPS_TO_DISCUSSION = True

    def handle(self, context: ExecutionContext) -> str:
        if context.store is None:
            return NO_DISCUSSION
        semantic = context.value("semanticQuery")
        question = MemoryQuery(
            input=context.fill(context.value("input")),
            limit=context.value("limit"),
            weights=bm25_weights(context.value("bm25Weights")),
            recency=context.value("useRecencyScoring"),
            mode=context.value("searchMode"),
            semantic=None if semantic is None else context.fill(semantic),
            expand=context.value("useEntityExpansion"),
        )
        search = VectorSearch(context.store, _embedding(context))
        rows = DiskFaults().try_work(lambda: search.find(question), (), "the memories cannot be searched")
        return format_memories(rows, dates=context.value("includeDates"))

    def writes(self, config: NodeConfig) -> str:
        return ""

    def dry_notes(self, context: ExecutionContext) -> list[str]:
        return ["would search the vector memories"] if context.store is not None else []


def _embedding(context: ExecutionContext) -> EmbedOne | None:
    """How the question becomes a vector; None: the node names no endpoint for it."""
    name = context.value("embeddingEndpointName")
    if not name:
        return None

    def embed(text: str) -> tuple[str, Sequence[float] | None]:
        service = context.embeddings(name)
        vectors = service.get_embeddings([text], context.request_id)
        return model_name(service), vectors[0] if vectors else None

    return embed
