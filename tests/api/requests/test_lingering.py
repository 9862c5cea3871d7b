"""What is left of a refused body is read and dropped, within limits (frontend-api.md 12.1)."""

from __future__ import annotations

import socket

import pytest

from Middleware.api.requests import request_body as lingering
from Middleware.api.requests.request_body import LINGER_BYTES, LimitedBody, drop_all, drop_rest


class Connection:
    """gunicorn's socket: remembers its time limits and how it was shut."""

    def __init__(self):
        self.limits, self.shut = [None], []

    def gettimeout(self):
        return self.limits[-1]

    def settimeout(self, seconds):
        self.limits.append(seconds)

    def shutdown(self, how):
        self.shut.append(how)


class Body:
    """A body that never ends, in pieces of the size that is asked for; `after` bytes it raises `error`."""

    def __init__(self, error=None, after=0):
        self.error, self.after, self.read_bytes = error, after, 0

    def read(self, size):
        if self.error is not None and self.read_bytes >= self.after:
            raise self.error
        self.read_bytes += size
        return bytes(size)


@pytest.fixture
def connection():
    return Connection()


def limited(stream, declared=None):
    return LimitedBody(stream, 1 << 40, declared)


def test_the_rest_is_read(connection):
    """Then the connection may serve the next request; its time limit is as before."""
    stream = Body()
    drop_rest({"gunicorn.socket": connection}, limited(stream, 100_000))
    assert stream.read_bytes == 100_000 and connection.shut == []
    assert connection.limits[-1] is None and 0 < connection.limits[1] <= lingering.LINGER_S


def test_too_much_is_not(connection):
    """The connection ends there."""
    stream = Body()
    drop_rest({"gunicorn.socket": connection}, limited(stream, LINGER_BYTES + 1))
    assert stream.read_bytes == LINGER_BYTES and connection.shut == [socket.SHUT_RDWR]


def test_a_slow_client_is_not_waited_for(connection, monkeypatch):
    """For five seconds at most, however it trickles."""
    now = iter(range(100))
    monkeypatch.setattr(lingering.time, "monotonic", lambda: float(next(now)))
    stream = Body()
    drop_rest({"gunicorn.socket": connection}, limited(stream))
    assert stream.read_bytes == 4 * 65536 and connection.shut == [socket.SHUT_RDWR]
    assert connection.limits == [None, 4.0, 3.0, 2.0, 1.0, None]


@pytest.mark.parametrize("error", [TimeoutError(), ConnectionResetError(), LookupError("a broken chunk")])
def test_a_body_that_breaks_off(connection, error):
    """Nothing is known of where it would end."""
    drop_rest({"gunicorn.socket": connection}, limited(Body(error, after=65536)))
    assert connection.shut == [socket.SHUT_RDWR] and connection.limits[-1] is None


@pytest.mark.parametrize(
    ("environ", "ended"), [({}, False), ({"gunicorn.socket": None}, True)], ids=["other server", "read"]
)
def test_nothing_to_do(environ, ended):
    """waitress has read the body before; and one that was read has no rest."""
    stream = Body()
    body = limited(stream)
    body.ended = ended
    drop_rest(environ, body)
    assert stream.read_bytes == 0


def test_what_comes_behind_a_head_that_cannot_be_read():
    """It is read until the client ends; the client knows from our end that the answer is complete."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.sendall(bytes(100_000))
        theirs.shutdown(socket.SHUT_WR)
        drop_all(ours)
        assert theirs.recv(1) == b"" and ours.recv(1) == b""
