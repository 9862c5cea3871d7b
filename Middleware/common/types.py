"""The vocabulary: shapes that cross floors. Nothing here does anything."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TypedDict

from Middleware.common.costs import Cost

Message = dict[str, Any]
"""`{"role": str, "content": str, "images"?: [str], "tool_calls"?: [dict], "tool_call_id"?: str,
"name"?: str}`. `content` is never null and never a list. Source: spec frontend-api.md 7."""

Messages = list[Message]

NodeConfig = Mapping[str, Any]
"""One node object of a workflow file; never changed in place."""

JsonObject = dict[str, Any]


class _ChunkAlways(TypedDict):
    token: str
    finish_reason: str | None


class Chunk(_ChunkAlways, total=False):
    """The standard dict of a stream. The first two keys are always there. Source: spec backends.md 10."""

    tool_calls: list[JsonObject]
    thinking: str
    usage: JsonObject
    error: JsonObject
    native_finish_reason: str
    model: str
    cost: Cost  # of a finishing dict whose endpoint has a price: what the call cost
    truncated: bool
    refusal: bool
    cut_call: bool  # the end of the answer cut a call, and that call was left out
    cut_calls: list[JsonObject]  # those calls, as far as they came, of a whole answer
    beside: JsonObject  # of a finishing dict, for an agent's loop alone: thoughts in the fields they came in
    step: Any  # of a chunk that says nothing else: a step of an agent has ended (agents.md 5)
    last: bool  # of a finish chunk that the engine gives: no node runs after it
    progress: JsonObject  # of a chunk that says nothing else: a node starts (more-fronts.md 8)


Batch = list[Chunk]
"""What one read brought. An empty batch is a tick: nothing to say, but the stream lives."""


class TextBatch(Batch):
    """A batch of pieces of text, whose dicts say nothing else. `text`: all of them, joined: who asks for it
    need not look at each. Never changed in place."""

    __slots__ = ("text",)

    def __init__(self, chunks: Iterable[Chunk], text: str) -> None:
        super().__init__(chunks)
        self.text = text


Batches = Iterator[Batch]


# --------------------------------------------------------------------------
# Ending an iterator before its end.


def close_batches(batches: Iterable[object]) -> None:
    """Close a stream that can be closed: its backend stops. A plain iterator (a demo model's, an empty one)
    needs nothing."""
    close = getattr(batches, "close", None)
    if close is not None:
        close()
