"""Closes pooled connections that nobody uses any more, whether or not another call follows."""

from __future__ import annotations

import functools
import threading
import time
import weakref
from contextlib import AbstractContextManager, nullcontext
from typing import Any

IDLE_S = 60.0
"""A pooled connection that nobody used for so long is closed."""

SWEEP_EVERY_S = 10.0


class IdleConnections:
    """Watches pools of urllib3. Its thread lives while one of them holds a connection, and no longer.

    Source: spec backends.md 15.1 and tools.md 11.1.
    """

    def __init__(self) -> None:
        # Reentrant: the garbage collector may give a connection back in the middle of `watch`.
        self._guard = threading.RLock()
        self._pools: weakref.WeakSet[Any] = weakref.WeakSet()
        self._thread: threading.Thread | None = None

    def watch(self, pool: Any) -> None:
        """For each connection that came back to the pool."""
        with self._guard:
            self._pools.add(pool)
            if self._thread is None or not self._thread.is_alive():  # a fork leaves it behind
                self._thread = threading.Thread(target=self._run, name="idle-connections", daemon=True)
                self._thread.start()

    def close_idle(self, now: float) -> bool:
        """Close the connections that have been idle since `now - IDLE_S` or longer. Whether any is kept."""
        with self._guard:
            for pool in list(self._pools):
                if not _close_idle_of(pool.pool, now):
                    self._pools.discard(pool)
            return len(self._pools) > 0

    def _run(self) -> None:
        while True:
            time.sleep(SWEEP_EVERY_S)
            with self._guard:
                if not self.close_idle(time.monotonic()):
                    self._thread = None
                    return


@functools.cache
def idle_connections() -> IdleConnections:
    """The one that the whole process shares."""
    return IdleConnections()


def _close_idle_of(queue: Any, now: float) -> bool:
    """Whether the pool's queue keeps any. `queue`: None when the pool was closed."""
    if queue is None:
        return False
    with _lock_of(queue):
        waiting = [connection for connection in queue.queue if connection is not None]
    outdated = [connection for connection in waiting if now - connection.idle_since >= IDLE_S]
    for connection in outdated:
        _close_if_idle(queue, connection)
    return len(outdated) < len(waiting)


def _lock_of(queue: Any) -> AbstractContextManager[Any]:
    """The queue's own lock. gevent's queue has none: no other greenlet runs inside the block."""
    lock: AbstractContextManager[Any] | None = getattr(queue, "mutex", None)
    return nullcontext() if lock is None else lock


def _close_if_idle(queue: Any, connection: Any) -> None:
    """Close it unless a caller took it from the pool in between; its place in the pool becomes empty."""
    with _lock_of(queue):
        if connection in queue.queue:
            queue.queue[queue.queue.index(connection)] = None
        else:
            return
    connection.close()
