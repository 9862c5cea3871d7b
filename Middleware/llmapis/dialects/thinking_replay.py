"""Signed thinking blocks, kept for an hour so that a tool turn can be sent back as Claude said it.

Clients know nothing of the signature; they send back the call with its id, and that is the key.
In memory only.
Source: spec backends.md 9.6.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable

from Middleware.common.types import JsonObject

KEPT_FOR_S = 3600.0
MOST_CALLS = 2000


class ThinkingReplay:
    """`(endpoint, tool call id)` -> thinking blocks. Thread-safe; the oldest goes when there are too many."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._kept: OrderedDict[tuple[str, str], tuple[float, list[JsonObject]]] = OrderedDict()

    def keep(self, endpoint: str, call_ids: Iterable[str], blocks: list[JsonObject]) -> None:
        """Remember `blocks` for each of the calls; nothing is kept when there are no blocks."""
        if not blocks:
            return
        until = self._clock() + KEPT_FOR_S
        with self._lock:
            for call_id in call_ids:
                self._kept[(endpoint, call_id)] = (until, blocks)
                self._kept.move_to_end((endpoint, call_id))
            while self._kept and (len(self._kept) > MOST_CALLS or self._oldest_is_over()):
                self._kept.popitem(last=False)

    def of(self, endpoint: str, call_id: str) -> list[JsonObject]:
        """The blocks that came with a call; `[]` when none are known any more."""
        with self._lock:
            until, blocks = self._kept.get((endpoint, call_id), (0.0, []))
        return blocks if until > self._clock() else []

    def _oldest_is_over(self) -> bool:
        until, _ = next(iter(self._kept.values()))
        return until <= self._clock()


thinking_replay = ThinkingReplay()
"""The process's own."""
