"""Has the client gone? One answer for every server.

waitress gives a function to ask, gunicorn the socket to peek into; elsewhere only the next write tells. Where
bytes that nobody reads yet (a stray line end, the next request) stand before the end of the connection, the
kernel is asked for it. One thread asks for all running requests every 50 ms; under gevent its event loop
tells, so that a thousand silent clients cost nothing. Never reads a byte of what the client sends. Source:
frontend-api.md 2.4.
"""

from __future__ import annotations

import _thread
import logging
import select
import socket
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from Middleware.utilities.library_internals import unwaiting_socket

logger = logging.getLogger(__name__)

PERIOD_S = 0.05
IDLE_S = 5.0
"""The watcher's thread ends when there was nothing to watch for so long."""

_PEEK = int(getattr(socket, "MSG_PEEK", 0) | getattr(socket, "MSG_DONTWAIT", 0))
_ENDED = select.POLLRDHUP | select.POLLHUP | select.POLLERR if hasattr(select, "POLLRDHUP") else 0
_READABLE = 1
"""What gevent's event loop is asked to wait for."""

Probe = Callable[[], bool]


class Watch:
    """One watched request. `stop()` before it ends: the connection may serve the next one."""

    __slots__ = ("active", "bell", "on_gone", "probe")

    def __init__(self, probe: Probe, on_gone: Callable[[], object]) -> None:
        self.probe, self.on_gone, self.active = probe, on_gone, True
        self.bell: Any = None
        """gevent's watcher of the connection, while there is one."""

    def stop(self) -> None:
        self.active = False
        self.unhang_bell()

    def unhang_bell(self) -> None:
        if self.bell is not None:
            self.bell.stop()
            self.bell.close()
            self.bell = None


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
        loop = _event_loop_of(environ)
        if loop is None:
            self._ask_from_now_on(watch)
        else:
            watch.bell = loop.io(environ["gunicorn.socket"].fileno(), _READABLE)
            watch.bell.start(self.handle_readable_socket, watch)
        return watch

    def handle_readable_socket(self, watch: Watch) -> None:
        """The connection has become readable: its end, or the next request. The event loop must not wait,
        not even for a Thread to say that it has begun: a bare thread looks.
        """
        watch.unhang_bell()
        _thread.start_new_thread(self._look_after_bell, (watch,))

    def _look_after_bell(self, watch: Watch) -> None:
        _look_at(watch)
        if watch.active:  # the next request waits there; its end is behind it and rings no bell
            self._ask_from_now_on(watch)

    def _ask_from_now_on(self, watch: Watch) -> None:
        with self._lock:
            self._watches.append(watch)
            if not self.is_running:
                self.is_running = True
                threading.Thread(target=self._run, name="client-watch", daemon=True).start()

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
            _look_at(watch)


def _look_at(watch: Watch) -> None:
    if watch.active and watch.probe() and watch.active:
        watch.stop()
        try:
            watch.on_gone()
        except Exception:
            logger.exception("the request of a client that disconnected could not be aborted")


def _event_loop_of(environ: dict[str, Any]) -> Any:
    """The loop behind a gevent socket, None for any other."""
    hub = getattr(environ.get("gunicorn.socket"), "hub", None)
    return getattr(hub, "loop", None)


def probe_of(environ: dict[str, Any]) -> Probe | None:
    """A function that says whether the client of this request has gone; None when the server gives no way."""
    asked: Probe | None = environ.get("waitress.client_disconnected")
    if asked is not None:
        channel = getattr(asked, "__self__", None)
        return lambda: asked() or _half_closed(getattr(channel, "socket", None))
    connection = environ.get("gunicorn.socket")
    return None if connection is None else _peek_of(connection)


def end_connection(environ: dict[str, Any]) -> None:
    """The answer that is being given is the connection's last: no further request is waited for.

    gunicorn waits for one for seconds, also while it stops. Other servers know by themselves.
    """
    connection = environ.get("gunicorn.socket")
    if connection is not None:
        with suppress(OSError):  # the client was quicker
            connection.shutdown(socket.SHUT_RD)


def _peek_of(connection: Any) -> Probe:
    plain = unwaiting_socket(connection)

    def is_gone() -> bool:
        try:
            return bool(plain.recv(1, _PEEK) == b"") or _half_closed(plain)
        except (BlockingIOError, InterruptedError, ValueError):  # nothing to read; TLS cannot be peeked into
            return _half_closed(plain)
        except OSError:
            return True

    return is_gone


def _half_closed(connection: Any) -> bool:
    """The client has closed its end, whatever bytes of it are still to be read. False where the kernel
    cannot tell (Linux can).
    """
    if not _ENDED or connection is None:
        return False
    try:
        poll = _poll()
        poll.register(connection.fileno(), select.POLLRDHUP)
        return any(event & _ENDED for _, event in poll.poll(0))
    except (OSError, ValueError):  # closed on our side: the server knows more
        return False


def _poll() -> Any:
    """The kernel's own poll: gevent puts another into its place, which does not know this event."""
    monkey = sys.modules.get("gevent.monkey")
    return select.poll() if monkey is None else monkey.get_original("select", "poll")()
