"""Pooled connections that tell the current AbortHandle their socket before they connect. The one place that
knows urllib3's connection classes. Never sends anything by itself."""

from __future__ import annotations

import http.client
import socket
import time
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from urllib3 import HTTPConnectionPool, HTTPSConnectionPool
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.exceptions import ConnectTimeoutError, NameResolutionError, NewConnectionError

from Middleware.llmapis.wire.abort import AbortHandle, current_handle

IDLE_S = 60.0
"""A pooled connection that nobody used for so long is closed."""


def _addresses(connection: Any, handle: AbortHandle | None) -> list[Any]:
    if handle is not None and handle.pinned and connection.proxy is None:
        flags = socket.AI_NUMERICHOST
        return [
            info
            for address in handle.pinned
            for info in socket.getaddrinfo(address, connection.port, 0, socket.SOCK_STREAM, 0, flags)
        ]
    host = connection._dns_host.strip("[]")
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
        raise ConnectionError("the connection leads to another address than the one that was checked")


class _FinalResponse(http.client.HTTPResponse):
    """Reads over interim answers (102, 103). http.client itself knows only 100. Source: RFC 9110, 15.2."""

    def _read_status(self) -> tuple[str, int, str]:
        found: tuple[str, int, str] = super()._read_status()  # type: ignore[misc]
        while found[1] in (102, 103):
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
            raise ConnectTimeoutError(self, f"no connection to {self.host} in {self.timeout} s") from failure
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


class _Sweeping:
    """Notes when a connection came back."""

    def _put_conn(self: Any, connection: Any) -> None:
        if connection is not None:
            connection.idle_since = time.monotonic()
        super()._put_conn(connection)  # type: ignore[misc]


class RecordedHTTPPool(_Sweeping, HTTPConnectionPool):
    ConnectionCls = RecordedHTTPConnection


class RecordedHTTPSPool(_Sweeping, HTTPSConnectionPool):
    ConnectionCls = RecordedHTTPSConnection


POOL_CLASSES = {"http": RecordedHTTPPool, "https": RecordedHTTPSPool}


def close_idle(pool_manager: Any, now: float) -> None:
    """Close the connections of every pool that have been idle since `now - IDLE_S` or longer."""
    for key in pool_manager.pools.keys():  # noqa: SIM118  (urllib3's container cannot be iterated)
        pool = pool_manager.pools.get(key)
        queue = None if pool is None else pool.pool
        if queue is None:
            continue
        with _guard(queue):
            waiting = [connection for connection in queue.queue if connection is not None]
        for connection in waiting:
            if now - connection.idle_since >= IDLE_S:
                _close_if_idle(queue, connection)


def _guard(queue: Any) -> AbstractContextManager[Any]:
    """The queue's own lock. gevent's queue has none: no other greenlet runs inside the block."""
    lock: AbstractContextManager[Any] | None = getattr(queue, "mutex", None)
    return nullcontext() if lock is None else lock


def _close_if_idle(queue: Any, connection: Any) -> None:
    """Close it unless a caller took it from the pool in between; its place in the pool becomes empty."""
    with _guard(queue):
        if connection in queue.queue:
            queue.queue[queue.queue.index(connection)] = None
        else:
            return
    connection.close()
