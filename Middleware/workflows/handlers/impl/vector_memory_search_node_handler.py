"""`VectorMemorySearch`: finds vector memories by words, by meaning, or both. Source: spec memory.md 9.4."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from Middleware.services.discussion_store import DiskFaults
from Middleware.utilities.search_utils import MOST_ROWS
from Middleware.workflows.handlers.base.base_workflow_node_handler import (
    FLAG,
    INTEGER,
    NUMBERLIKE,
    TEXT,
    Schema,
    WorkflowNodeHandler,
)
from Middleware.workflows.handlers.node_types import NODES
from Middleware.workflows.memory.upkeep import model_name, service_of
from Middleware.workflows.memory.vector_search import (
    EmbedOne,
    MemoryQuery,
    VectorSearch,
    bm25_weights,
    format_memories,
)
from Middleware.workflows.models.execution_context import ExecutionContext

NO_DISCUSSION = "Cannot perform VectorMemorySearch without a discussionId."


@NODES.register("VectorMemorySearch")
class VectorMemorySearchNode(WorkflowNodeHandler):
    """Outputs the vector memories that match `input` best. Problems during the search never make it fail."""

    FIELDS: ClassVar[Mapping[str, str]] = {
        "input": "What to search for. Separate several phrases with `;`. Takes variables.",
        "limit": "How many memories to output, at most 1000.",
        "searchMode": "How to search: by words, by meaning, or both.",
        "embeddingEndpointName": "The endpoint that makes the vectors. It is required for `semantic` and "
        "`hybrid`.",
        "semanticQuery": "The text to search for by meaning. If it is absent, `input` is used. Takes "
        "variables.",
        "bm25Weights": "How much a match counts in the title, summary, entities, key phrases and text.",
        "useRecencyScoring": "Newer memories count more.",
        "includeDates": "Put the date before each memory.",
        "useEntityExpansion": "Also output memories about the entities that the first ones name.",
    }
    SCHEMA: ClassVar[Schema] = {
        "properties": {
            "input": TEXT,
            "limit": NUMBERLIKE,
            "semanticQuery": TEXT,
            "embeddingEndpointName": TEXT,
        }
    }
    ADVICE: ClassVar[Schema] = {
        "properties": {
            "limit": {**INTEGER, "minimum": 1, "maximum": MOST_ROWS},
            "bm25Weights": {"type": "array", "items": {"type": "number"}, "minItems": 5, "maxItems": 5},
            "useRecencyScoring": FLAG,
            "includeDates": FLAG,
            "searchMode": {"type": "string", "pattern": r"(?i)^\s*(keyword|semantic|hybrid)\s*$"},
            "useEntityExpansion": FLAG,
        },
    }

    def handle(self, context: ExecutionContext) -> str:
        if context.store is None:
            return NO_DISCUSSION
        config = context.config
        limit, semantic = config.get("limit"), config.get("semanticQuery")
        question = MemoryQuery(
            input=context.fill(str(config.get("input") or "")),
            limit=limit if isinstance(limit, int) else 5,
            weights=bm25_weights(config.get("bm25Weights")),
            recency=bool(config.get("useRecencyScoring")),
            mode=str(config.get("searchMode") or "keyword"),
            semantic=None if semantic is None else context.fill(str(semantic)),
            expand=bool(config.get("useEntityExpansion")),
        )
        search = VectorSearch(context.store, _embedding(context))
        rows = DiskFaults().try_work(lambda: search.find(question), (), "the memories cannot be searched")
        return format_memories(rows, dates=bool(config.get("includeDates")))

    def dry_notes(self, context: ExecutionContext) -> list[str]:
        return ["would search the vector memories"] if context.store is not None else []


def _embedding(context: ExecutionContext) -> EmbedOne | None:
    """How the question becomes a vector; None: the node names no endpoint for it."""
    name = context.config.get("embeddingEndpointName")
    if not name:
        return None

    def embed(text: str) -> tuple[str, Sequence[float] | None]:
        service = service_of(context, str(name))
        vectors = service.get_embeddings([text], context.request_id)
        return model_name(service), vectors[0] if vectors else None

    return embed
