"""Who tried too many wrong keys: addresses and times, so few that nobody can fill the memory with them.

Source: spec console.md 2.4.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable

MOST_WRONG = 10
WITHIN_S = 60.0
MOST_ADDRESSES = 1000
"""So many are remembered, the newest ones."""


class WrongKeys:
    """After `MOST_WRONG` wrong keys within `WITHIN_S` an address is shut out for as long."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock, self._lock = clock, threading.Lock()
        self._times: OrderedDict[str, list[float]] = OrderedDict()

    def add(self, address: str) -> None:
        """It gave a wrong key."""
        with self._lock:
            now = self._clock()
            recent = [one for one in self._times.pop(address, []) if now - one < WITHIN_S]
            self._times[address] = [*recent, now][-MOST_WRONG:]
            if len(self._times) > MOST_ADDRESSES:
                self._times.popitem(last=False)

    def shuts_out(self, address: str) -> bool:
        """Claims that the address has to wait: whatever its key is, it is not looked at."""
        times = self._times.get(address, [])
        return len(times) >= MOST_WRONG and self._clock() - times[-1] < WITHIN_S
