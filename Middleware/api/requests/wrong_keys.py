"""When the log tells of wrong keys: once a minute and address, so that nobody fills it, nor the memory.

Source: spec keys.md 3 and workbench.md 16.7.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable

LINE_EACH_S = 60.0
MOST_ADDRESSES = 1000
"""So many are remembered, the newest ones."""


class WrongKeyLines:
    """How many wrong keys each address has sent since the log's last line about it."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock, self._lock = clock, threading.Lock()
        self._seen: OrderedDict[str, tuple[float, int]] = OrderedDict()

    def add(self, address: str) -> int:
        """It sent one. How many the log is to tell of now; 0: this one counts for the next line."""
        with self._lock:
            now = self._clock()
            last, count = self._seen.pop(address, (-LINE_EACH_S, 0))
            is_due = now - last >= LINE_EACH_S
            self._seen[address] = (now, 0) if is_due else (last, count + 1)
            while len(self._seen) > MOST_ADDRESSES:
                self._seen.popitem(last=False)
        return count + 1 if is_due else 0
