"""Calls that a user's script makes through `LlmApiService`: told to its node, counted by its request.

Source: spec console.md 3.3, more-fronts.md 9."""

from __future__ import annotations

from collections.abc import Iterator

from Middleware.common.request_context import current_request
from Middleware.common.types import Batches, Chunk, JsonObject, close_batches
from Middleware.llmapis.call.call_arguments import CallArguments
from Middleware.llmapis.llm_text import LlmText, count_call, join_batches, note_answer
from Middleware.services.cancellation_service import cancellation_service
from Middleware.services.run_trace import TracedNode
from Middleware.utilities.text_utils import estimate_tokens


def calling_node() -> TracedNode | None:
    """The node whose script runs here; None: no script does, or nobody observes."""
    request = current_request()
    node: TracedNode | None = request.node if request is not None else None
    return node


def count_answer(asked: CallArguments, result: LlmText | JsonObject) -> LlmText | JsonObject:
    """The whole answer of such a call, counted. A call that was cancelled gave none."""
    request = current_request()
    if request is not None and not cancellation_service.is_cancelled(request.request_id):
        count_call(request, result, lambda: _estimate(asked))
    return result


def counted_stream(asked: CallArguments, endpoint: str, batches: Batches) -> Iterator[Chunk]:
    """The chunks of such a call; counted when its finishing dict has come."""
    chunks: list[Chunk] = []
    try:
        for batch in batches:
            chunks += batch
            if batch and batch[-1]["finish_reason"] is not None and "error" not in batch[-1]:
                count_answer(asked, note_answer(asked.trace, join_batches(endpoint, [chunks])))
            yield from batch
    finally:
        close_batches(batches)


def _estimate(asked: CallArguments) -> int:
    texts = [asked.system_prompt, asked.prompt, *(m["content"] for m in asked.conversation or ())]
    return sum(estimate_tokens(text) for text in texts if isinstance(text, str))
