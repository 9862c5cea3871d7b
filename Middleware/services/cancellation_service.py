"""Which requests run, which of them are cancelled, and what to call to abort them.

Knows ids and callables only: never a socket, a thread or a protocol. `is_cancelled` is one look-up in a dict
and takes no lock, because streams ask it for every batch: a request that runs in another process is cancelled
there, by a message. Source: spec frontend-api.md 13.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count

from Middleware.services.shared_state.member import Member, this_process

logger = logging.getLogger(__name__)

MARK_LIFETIME_S = 3600.0

RUNNING = "running"
"""Kind of the record that a request runs: its id, and whose it is."""
CANCEL = "cancel"
"""Word of the message that cancels one."""

ASKED_TO = "DELETE"
"""Why: another request of the client's asked for it, as each protocol does."""

AbortCallback = Callable[[], object]


class CancellationService:
    """Running ids, cancelled ids with expiry, abort callbacks. Every method may be called from any thread.

    `member()`: through whom other processes are reached; None: there are none.
    """

    def __init__(
        self, clock: Callable[[], float] = time.monotonic, member: Callable[[], Member] | None = None
    ) -> None:
        alone = Member()
        self._clock, self.member = clock, member or (lambda: alone)
        self._lock = threading.Lock()
        self._marks: dict[str, float] = {}
        self._reasons: dict[str, str] = {}
        self._callbacks: dict[str, list[AbortCallback]] = {}
        self._running: dict[str, str] = {}
        self._parts = count(1)

    def begin(self, request_id: str, owner: str = "") -> None:
        """The request runs from now on, also while it waits for its turn, until it is acknowledged. `owner`:
        of its key, where keys have owners (keys.md 2).
        """
        with self._lock:
            self._running[request_id] = owner
        member = self.member()
        member.hear(CANCEL, self._cancel_here)
        member.put(RUNNING, request_id, owner)

    def is_running(self, request_id: str) -> bool:
        """In this process or another one."""
        return request_id in self._running or self.member().find(RUNNING, request_id) is not None

    def is_running_of(self, request_id: str, owner: str | None) -> bool:
        """As `is_running`, of this owner; None: of anybody."""
        whose = self._running.get(request_id)
        if whose is None:
            whose = self.member().find(RUNNING, request_id)
        return whose is not None and owner in (None, whose)

    def runs_here(self, request_id: str) -> bool:
        return request_id in self._running

    def request_cancellation(self, request_id: str, why: str = "") -> None:
        """Mark the id and run its abort callbacks, once. Later calls, and an empty id, do nothing.

        `why`: who wanted it, for those who look at the run. What runs in another process is cancelled there,
        a moment later.
        """
        if not request_id:
            return
        if request_id not in self._running and request_id not in self._marks:
            member = self.member()
            if member.find(RUNNING, request_id) is not None:
                member.tell(f"{CANCEL} {request_id} {why}".rstrip())
                return
        self._mark(request_id, why)

    def _cancel_here(self, told: str) -> None:
        """A message came: an id, and why. What ended meanwhile, or runs elsewhere, leaves no trace."""
        request_id, _, why = told.partition(" ")
        if request_id in self._running:
            self._mark(request_id, why)

    def _mark(self, request_id: str, why: str) -> None:
        with self._lock:
            now = self._clock()
            self._prune(now)
            if request_id in self._marks:
                return
            self._marks[request_id] = now
            self._reasons[request_id] = why
            callbacks = self._callbacks.pop(request_id, [])
        for callback in callbacks:
            _call(request_id, callback)

    def is_cancelled(self, request_id: str) -> bool:
        """False for an id that nobody cancelled, and for an empty one."""
        return request_id in self._marks

    def reason(self, request_id: str) -> str:
        """Who wanted the cancellation; empty when nobody said, or when there was none."""
        return self._reasons.get(request_id, "")

    def register_abort_callback(self, request_id: str, callback: AbortCallback) -> None:
        """Call `callback()` when the id is cancelled; at once, and without keeping it, when it already is."""
        if not request_id:
            return
        with self._lock:
            if request_id not in self._marks:
                self._callbacks.setdefault(request_id, []).append(callback)
                return
        _call(request_id, callback)

    def unregister_abort_callback(self, request_id: str, callback: AbortCallback) -> None:
        """One call of the request ended by itself. An unknown callback is no error."""
        with self._lock:
            callbacks = self._callbacks.get(request_id, [])
            if callback in callbacks:
                callbacks.remove(callback)
            if not callbacks:
                self._callbacks.pop(request_id, None)

    def unregister_abort_callbacks(self, request_id: str) -> None:
        """Every call of the request ended by itself."""
        with self._lock:
            self._callbacks.pop(request_id, None)

    @contextmanager
    def scope(self, request_id: str) -> Iterator[str]:
        """An id for a part of a request's work: it is cancelled with the request, and can be cancelled alone.

        Nothing is remembered of it after the block.
        """
        own = f"{request_id}.part{next(self._parts)}"

        def cancel_part() -> None:
            self._mark(own, self.reason(request_id))

        self.register_abort_callback(request_id, cancel_part)
        try:
            yield own
        finally:
            self.unregister_abort_callback(request_id, cancel_part)
            self.acknowledge_cancellation(own)

    def cancel_scope(self, scope: str, why: str = "") -> None:
        """Cancel what has an id of `scope`, once; its request goes on. No other process is asked."""
        self._mark(scope, why)

    def acknowledge_cancellation(self, request_id: str) -> None:
        """All work of the request has ended: nothing of it is remembered any more."""
        with self._lock:
            self._marks.pop(request_id, None)
            self._reasons.pop(request_id, None)
            self._callbacks.pop(request_id, None)
            owner = self._running.pop(request_id, None)
        if owner is not None:
            self.member().remove(RUNNING, request_id, owner)

    def get_all_cancelled_requests(self) -> set[str]:
        """A copy of the marked ids."""
        with self._lock:
            return set(self._marks)

    def _prune(self, now: float) -> None:
        old = [key for key, marked in self._marks.items() if now - marked > MARK_LIFETIME_S]
        for key in old:
            if key not in self._running:
                del self._marks[key]
                self._reasons.pop(key, None)


def _call(request_id: str, callback: AbortCallback) -> None:
    """Run one abort callback.

    It is foreign code that must not keep the others from running: an error is logged.
    """
    try:
        callback()
    except Exception:
        logger.exception("abort callback of request %s failed", request_id)


cancellation_service = CancellationService(member=this_process)
"""The process's own service."""
