"""A connection of waitress as this house wants it: what it refuses, how it ends, how long it may lie idle.

Beside `waitress_server.py` the only module that knows waitress. Source: spec frontend-api.md 2.4 and 12.1;
RFC 9112, 9.6 (how a connection is closed whose client still sends).
"""

from __future__ import annotations

import socket
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote_to_bytes

from waitress.channel import HTTPChannel  # type: ignore[import-untyped]
from waitress.parser import HTTPRequestParser  # type: ignore[import-untyped]
from waitress.task import ErrorTask, WSGITask  # type: ignore[import-untyped]
from waitress.utilities import BadRequest  # type: ignore[import-untyped]

from Middleware.api.requests.request_body import LINGER_BYTES, LINGER_S
from Middleware.utilities.library_internals import flush_channel, require

if TYPE_CHECKING:
    from Middleware.api.front_door import FrontDoor

require("waitress")

UNREAD_S = 14400
"""A client that reads nothing of its answer for so long is given up."""
LONGEST_CHUNK_LINE = 16 * 1024
"""Characters of what stands around chunks: sizes, extensions, trailers."""
MOST_AT_ONCE = 256 * 1024
"""Of a body whose length is known. waitress itself reads 8 KiB: 660 turns of its loop for 5 MB."""
_PIECE = 64 * 1024


class Parser(HTTPRequestParser):  # type: ignore[misc]
    """One request while it is read. A refused one has its path too: the answer's form and the log want it."""

    path = ""
    _line = b""

    def received(self, data: bytes) -> int:
        """As waitress does. Of a body in chunks only what they hold is counted, not what stands around it."""
        body = self.body_rcv if self.chunked else None
        if body is not None:  # what this read brings is counted with the next one
            self.body_bytes_received = len(body) - len(data)
        partial = self.header_plus
        consumed = int(super().received(data))
        if body is not None and max(len(body.control_line), len(body.trailer)) > LONGEST_CHUNK_LINE:
            self.error = BadRequest("a line between chunks is too long")
            self.completed = True
        if self.error is not None:
            self.expect_continue = False  # else waitress asks for the body and reads it all
            if not self.path or not self._line:
                self._learn_from(self._line or partial + data)
        return consumed

    def parse_header(self, header_plus: bytes) -> None:
        if self.header_bytes_received < self.adj.max_request_header_size:  # else waitress made one up
            self._line = header_plus
        super().parse_header(header_plus)

    def _learn_from(self, head: bytes) -> None:
        """Method, path and version of a head that waitress could not read to its end."""
        words = head.lstrip().partition(b"\r\n")[0].split(b" ")
        if len(words) == 3 and words[1].startswith(b"/"):
            self.command = words[0].decode("latin-1")
            self.path = unquote_to_bytes(words[1].partition(b"?")[0]).decode("latin-1")
            self.version = "1.1" if words[2] == b"HTTP/1.1" else "1.0"


class _Refusal(ErrorTask):  # type: ignore[misc]
    """The answer to a request that waitress could not read, or whose application failed: as JSON in the form
    of the protocol of its path.
    """

    def execute(self) -> None:
        door: FrontDoor | None = getattr(self.channel.server, "door", None)
        if door is None:
            super().execute()
            return
        self.channel.refuses = True
        error = self.request.error
        parts = door.refuse(error.code, str(error.body), self._environ(), self._start)
        body = b"".join(parts)
        self.set_close_on_finish()
        self.content_length = len(body)
        self.write(body)

    def _start(self, status: str, headers: list[tuple[str, str]]) -> None:
        self.status = status
        self.response_headers.extend(headers)

    def _environ(self) -> dict[str, Any]:
        request, address = self.request, self.channel.addr
        return {
            "REQUEST_METHOD": getattr(request, "command", ""),
            "PATH_INFO": request.path,
            "REQUEST_URI": getattr(request, "request_uri", ""),
            "REMOTE_ADDR": address[0] if isinstance(address, tuple) else "",
            **{f"HTTP_{name}": value for name, value in request.headers.items()},
        }


