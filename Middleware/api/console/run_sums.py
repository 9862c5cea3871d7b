"""What the calls of a run used. Pure, and light: a start needs it. Source: spec console.md 6.3."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from Middleware.common.types import JsonObject
from Middleware.services.node_trace import CallTrace
from Middleware.services.run_trace import RunTrace

_USAGES = (dict, Mapping)
"""Most are dicts, which are told from others ten times as fast."""


def count_of(usage: object, key: str) -> int | None:
    """A number that a backend reported; None for anything else."""
    if not isinstance(usage, _USAGES):
        return None
    count = usage.get(key)
    return count if isinstance(count, int) and not isinstance(count, bool) and count >= 0 else None


class UsageCount(NamedTuple):
    """Tokens and calls of models; None: a number that nobody can add up was reported."""

    prompt_tokens: int | None = 0
    completion_tokens: int | None = 0
    calls: int | None = 0

    def plus(self, other: UsageCount) -> UsageCount:
        if other is NO_CALLS:
            return self
        return UsageCount(*map(_added, self, other))

    def less(self, other: UsageCount) -> UsageCount:
        return UsageCount(*map(_left, self, other))


NO_CALLS = UsageCount()


class RunUsage(NamedTuple):
    """`to_answer`: of the calls behind the answer, as the client is told it. `after`: of those behind it:
    of nodes that follow, and of prompts that are read ahead."""

    to_answer: UsageCount
    after: UsageCount

    @property
    def whole(self) -> UsageCount:
        return self.to_answer.plus(self.after)


def usage_of(run: RunTrace) -> RunUsage:
    """Of all calls to models; while the run goes on, what the backends have reported so far. One that failed
    gave no answer and is none of them. Source: spec workbench.md 16.2."""
    calls = [(call, node.after) for node in list(run.nodes) for call in list(node.calls) if not call.error]
    ahead = _sum(call for call, _ in calls if call.kind == "prefill")
    told, whole = run.all_usage, run.whole_usage
    if told is None and whole is None:
        behind = _sum(call for call, after in calls if after and call.kind == "model")
        return RunUsage(
            _sum(call for call, after in calls if not after and call.kind == "model"), behind.plus(ahead)
        )
    to_answer = NO_CALLS if told is None else _counts(told)
    if whole is None or whole == told:  # nothing ran behind the answer
        return RunUsage(to_answer, ahead)
    return RunUsage(to_answer, _counts(whole).less(to_answer).plus(ahead))


def all_nodes_usage(run: RunTrace) -> JsonObject:
    """`{"prompt_tokens", "completion_tokens", "calls", "to_answer", "after"}`: every call, and the same three
    numbers of those behind the answer and of those after it."""
    usage = usage_of(run)
    return {
        **usage.whole._asdict(),
        "to_answer": usage.to_answer._asdict(),
        "after": usage.after._asdict(),
    }


def _sum(calls: Iterable[CallTrace]) -> UsageCount:
    """A call without numbers is a call."""
    usages = [call.usage for call in calls]
    if not usages:
        return NO_CALLS
    prompt, completion = (
        sum(count_of(usage, key) or 0 for usage in usages) for key in ("prompt_tokens", "completion_tokens")
    )
    return UsageCount(prompt, completion, len(usages))


def _counts(told: Mapping[str, object]) -> UsageCount:
    return UsageCount(
        count_of(told, "prompt_tokens"), count_of(told, "completion_tokens"), count_of(told, "calls")
    )


def _added(one: int | None, more: int | None) -> int | None:
    return None if one is None or more is None else one + more


def _left(one: int | None, part: int | None) -> int | None:
    return None if one is None or part is None else max(0, one - part)
