"""Which warnings are due: what is true of every message of a client is logged once an hour, not each time."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

HOUR_S = 3600.0
MOST = 10_000
"""How many are remembered; the oldest gives way and may be logged again early."""


class HourlyWarnings:
    """Thread-safe. `clock`: seconds that only grow."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._logged: dict[tuple[str, str], float] = {}

    def is_due(self, user: str, subject: str) -> bool:
        """True at most once an hour for a user and a subject; who gets True logs the warning."""
        now, key = self._clock(), (user, subject)
        with self._lock:
            last = self._logged.get(key)
            if last is not None and now - last < HOUR_S:
                return False
            self._logged.pop(key, None)
            if len(self._logged) >= MOST:
                del self._logged[next(iter(self._logged))]
            self._logged[key] = now
            return True


hourly_warnings = HourlyWarnings()
