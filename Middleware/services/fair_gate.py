"""A counting gate that serves in order of arrival; a waiter whose request is cancelled leaves at once.

Who says so stands behind everybody else: what a front end asks for itself waits for what people ask.

Knows nothing of HTTP or of models: the API's gate (level `wilmer`) and the gate of outgoing calls (level
`endpoint`) are both made of it. Source: spec frontend-api.md 15 and backends.md 15.5.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from functools import lru_cache

from Middleware.common.errors import RequestCancelled, ServerBusy
from Middleware.common.instance_global_variables import launch_facts
from Middleware.services.cancellation_service import CancellationService, cancellation_service

SETTLE_S = 0.5
"""A request that stands behind people lets nobody feel it: what comes so soon after it goes first."""

PATIENCE_S = 60.0
"""Who stood behind people for so long is served like everybody."""


class _Waiter:
    """One place in a queue.

    `turn` is a lock that is held until the waiter's turn has come, or it must leave. `behind`: it came to
    stand behind people; `settled`: and may enter when nobody else is there.
    """

    __slots__ = ("admitted", "behind", "settled", "turn")

    def __init__(self, behind: bool) -> None:
        self.behind = behind
        self.admitted = self.settled = False
        self.turn = threading.Lock()
        self.turn.acquire()


class FairGate:
    """At most `limit` holders; at most `max_waiting` in the queue (0: any number).

    Who comes with `behind` stands behind everybody else: it enters an empty gate only, not within `settle_s`
    of its arrival, and is an ordinary waiter after `patience_s` seconds. Releasing too often is an error.
    """

    def __init__(
        self,
        limit: int,
        max_waiting: int = 0,
        cancellation: CancellationService = cancellation_service,
        settle_s: float = SETTLE_S,
        patience_s: float = PATIENCE_S,
    ) -> None:
        self.limit, self._max_waiting, self._cancellation = limit, max_waiting, cancellation
        self._settle_s, self._patience_s = settle_s, patience_s
        self._lock = threading.Lock()
        self._free = limit
        self._queue: deque[_Waiter] = deque()
        self._behind: deque[_Waiter] = deque()

    def acquire(
        self,
        blocking: bool = True,
        timeout: float | None = None,
        *,
        request_id: str = "",
        behind: bool = False,
    ) -> bool:
        """Take a slot; False when none came free within `timeout` seconds (None: wait for ever).

        Raises ServerBusy when the queue is full, RequestCancelled when `request_id` is cancelled while it
        waits.
        """
        with self._lock:
            if self._free and not self._queue and not behind:
                self._free -= 1
                return True
            if not blocking:
                return False
            if self._max_waiting and len(self._queue) >= self._max_waiting:
                raise ServerBusy(f"server is busy: {len(self._queue)} requests are waiting already")
            waiter = _Waiter(behind)
            (self._behind if behind else self._queue).append(waiter)
        return self._wait(waiter, timeout, request_id)

    def _wait(self, waiter: _Waiter, timeout: float | None, request_id: str) -> bool:
        def leave() -> None:
            with self._lock:
                if self._drop(waiter):
                    waiter.turn.release()

        self._cancellation.register_abort_callback(request_id, leave)
        try:
            end = None if timeout is None else time.monotonic() + timeout
            if not (waiter.behind and self._wait_behind(waiter, end)):
                _until(waiter, end)
        finally:
            self._cancellation.unregister_abort_callback(request_id, leave)
            with self._lock:
                self._drop(waiter)
        if waiter.admitted:
            return True
        if self._cancellation.is_cancelled(request_id):
            raise RequestCancelled
        return False

    def _drop(self, waiter: _Waiter) -> bool:
        """True when the waiter stood in a queue; it does not any more."""
        for queue in (self._queue, self._behind):
            if waiter in queue:
                queue.remove(waiter)
                return True
        return False

    def _wait_behind(self, waiter: _Waiter, end: float | None) -> bool:
        """Wait behind people. False: the waiter stands in the queue of everybody now."""
        now = time.monotonic()
        if _until(waiter, end, now + self._settle_s):
            return True
        with self._lock:
            waiter.settled = True
            self._admit_behind()
        if _until(waiter, end, now + self._patience_s):
            return True
        with self._lock:
            if waiter not in self._behind:
                return False
            self._behind.remove(waiter)
            if self._free and not self._queue:
                self._free -= 1
                waiter.admitted = True
                return True
            self._queue.append(waiter)
        return False

    def _admit_behind(self) -> None:
        """Let in one that stands behind people, when the gate is empty. The lock is held."""
        waiter = next((waiter for waiter in self._behind if waiter.settled), None)
        if waiter is None or self._queue or self._free < self.limit:
            return
        self._behind.remove(waiter)
        self._free -= 1
        waiter.admitted = True
        waiter.turn.release()

    def release(self) -> None:
        """Give a slot back: the one who waits longest gets it."""
        with self._lock:
            if self._queue:
                waiter = self._queue.popleft()
                waiter.admitted = True
                waiter.turn.release()
            elif self._free < self.limit:
                self._free += 1
                self._admit_behind()
            else:
                raise ValueError("FairGate released more often than it was taken")

    @property
    def waiting(self) -> int:
        return len(self._queue) + len(self._behind)


def _until(waiter: _Waiter, *ends: float | None) -> bool:
    """Wait for the waiter's turn, until the first of `ends` (monotonic seconds; None: for ever)."""
    end = min((end for end in ends if end is not None), default=None)
    return waiter.turn.acquire(timeout=-1 if end is None else max(0.0, end - time.monotonic()))


@lru_cache(maxsize=8)
def _outgoing(limit: int, instance_id: str) -> FairGate:
    return FairGate(limit)


def outgoing_gate() -> FairGate | None:
    """The process's gate for outgoing model calls: level `endpoint` with a limit, else None."""
    facts = launch_facts()
    if facts.concurrency_level != "endpoint" or facts.concurrency <= 0:
        return None
    return _outgoing(facts.concurrency, facts.instance_id)
