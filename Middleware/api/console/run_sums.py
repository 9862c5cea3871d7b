"""What the calls of a run used. Pure, and light: a start needs it. Source: spec console.md 6.3."""

from __future__ import annotations

from collections.abc import Mapping

from Middleware.common.types import JsonObject
from Middleware.services.run_trace import CallTrace, RunTrace

_USAGES = (dict, Mapping)
"""Most are dicts, which are told from others ten times as fast."""


def count_of(usage: object, key: str) -> int | None:
    """A number that a backend reported; None for anything else."""
    if not isinstance(usage, _USAGES):
        return None
    count = usage.get(key)
    return count if isinstance(count, int) and not isinstance(count, bool) and count >= 0 else None


def all_nodes_usage(run: RunTrace) -> JsonObject:
    """`{"prompt_tokens", "completion_tokens", "calls"}` of all calls of models: as the client was told them,
    before that what the backends have reported so far. One that failed gave no answer and is none of them."""
    told = run.all_usage
    keys = ("prompt_tokens", "completion_tokens")
    if told is not None:
        return {key: count_of(told, key) for key in (*keys, "calls")}
    calls = [call for node in list(run.nodes) for call in list(node.calls) if _counts(call)]
    sums = {key: sum(count_of(call.usage, key) or 0 for call in calls) for key in keys}
    return {**sums, "calls": len(calls)}


def _counts(call: CallTrace) -> bool:
    return call.kind == "model" and not call.error
