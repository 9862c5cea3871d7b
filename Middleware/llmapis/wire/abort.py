"""The handle that ends one outgoing call from any thread: it knows the call's socket from before it connects.

Closing a session does not wake a thread that waits in `recv`; shutting the socket down does, in every phase:
connect, TLS, waiting for headers, stream. Never closes a socket that is in use: its own thread does. Source:
spec backends.md 15.4."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from Middleware.common.errors import RequestCancelled
from Middleware.common.request_context import EndpointReach


class AbortHandle:
    """One outgoing call. `on_abort(handle)` runs once, in the aborting thread, after the socket was shut.

    `pinned`: addresses to connect to instead of asking DNS. `connected`, `reused`: what the connection layer
    notes of the current try; `fresh`: what it is told; `tries`: how many there were. `reach`: who wants to
    know whether the backend is there."""

    def __init__(
        self, *, pinned: tuple[str, ...] = (), on_abort: Callable[[AbortHandle], None] | None = None
    ) -> None:
        self.pinned = pinned
        self.connected = False
        self.reused = False
        self.fresh = False
        self.tries = 0
        self.reach = EndpointReach()
        self._on_abort = on_abort
        self._event = threading.Event()
        self._lock = threading.Lock()
        self._sock: socket.socket | None = None
        self._owned = False

    @property
    def cancelled(self) -> bool:
        return self._event.is_set()

    def abort(self) -> None:
        """End the call. Safe from any thread, any number of times."""
        with self._lock:
            first = not self._event.is_set()
            self._event.set()
            if self._sock is not None:
                _shut(self._sock)
        if first and self._on_abort is not None:
            self._on_abort(self)

    def check(self) -> None:
        """Raises RequestCancelled after an abort."""
        if self._event.is_set():
            raise RequestCancelled

    def pause(self, seconds: float) -> None:
        """Wait; an abort ends the wait at once with RequestCancelled."""
        self._event.wait(seconds)
        self.check()

    def attach(self, sock: socket.socket, *, owned: bool = False) -> None:
        """From now on an abort shuts this socket. `owned`: a duplicate that the handle closes when it lets go
        of it."""
        with self._lock:
            self._let_go()
            self._sock, self._owned = sock, owned
            if self._event.is_set():
                _shut(sock)

    def detach(self) -> None:
        """The call has no socket any more, or none that is its own."""
        with self._lock:
            self._let_go()

    def _let_go(self) -> None:
        if self._owned and self._sock is not None:
            self._sock.close()
        self._sock, self._owned = None, False


def _shut(sock: socket.socket) -> None:
    try:
        # Not the method of a TLS socket: that one drops its TLS state under the feet of the reading thread.
        socket.socket.shutdown(sock, socket.SHUT_RDWR)
    except OSError:
        # Not connected yet, or gone already: a connect that waits is woken all the same.
        return


class _Current(threading.local):
    handle: AbortHandle | None = None


_current = _Current()


def current_handle() -> AbortHandle | None:
    """The handle of the call that this thread is opening, for the connection layer."""
    return _current.handle


@contextmanager
def opening(handle: AbortHandle, *, fresh: bool = False) -> Iterator[None]:
    """Inside the block, sockets that this thread opens or takes from the pool belong to `handle`. `fresh`:
    none is taken from the pool."""
    before, _current.handle = _current.handle, handle
    handle.connected = handle.reused = False
    handle.fresh = fresh
    try:
        yield
    finally:
        _current.handle = before
