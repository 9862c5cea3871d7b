"""What is left of a body when its request is refused: read and dropped, so that the client gets the answer.

A connection that is closed while bytes of its client wait to be read is reset; the answer is lost with it.
waitress has read a body before the application is asked (`waitress_channel.py` knows what it refuses itself);
gunicorn has not. Source: spec frontend-api.md 12.1.
"""

from __future__ import annotations

import logging
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from Middleware.api.requests.request_body import LimitedBody

logger = logging.getLogger(__name__)

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
        logger.debug("the rest of a refused body is not read: %r", error)
        return False
    finally:
        with suppress(OSError):  # it may be closed
            connection.settimeout(before)
