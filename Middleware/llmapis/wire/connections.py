"""Pooled connections that tell the current AbortHandle their socket before they connect. The one place that
knows urllib3's connection classes. Never sends anything by itself."""

from __future__ import annotations

import http.client
import re
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FunctionType
from typing import Any, BinaryIO

from urllib3 import HTTPConnectionPool, HTTPSConnectionPool
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.exceptions import ConnectTimeoutError, NameResolutionError, NewConnectionError

from Middleware.common.errors import RequestCancelled
from Middleware.common.request_context import EndpointReach
from Middleware.llmapis.wire.idle_connections import IDLE_S, idle_connections
from Middleware.utilities.library_internals import looked_up_host, require

require("urllib3")

# --------------------------------------------------------------------------
# The handle that ends one outgoing call from any thread: it knows the call's socket from before it
# connects.


class AbortHandle:
    """One outgoing call. `on_abort(handle)` runs once, in the aborting thread, after the socket was shut.

    `pinned`: addresses to connect to instead of asking DNS. `connected`, `reused`: what the connection layer
    notes of the current try; `fresh`: what it is told; `tries`: how many there were. `reach`: who wants to
    know whether the backend is there."""

    def __init__(
        self,
        *,
        pinned: tuple[str, ...] = (),
        on_abort: Callable[[AbortHandle], None] | None = None,
        reach: EndpointReach | None = None,
    ) -> None:
        self.pinned = pinned
        self.connected = False
        self.reused = False
        self.fresh = False
        self.tries = 0
        self.reach = EndpointReach() if reach is None else reach
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


# --------------------------------------------------------------------------


def _addresses(connection: Any, handle: AbortHandle | None) -> list[Any]:
    if handle is not None and handle.pinned and connection.proxy is None:
        flags = socket.AI_NUMERICHOST
        return [
            info
            for address in handle.pinned
            for info in socket.getaddrinfo(address, connection.port, 0, socket.SOCK_STREAM, 0, flags)
        ]
    host = looked_up_host(connection).strip("[]")
    return list(socket.getaddrinfo(host, connection.port, 0, socket.SOCK_STREAM))


def _open_socket(connection: Any, info: Any, handle: AbortHandle | None) -> socket.socket:
    family, kind, protocol, _, address = info
    sock = socket.socket(family, kind, protocol)
    try:
        if handle is not None:
            handle.check()
            if connection.scheme == "https":
                # Wrapping in TLS takes the descriptor away from `sock`; a duplicate still reaches the
                # connection.
                handle.attach(sock.dup(), owned=True)
            else:
                handle.attach(sock)
        for option in connection.socket_options or ():
            sock.setsockopt(*option)
        sock.settimeout(connection.timeout)
        sock.connect(address)
        if handle is not None and handle.pinned and connection.proxy is None:
            _check_peer(sock, handle)
    except BaseException:
        if handle is not None:
            handle.detach()
        sock.close()
        raise
    return sock


def _check_peer(sock: socket.socket, handle: AbortHandle) -> None:
    """Raises OSError when the connection leads elsewhere than to a pinned address."""
    if sock.getpeername()[0] not in handle.pinned:
        raise ConnectionError("the connection leads to a different address than the one that was checked")


_PLAIN_HEADER = re.compile(r"^([!-9;-~]+):[ \t]*([^\r\n]*)\r\n", re.MULTILINE)
_MOST_HEADERS = 99
"""http.client refuses more."""


def _parse_headers(file: BinaryIO) -> http.client.HTTPMessage:
    """As http.client's `parse_headers`, which reads headers as those of an e-mail: 60 of the 2,000
    microseconds of a short request. Plain ones that have all come are split here, in 10.
    """
    block, end, _ = file.peek().partition(b"\r\n\r\n")  # type: ignore[attr-defined]  # a BufferedReader
    block += end[:2]
    found = _PLAIN_HEADER.findall(block.decode("iso-8859-1"))
    if not end or len(found) != block.count(b"\n") or len(found) > _MOST_HEADERS:
        return http.client.parse_headers(file)
    file.read(len(block) + 2)
    message = http.client.HTTPMessage()
    for name, value in found:
        message.set_raw(name, value)
    return message


