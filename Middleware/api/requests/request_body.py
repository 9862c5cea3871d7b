"""A request's body, read once or looked at before. WSGI only; parses nothing.

What a server raises here in its own words is told in ours: a client that left, a body in no proper form.
Source: PEP 3333 (`wsgi.input`), spec frontend-api.md 12.5.
"""

from __future__ import annotations

import logging
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from io import BytesIO, RawIOBase
from typing import Any

from werkzeug.exceptions import ClientDisconnected, HTTPException
from werkzeug.wsgi import get_input_stream

from Middleware.common.errors import (
    ClientRequestError,
    MiddlewareError,
    RequestCancelled,
    TooLarge,
    Unsupported,
)

logger = logging.getLogger(__name__)

_INPUT = "wsgi.input"
_PIECE = 1024 * 1024
_MIB = 1024 * 1024


class LimitedBody(RawIOBase):
    """A body of which no more than `most` bytes are read: what goes beyond raises TooLarge and is not held.

    `declared`: how many there are, None: its end tells. `ended`: nothing is left to be read, or can be.
    """

    def __init__(self, stream: Any, most: int, declared: int | None) -> None:
        self._stream, self._most, self._declared = stream, most, declared
        self._read = 0
        self.ended = False

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data = self._next(len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def readall(self) -> bytes:
        pieces = []
        size = _PIECE if self._declared is None else min(self._declared, self._most + 1)  # no second copy
        while not self.ended and (piece := self._next(size)):
            pieces.append(piece)
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def skip(self, size: int) -> int:
        """Read so many bytes at most, whatever the limit is, and drop them: how many there were."""
        return len(self._piece(size))

    def _next(self, size: int) -> bytes:
        piece = self._piece(size)
        if self._read > self._most:
            raise too_large(self._most)
        return piece

    def _piece(self, size: int) -> bytes:
        if self._declared is not None:  # what stands behind it is the next request's
            size = min(size, self._declared - self._read)
        if self.ended or not size:
            return b""
        try:
            piece: bytes = self._stream.read(size)
        except BaseException:
            self.ended = True
            raise
        self._read += len(piece)
        self.ended = not piece or self._read == self._declared
        return piece


def too_large(most: int) -> TooLarge:
    """What is said of a body of more than `most` bytes."""
    return TooLarge(f"the body is larger than {most / _MIB:g} MiB; allow more with --max-body-mb")


def limit_body(environ: dict[str, Any], most: int) -> LimitedBody | None:
    """From now on no more than `most` bytes of the body are read, whoever does. None: there is no body."""
    declared, stream = _declared_length(environ), environ.get(_INPUT)
    if stream is None or (not declared and "HTTP_TRANSFER_ENCODING" not in environ):
        return None
    body = environ[_INPUT] = LimitedBody(stream, most, declared)
    return body


def check_length(environ: dict[str, Any], most: int) -> None:
    """Raises TooLarge for a body that is declared to have more than `most` bytes."""
    if (_declared_length(environ) or 0) > most:
        raise too_large(most)


def _declared_length(environ: dict[str, Any]) -> int | None:
    given = environ.get("CONTENT_LENGTH") or ""
    return int(given) if given.isascii() and given.isdigit() else None


class _Broken:
    """A body whose reading failed: whoever reads it next meets the same error."""

    def __init__(self, error: Exception) -> None:
        self._error = error

    def read(self, *size: int) -> bytes:
        raise self._error

    readline = read


class _Peeked(BytesIO):
    """A whole body that was looked at and has not been read yet."""


def peek_body(environ: dict[str, Any]) -> bytes:
    """The whole body, which stays there to be read. Empty when it cannot be read: its reader will say why."""
    seen = environ.get(_INPUT)
    if isinstance(seen, _Peeked) and not seen.tell():
        return seen.getvalue()
    try:
        body = get_input_stream(environ).read()
    except Exception as error:  # servers have errors of their own here
        environ[_INPUT] = _Broken(error)
        return b""
    environ[_INPUT] = _Peeked(body)
    return body


def read_body(environ: dict[str, Any], most_bytes: int | None = None) -> bytes:
    """The whole body. Raises RequestCancelled when the client leaves in the middle of it, Unsupported for a
    coding, TooLarge beyond the server's limit, ClientRequestError when it has no proper form.
    """
    coding = environ.get("HTTP_CONTENT_ENCODING", "").strip()
    if coding.lower() not in ("", "identity"):
        raise Unsupported(f"a body with Content-Encoding {coding!r} is not supported; send it uncompressed")
    try:
        return get_input_stream(environ, max_content_length=most_bytes).read()
    except (ClientDisconnected, OSError) as error:
        raise RequestCancelled("the client disconnected before it had sent its whole request") from error
    except (HTTPException, MiddlewareError):
        raise
    except Exception as error:  # gunicorn has errors of its own for chunks
        raise ClientRequestError(f"the body cannot be read: {type(error).__name__}") from error


# --------------------------------------------------------------------------
# What is left of a body when its request is refused: read and dropped, so that the client gets the
# answer.


LINGER_BYTES = 16 * 1024 * 1024
LINGER_S = 5.0
_DROPPED_PIECE = 64 * 1024


def drop_rest(environ: dict[str, Any], body: LimitedBody) -> None:
    """Read what is left of a body whose answer has been sent; when that is too much, the connection ends."""
    connection = environ.get("gunicorn.socket")
    if connection is None or body.ended:
        return
    if not _drop_some(connection, body.skip, lambda: body.ended):
        end(connection)


def drop_all(connection: Any) -> None:
    """Read what a client still sends behind a request of which nothing could be made, then end."""
    with suppress(OSError):  # the client was quicker
        connection.shutdown(socket.SHUT_WR)
    over: list[bool] = []

    def skip(size: int) -> int:
        dropped = len(connection.recv(size))
        if not dropped:
            over.append(True)
        return dropped

    _drop_some(connection, skip, lambda: bool(over))


def end(connection: Any) -> None:
    """No further request is read from this connection."""
    with suppress(OSError):  # the client was quicker
        connection.shutdown(socket.SHUT_RDWR)


def _drop_some(connection: Any, skip: Callable[[int], int], is_over: Callable[[], bool]) -> bool:
    """Whether all was read within the limits. The connection's own time limit is as before afterwards."""
    before, until, left = connection.gettimeout(), time.monotonic() + LINGER_S, LINGER_BYTES
    try:
        while not is_over():
            rest_s = until - time.monotonic()
            if rest_s <= 0 or left <= 0:
                return False
            connection.settimeout(rest_s)
            left -= skip(min(_DROPPED_PIECE, left))
        return True
    except Exception as error:  # a client that left or waits, and what a server calls a broken body
        logger.debug("the rest of a refused body could not be read: %r", error)
        return False
    finally:
        with suppress(OSError):  # it may be closed
            connection.settimeout(before)
