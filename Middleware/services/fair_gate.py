"""A counting gate that serves in order of arrival; a waiter whose request is cancelled leaves at once.

Knows nothing of HTTP or of models: the API's gate (level `wilmer`) and the gate of outgoing calls (level
`endpoint`) are both made of it. Source: spec frontend-api.md 15 and backends.md 15.5.
"""

from __future__ import annotations

import threading
from collections import deque
from functools import lru_cache

from Middleware.common.errors import RequestCancelled, ServerBusy
from Middleware.common.instance_global_variables import launch_facts
from Middleware.services.cancellation_service import CancellationService, cancellation_service


class _Waiter:
    """One place in the queue.

    `turn` is a lock that is held until the waiter's turn has come, or it must leave.
    """

    __slots__ = ("admitted", "turn")

    def __init__(self) -> None:
        self.admitted = False
        self.turn = threading.Lock()
        self.turn.acquire()


class FairGate:
    """At most `limit` holders; at most `max_waiting` in the queue (0: any number).

    Releasing too often is an error.
    """

    def __init__(
        self,
        limit: int,
        max_waiting: int = 0,
        cancellation: CancellationService = cancellation_service,
    ) -> None:
        self.limit, self._max_waiting, self._cancellation = limit, max_waiting, cancellation
        self._lock = threading.Lock()
        self._free = limit
        self._queue: deque[_Waiter] = deque()

    def acquire(self, blocking: bool = True, timeout: float | None = None, *, request_id: str = "") -> bool:
        """Take a slot; False when none came free within `timeout` seconds (None: wait for ever).

        Raises ServerBusy when the queue is full, RequestCancelled when `request_id` is cancelled while it
        waits.
        """
        with self._lock:
            if self._free and not self._queue:
                self._free -= 1
                return True
            if not blocking:
                return False
            if self._max_waiting and len(self._queue) >= self._max_waiting:
                raise ServerBusy(f"server is busy: {len(self._queue)} requests are waiting already")
            waiter = _Waiter()
            self._queue.append(waiter)
        return self._wait(waiter, timeout, request_id)

    def _wait(self, waiter: _Waiter, timeout: float | None, request_id: str) -> bool:
        def leave() -> None:
            with self._lock:
                if waiter in self._queue:
                    self._queue.remove(waiter)
                    waiter.turn.release()

        self._cancellation.register_abort_callback(request_id, leave)
        try:
            waiter.turn.acquire(timeout=-1 if timeout is None else max(0.0, timeout))
        finally:
            self._cancellation.unregister_abort_callback(request_id, leave)
            with self._lock:
                if waiter in self._queue:
                    self._queue.remove(waiter)
        if waiter.admitted:
            return True
        if self._cancellation.is_cancelled(request_id):
            raise RequestCancelled
        return False

    def release(self) -> None:
        """Give a slot back: the one who waits longest gets it."""
        with self._lock:
            if self._queue:
                waiter = self._queue.popleft()
                waiter.admitted = True
                waiter.turn.release()
            elif self._free < self.limit:
                self._free += 1
            else:
                raise ValueError("FairGate released more often than it was taken")

    @property
    def waiting(self) -> int:
        return len(self._queue)


@lru_cache(maxsize=8)
def _outgoing(limit: int, instance_id: str) -> FairGate:
    return FairGate(limit)


def outgoing_gate() -> FairGate | None:
    """The process's gate for outgoing model calls: level `endpoint` with a limit, else None."""
    facts = launch_facts()
    if facts.concurrency_level != "endpoint" or facts.concurrency <= 0:
        return None
    return _outgoing(facts.concurrency, facts.instance_id)