class _FinalResponse(http.client.HTTPResponse):
    """Reads over interim answers, known or not. http.client itself knows only 100; behind 101 no HTTP comes.
    Source: RFC 9110, 15.2.
    """

    begin = FunctionType(
        http.client.HTTPResponse.begin.__code__, {**vars(http.client), "parse_headers": _parse_headers}
    )
    """The base's own, with `_parse_headers`: there is no other place to say so."""

    def _read_status(self) -> tuple[str, int, str]:
        found: tuple[str, int, str] = super()._read_status()  # type: ignore[misc]
        while 101 < found[1] < 200:
            http.client.parse_headers(self.fp)
            found = super()._read_status()  # type: ignore[misc]
        return found


class _Recorded:
    """What both kinds of connection add to urllib3's."""

    scheme = "http"
    response_class: Any = _FinalResponse
    idle_since = 0.0
    _outbox: list[bytes] | None = None

    def _new_conn(self: Any) -> socket.socket:
        handle = current_handle()
        failure: OSError = OSError("the name has no address")
        try:
            for info in _addresses(self, handle):
                try:
                    return _open_socket(self, info, handle)
                except OSError as error:
                    failure = error
        except (socket.gaierror, UnicodeError) as error:
            raise NameResolutionError(self.host, self, socket.gaierror(str(error))) from error
        if isinstance(failure, TimeoutError):
            raise ConnectTimeoutError(
                self, f"no connection to {self.host} within {self.timeout} s"
            ) from failure
        raise NewConnectionError(self, str(failure)) from failure

    def connect(self: Any) -> None:
        super().connect()  # type: ignore[misc]
        handle = current_handle()
        if handle is not None:
            handle.connected = True
            handle.reach.note_success()
            handle.attach(self.sock)

    def request(self: Any, *args: Any, **kwargs: Any) -> None:
        handle = current_handle()
        if handle is not None and self.sock is not None:
            handle.reused = not handle.connected
            handle.reach.note_success()
            handle.attach(self.sock)
        outbox: list[bytes] = []
        self._outbox = outbox
        try:
            super().request(*args, **kwargs)  # type: ignore[misc]
        finally:
            self._outbox = None
        self.send(b"".join(outbox))

    def send(self: Any, data: Any) -> None:
        """While a request is put together its parts are gathered: head and body leave in one write."""
        if self._outbox is not None and isinstance(data, bytes):
            self._outbox.append(data)
        else:
            super().send(data)  # type: ignore[misc]

    @property
    def is_connected(self: Any) -> bool:
        """Whether a pooled connection may be used: not idle for too long, not closed by the server, and
        leading to an address that the current call was told to use, and that call not bound to a new
        connection."""
        if time.monotonic() - self.idle_since >= IDLE_S or not super().is_connected:  # type: ignore[misc]
            return False
        handle = current_handle()
        if handle is None:
            return True
        if handle.fresh:
            return False
        return not handle.pinned or self.sock.getpeername()[0] in handle.pinned


class RecordedHTTPConnection(_Recorded, HTTPConnection):
    """Plain HTTP."""


class RecordedHTTPSConnection(_Recorded, HTTPSConnection):
    """HTTPS."""

    scheme = "https"


class _Watched:
    """Notes when a connection came back, which is closed when nobody takes it for long."""

    def _put_conn(self: Any, connection: Any) -> None:
        if connection is not None:
            connection.idle_since = time.monotonic()
        super()._put_conn(connection)  # type: ignore[misc]
        if connection is not None:
            idle_connections().watch(self)


class RecordedHTTPPool(_Watched, HTTPConnectionPool):
    ConnectionCls = RecordedHTTPConnection


class RecordedHTTPSPool(_Watched, HTTPSConnectionPool):
    ConnectionCls = RecordedHTTPSConnection


POOL_CLASSES = {"http": RecordedHTTPPool, "https": RecordedHTTPSPool}
