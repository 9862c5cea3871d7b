"""Who may probe an endpoint now, and what the last probe of each showed.

One at a time an endpoint and one each ten seconds, few at once: a probe is a call to somebody's model.
Source: spec console.md 10.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

EACH_S = 10.0
AT_ONCE = 4

Key = tuple[str, str]
"""User and endpoint."""


class NotNow(Exception):
    """A probe must wait. `wait_s`: about how long."""

    def __init__(self, sentence: str, wait_s: float) -> None:
        super().__init__(sentence)
        self.wait_s = wait_s


class Probes:
    """The probes of one server. `clock`: of `time.monotonic()`."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._guard = threading.Lock()
        self._running: set[Key] = set()
        self._begun: dict[Key, float] = {}
        self._last: dict[Key, dict[str, Any]] = {}

    def last(self, key: Key) -> dict[str, Any] | None:
        """What the last probe showed."""
        return self._last.get(key)

    def run(self, key: Key, probe: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """Probe, and keep what it gives. Raises NotNow, and what the probe raises."""
        self._begin(key)
        try:
            shown = probe()
        finally:
            with self._guard:
                self._running.discard(key)
        self._last[key] = shown
        return shown

    def _begin(self, key: Key) -> None:
        with self._guard:
            now = self._clock()
            if key in self._running:
                raise NotNow("this endpoint is being probed already", EACH_S)
            wait = self._begun.get(key, -EACH_S) + EACH_S - now
            if wait > 0:
                raise NotNow(f"this endpoint was probed within the last {EACH_S:g} seconds", wait)
            if len(self._running) >= AT_ONCE:
                raise NotNow(f"{AT_ONCE} endpoints are being probed already", EACH_S)
            self._running.add(key)
            self._begun[key] = now
