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
MOST_LOOKS = 20
LOOKS_WITHIN_S = 1.0
MOST_ADDRESSES = 1000
"""So many are remembered, the newest ones."""


class WrongKeys:
    """After `MOST_WRONG` wrong keys within `WITHIN_S` an address is shut out for as long.

    Its right key opens all the same: behind a proxy, and on one machine, the owner has the address of
    everybody. So that nobody guesses at full speed, no key is looked at while `MOST_LOOKS` wrong ones came
    within `LOOKS_WITHIN_S`.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock, self._lock = clock, threading.Lock()
        self._times: OrderedDict[str, list[float]] = OrderedDict()

    def add(self, address: str) -> None:
        """It gave a wrong key."""
        with self._lock:
            now = self._clock()
            recent = [one for one in self._times.pop(address, []) if now - one < WITHIN_S]
            self._times[address] = [*recent, now][-MOST_LOOKS:]
            if len(self._times) > MOST_ADDRESSES:
                self._times.popitem(last=False)

    def shuts_out(self, address: str) -> bool:
        """Whether a wrong key, or none, from this address is answered with the time that it has to wait."""
        times = self._times.get(address, [])
        return len(times) >= MOST_WRONG and self._clock() - times[-1] < WITHIN_S

    def looks_at(self, address: str) -> bool:
        """Whether a key from this address is looked at now."""
        times = self._times.get(address, [])
        return len(times) < MOST_LOOKS or self._clock() - times[0] >= LOOKS_WITHIN_S
