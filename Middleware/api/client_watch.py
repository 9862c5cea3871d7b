"""Has the client gone? One answer for every server.

waitress gives a function to ask, gunicorn the socket to peek into; elsewhere only the next write tells. One
thread asks for all running requests every 50 ms. Never reads a byte of what the client sends. Source:
frontend-api.md 2.4.
"""

from __future__ import annotations

import logging
import socket
import threading
import time
from collections.abc import Callable
from typing import Any

logger = logging.getLogger(__name__)

PERIOD_S = 0.05
IDLE_S = 5.0
"""The watcher's thread ends when there was nothing to watch for so long."""

Probe = Callable[[], bool]


class Watch:
    """One watched request. `stop()` before it ends: the connection may serve the next one."""

    __slots__ = ("active", "on_gone", "probe")

    def __init__(self, probe: Probe, on_gone: Callable[[], object]) -> None:
        self.probe, self.on_gone, self.active = probe, on_gone, True

    def stop(self) -> None:
        self.active = False


class ClientWatcher:
    """Asks each watch's probe every `period_s` and calls its `on_gone` once, in the watcher's thread."""

    def __init__(self, period_s: float = PERIOD_S) -> None:
        self._period_s = period_s
        self._lock = threading.Lock()
        self._watches: list[Watch] = []
        self.idle_s = IDLE_S
        self.is_running = False

    def watch(self, environ: dict[str, Any], on_gone: Callable[[], object]) -> Watch | None:
        """None where the server gives no way to ask."""
        probe = probe_of(environ)
        if probe is None:
            return None
        watch = Watch(probe, on_gone)
        with self._lock:
            self._watches.append(watch)
            if not self.is_running:
                self.is_running = True
                threading.Thread(target=self._run, name="client-watch", daemon=True).start()
        return watch

    def _run(self) -> None:
        """Ends itself when there is nothing to watch: an idle server has no thread that wakes up."""
        idle = 0
        while True:
            time.sleep(self._period_s)
            self.look()
            with self._lock:
                self._watches = [watch for watch in self._watches if watch.active]
                idle = 0 if self._watches else idle + 1
                if idle * self._period_s > self.idle_s:
                    self.is_running = False
                    return

    def look(self) -> None:
        """Ask every probe once."""
        for watch in tuple(self._watches):
            if watch.active and watch.probe() and watch.active:
                watch.stop()
                try:
                    watch.on_gone()
                except Exception:
                    logger.exception("aborting the request of a client that has gone failed")


def probe_of(environ: dict[str, Any]) -> Probe | None:
    """A function that says whether the client of this request has gone; None when the server gives no way."""
    asked: Probe | None = environ.get("waitress.client_disconnected")
    if asked is not None:
        return asked
    connection = environ.get("gunicorn.socket")
    return None if connection is None else _peek_of(connection)


def _peek_of(connection: Any) -> Probe:
    plain = getattr(connection, "_sock", connection)  # gevent's wrapper would wait for data

    def gone() -> bool:
        try:
            return bool(plain.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT) == b"")
        except (BlockingIOError, InterruptedError, ValueError):  # nothing to read; TLS cannot be peeked into
            return False
        except OSError:
            return True

    return gone
