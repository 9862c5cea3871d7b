"""A run that ended as a row of the history: names of the configuration and numbers, never a text.

Source: spec operate.md 5.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from Middleware.api.console.hour import Hour
from Middleware.api.console.run_sums import count_of, usage_of
from Middleware.api.console.run_texts import answering_node, costs_of
from Middleware.api.console.stood_out import Around, all_that_stood_out, no_place
from Middleware.api.console.unfilled_names import around_of
from Middleware.api.console.view_contract import Hub
from Middleware.services.history import HistoryRow
from Middleware.services.node_trace import CallTrace
from Middleware.services.run_trace import RunTrace

PRIVATE = "private"
"""Stands for the names of a private user and of the key."""
LOOKS = 1_000
"""After so many runs the files are looked at anew."""


class RowMaker:
    """`hub`: of the console, None: it is off. `slots`: how many requests may run at once, 0 = any number."""

    def __init__(self, hub: Hub | None, hour: Hour, slots: int) -> None:
        self._hub, self._hour, self._slots = hub, hour, slots
        self._around: Around | None = None
        self._made = 0

    def row_of(self, run: RunTrace) -> HistoryRow:
        if self._around is None or self._made % LOOKS == 0:
            self._around = self._surroundings()
        self._made += 1
        return history_row(run, self._around)

    def _surroundings(self) -> Around:
        """Without the console nobody has looked at the files."""
        if self._hub is not None:
            return replace(around_of(self._hub), place=no_place)
        return Around(self._slots, self._hour.calls, model_before=self._hour.model_before)


def history_row(run: RunTrace, around: Around) -> HistoryRow:
    """`around`: what is known besides the run, for what stood out."""
    node = answering_node(run)
    rules = (told["rule"] for told in all_that_stood_out(run, run.ended, around))
    return HistoryRow(
        at=run.wall,
        user=PRIVATE if run.private else run.user,
        workflow=run.answering or run.workflow,
        key=PRIVATE if run.private and run.key else run.key,
        state=run.state,
        took_s=round((run.answered or run.ended) - run.arrived, 3),
        first_s=round(run.first_text - run.arrived, 3) if run.first_text else None,
        prompt=_tokens(run, "prompt_tokens"),
        completion=_tokens(run, "completion_tokens"),
        held=_held_tokens(run),
        endpoint=node.endpoint if node is not None else "",
        stood_out=tuple(dict.fromkeys(rules)),
        costs=costs_of(run),
    )


def _tokens(run: RunTrace, key: str) -> int:
    """Of all calls to models, as its costs are: those of nodes after the answer and prompts that were read
    ahead too."""
    return count_of(usage_of(run).whole._asdict(), key) or 0


def _held_tokens(run: RunTrace) -> int | None:
    """Of all these prompts; None: no backend said."""
    calls = _calls(run, "model", "prefill")
    known = [held for call in calls if (held := count_of(call.usage, "cached_tokens")) is not None]
    return sum(known) if known else None


def _calls(run: RunTrace, *kinds: str) -> Iterator[CallTrace]:
    return (call for node in list(run.nodes) for call in list(node.calls) if call.kind in kinds)
