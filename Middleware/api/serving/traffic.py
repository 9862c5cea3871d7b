"""What goes through the front door, in numbers: for the routes that tell of the server itself."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

TRAFFIC = "headrace.traffic"
"""Key of the WSGI environment under which the server's Traffic stands."""


def _none_wait() -> int:
    return 0


class Traffic:
    """Generation requests since the start.

    `needs_key`: clients must have a key. `waiting()`: how many stand at the gate; they count as running too.
    """

    def __init__(self, *, needs_key: bool = False, waiting: Callable[[], int] = _none_wait) -> None:
        self.needs_key, self.waiting = needs_key, waiting
        self.running = self.finished = 0
        self._started = self._ended = time.monotonic()
        self._lock = threading.Lock()

    def begin(self) -> None:
        with self._lock:
            self.running += 1

    def end(self) -> None:
        with self._lock:
            self.running -= 1
            self.finished += 1
            self._ended = time.monotonic()

    @property
    def uptime_s(self) -> int:
        return int(time.monotonic() - self._started)

    @property
    def idle_s(self) -> int:
        """Seconds since the last one ended; 0 while one runs."""
        return 0 if self.running else int(time.monotonic() - self._ended)
