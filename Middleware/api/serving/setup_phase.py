"""At most a few requests at a time in their CPU-bound set-up phase, so that running streams keep their pace.

A request leaves the phase when it begins to wait for a backend. The phase never holds a request up for long.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

PLACES = 8
PATIENCE_S = 0.25
"""Who waited this long goes on without a place."""


class SetupPhase:
    """`enter` waits for a place and gives the function that leaves it, which may be called again."""

    def __init__(self, places: int = PLACES, patience_s: float = PATIENCE_S) -> None:
        self._places, self._patience_s = threading.Semaphore(places), patience_s

    def enter(self) -> Callable[[], None]:
        admitted = self._places.acquire(timeout=self._patience_s)
        pending = [self._places.release] if admitted else []

        def leave() -> None:
            try:
                release = pending.pop()
            except IndexError:
                return
            release()

        return leave
