"""Waiting for bytes under gevent, for many streams of lone tokens: one ticker serves them all.

A gevent socket first tries to read, finds nothing, and makes a Timeout for each wait. Here a stream waits
first, and a ticker wakes those that have waited for a tick. Source: gevent's `Hub.wait` and
`Hub.cancel_wait`; the measurement is in docs/performance.md.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any
from weakref import WeakKeyDictionary

STEP_S = 0.1
"""How often the ticker looks: a tick comes up to this much early, never late."""
_READABLE = 1


class SharedWait:
    """The waits of one stream on a plain gevent socket. Its TimeoutErrors are its ticks."""

    def __init__(self, ticker: _Ticker, socket: Any, tick_s: float) -> None:
        self._ticker, self._tick_s = ticker, tick_s
        self._watcher = ticker.hub.loop.io(socket.fileno(), _READABLE)
        self._since = 0.0
        self._turn: Callable[[Any], object] = ticker.hub.wait
        self._receive: Callable[[int], bytes] = socket.recv
        ticker.add(self)

    def receive(self, size: int) -> bytes:
        """What came. Raises TimeoutError after a tick of silence."""
        self._since = time.monotonic()
        self._turn(self._watcher)
        return self._receive(size)

    def is_due(self, now: float) -> bool:
        return self._watcher.active and now - self._since >= self._tick_s - STEP_S

    def wake(self) -> None:
        self._ticker.hub.cancel_wait(self._watcher, TimeoutError("a tick of silence"))

    def close(self) -> None:
        self._ticker.remove(self)
        self._watcher.close()


class _Ticker:
    """One of a hub. Its greenlet ends when nobody waits any more."""

    def __init__(self, hub: Any, gevent: Any) -> None:
        self.hub, self._gevent = hub, gevent
        self._waits: set[SharedWait] = set()
        self._runs = False

    def add(self, wait: SharedWait) -> None:
        self._waits.add(wait)
        if not self._runs:
            self._runs = True
            self._gevent.spawn(self._run)

    def remove(self, wait: SharedWait) -> None:
        self._waits.discard(wait)

    def _run(self) -> None:
        while self._waits:
            self._gevent.sleep(STEP_S)
            now = time.monotonic()
            for wait in [wait for wait in self._waits if wait.is_due(now)]:
                wait.wake()
        self._runs = False


_tickers: WeakKeyDictionary[Any, _Ticker] = WeakKeyDictionary()
"""Hub -> its ticker."""


def shared_wait(socket: Any, tick_s: float) -> SharedWait | None:
    """The waits of a stream, to be closed at its end. None where the socket's own time-out must do: without
    gevent, with TLS (bytes that are decoded already cannot be waited for), for short ticks, in another thread
    than the socket's.
    """
    gevent_socket = sys.modules.get("gevent.socket")
    if gevent_socket is None or type(socket) is not gevent_socket.socket or tick_s < 5 * STEP_S:
        return None
    gevent = sys.modules["gevent"]
    hub = gevent.get_hub()
    if socket.hub is not hub:
        return None
    ticker = _tickers.get(hub)
    if ticker is None:
        ticker = _tickers[hub] = _Ticker(hub, gevent)
    return SharedWait(ticker, socket, tick_s)
