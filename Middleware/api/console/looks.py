"""Runs as the page is told of them: what shapes need to know of the rest of the server is looked up here.

Source: spec console.md 6 and 8.4.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import cached_property

from Middleware.api.console.around import around_of
from Middleware.api.console.run_texts import Secrets
from Middleware.api.console.shapes import run_json, summary
from Middleware.api.console.stood_out import Around, all_that_stood_out, stood_out
from Middleware.api.console.view_contract import Hub
from Middleware.common.types import JsonObject
from Middleware.services.run_trace import RunTrace


class Look:
    """One look at the runs of a server, newest first. `clock`: as `time.monotonic`."""

    def __init__(self, hub: Hub, clock: Callable[[], float] = time.monotonic) -> None:
        self.hub, self.now = hub, clock()
        self.seq: int = hub.recorder.seq  # before the list: what comes between is looked at again
        self.runs: list[RunTrace] = hub.recorder.runs()
        waiting = [run.id for run in reversed(self.runs) if run.state == "waiting"]
        self._line = {run_id: place for place, run_id in enumerate(waiting, 1)}

    def place(self, run: RunTrace) -> int:
        """In the line of those that wait, from 1; 0: it waits no more."""
        return self._line.get(run.id, 0)

    def secrets(self, run: RunTrace) -> Secrets:
        return Secrets(run, self.hub.secrets)

    def summary(self, run: RunTrace) -> JsonObject:
        return summary(run, self.now, self.place(run), self._count(run), self.secrets(run))

    def run_json(self, run: RunTrace) -> JsonObject:
        told = stood_out(run, self.now, self._surroundings)
        return run_json(run, self.now, self.place(run), told, self.hub.secrets)

    def _count(self, run: RunTrace) -> int:
        """How much stood out. Of what has ended that is found out once: it costs more than all else."""
        counts: dict[str, int] = self.hub.recorder.counts
        count = counts.get(run.id)
        if count is None:
            count = len(all_that_stood_out(run, self.now, self._surroundings))
            if run.ended:
                self.hub.recorder.note_count(run.id, count)
        return count

    @cached_property
    def _surroundings(self) -> Around:
        return around_of(self.hub)