class _Answer(WSGITask):  # type: ignore[misc]
    """The answer of the application."""

    def set_close_on_finish(self) -> None:
        """Not for a stream: its last chunk tells its end, and the connection may have brought another request
        already, which waitress would drop.
        """
        if self.chunked_response and not self.wrote_header and self.request.command != "HEAD":
            return
        super().set_close_on_finish()

    def build_response_header(self) -> bytes:
        """The head of the answer is sent with what is written first."""
        self.channel.hold_head(super().build_response_header())
        return b""

    def finish(self) -> None:
        super().finish()
        self.channel.send_head()


class Channel(HTTPChannel):  # type: ignore[misc]
    """A connection. Bytes of an unfinished request do not count as activity: a trickle of them would hold it
    for ever. While a request is answered waitress never closes it, nor while the client has not read all.
    After a refusal it lingers: a client that still sends its body would meet a reset, not the answer.
    """

    parser_class = Parser
    task_class = _Answer
    error_task_class = _Refusal
    last_activity: float
    _begun: float | None = None
    _unread_since: float | None = None
    refuses = False
    """A request of it was refused: nothing further is taken, and it closes."""
    _lingers_until: float | None = None
    _dropped = 0
    _head = b""

    def received(self, data: bytes) -> bool:
        """What comes behind a refused request is the rest of its body."""
        if self.refuses:
            return True
        taken = bool(super().received(data))
        self.refuses = any(request.error for request in self.requests)
        return taken

    def recv(self, size: int) -> bytes:
        """What is known to come is read in large pieces: each piece is a turn of the server's loop."""
        left = getattr(getattr(self.request, "body_rcv", None), "remain", 0)
        data: bytes = super().recv(max(size, min(left, MOST_AT_ONCE)))
        return data

    def hold_head(self, head: bytes) -> None:
        """Send the head of an answer with what is written next: in a send of its own it would cost as much
        again, and wake the client once more. Later writes are waitress's alone, with nothing between.
        """
        self._head = head
        self.write_soon = self._write_with_head

    def _write_with_head(self, data: Any) -> int:
        if isinstance(data, bytes) and data:
            return int(super().write_soon(self._take_head() + data))
        if data:  # a file, which waitress sends by itself
            self.send_head()
        return int(super().write_soon(data))  # it raises where the client has gone

    def send_head(self) -> None:
        """The answer is complete; without a body its head is still held."""
        if self._head:
            super().write_soon(self._take_head())

    def _take_head(self) -> bytes:
        """It is held no longer."""
        head, self._head = self._head, b""
        del self.write_soon  # waitress's own again
        return head

    def readable(self) -> bool:
        return self._lingers_until is not None or bool(super().readable())

    def writable(self) -> bool:
        """Asked at each turn of the server's loop."""
        if self._lingers_until is not None and time.time() >= self._lingers_until:
            self.will_close = True
        if not self.total_outbufs_len:
            self._unread_since = None
        else:
            now = time.time()
            self._unread_since = now if self._unread_since is None else self._unread_since
            if now - self._unread_since < UNREAD_S:
                self.last_activity = now
        return bool(super().writable())

    def handle_write(self) -> None:
        self._unread_since = None
        if self.refuses and self.close_when_flushed and not self.will_close:
            flush_channel(self)
            if not self.total_outbufs_len and not self.will_close:
                self._linger()
            return
        super().handle_write()

    def _linger(self) -> None:
        """The answer is complete, and the client may read it; what it still sends is dropped for a while."""
        self.close_when_flushed = False
        self._lingers_until = time.time() + LINGER_S
        with suppress(OSError):  # the client was quicker; its end is met at the next read
            self.socket.shutdown(socket.SHUT_WR)

    def handle_read(self) -> None:
        if self._lingers_until is not None:
            self._drop()
            return
        super().handle_read()
        if self.request is None:
            self._begun = None
            return
        if self._begun is None:
            self._begun = self.last_activity
        self.last_activity = self._begun

    def _drop(self) -> None:
        try:
            dropped = len(self.recv(_PIECE))
        except OSError:
            dropped = 0
        self._dropped += dropped
        if not dropped or self._dropped >= LINGER_BYTES:
            self.will_close = True
