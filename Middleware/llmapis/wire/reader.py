"""Reads what is there of a response body, never waiting to fill a block, and undoes transfer and content
coding.

After the headers the socket itself is read: http.client refuses to go on after a time-out, and urllib3's
readers give one transfer chunk a call, so that tokens which came together could not be handled together.
Stand-ins without a socket are read through their own `read1`. Never imports `requests`, never decodes text.
Source: spec backends.md 11."""

from __future__ import annotations

import ssl
import sys
import time
import zlib
from collections.abc import Callable, Iterator
from typing import Any, Protocol
from weakref import WeakKeyDictionary

from Middleware.utilities.library_internals import response_below, socket_below

# --------------------------------------------------------------------------
# Waiting for bytes under gevent, for many streams of lone tokens: one ticker serves them all.


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


# --------------------------------------------------------------------------

READ_SIZE = 65536
MAX_CHUNK_HEAD = 16 * 1024
MANY = 2048
"""Bytes of a read that has chunks enough (five of 400) for taking all at once to pay."""
AFTER_CHUNK = -1
TRAILERS = -2


class BodyCut(ConnectionError):
    """The connection ended before the body did."""


class BodyFault(ValueError):
    """The body's transfer or content coding is not what the headers say."""


class Framing(Protocol):
    """Where the body ends on a connection. `surplus`: bytes stood behind that end: who sends them counts
    otherwise than we do, and what comes next on the connection may be the rest of them."""

    done: bool
    surplus: bool

    @property
    def ends_at_eof(self) -> bool: ...

    def feed(self, data: bytes) -> bytes: ...


class ChunkedFraming:
    """Transfer-Encoding: chunked. Source: RFC 9112, 7.1. Chunk extensions and trailers are read over."""

    def __init__(self) -> None:
        self.done = self.surplus = False
        self._held = b""
        self._has_line_ends = False
        self._left = 0
        """Bytes of the current chunk that have not come; 0: a chunk's head comes; AFTER_CHUNK; TRAILERS."""

    @property
    def ends_at_eof(self) -> bool:
        """The last chunk has come: the body is whole, though the blank line behind it may be missing."""
        return self._left == TRAILERS

    def feed(self, data: bytes) -> bytes:
        if self._held:
            data = self._held + data
        parts: list[bytes] = []
        position, left = 0, self._left
        if left > 0 and len(data) > left:
            parts.append(data[:left])
            position, left = left, AFTER_CHUNK
        if left == AFTER_CHUNK and data[position : position + 2] == b"\r\n":
            position, left = position + 2, 0
        if left == 0 and len(data) > MANY and not self._has_line_ends:
            bare = _bare_chunks(data, position, parts)
            self._has_line_ends = bare is None
            position = position if bare is None else bare
        if left == 0:
            position = _whole_chunks(data, position, parts)
        position, left = self._step_by_step(data, position, left, parts)
        self._left = left
        self._held = data[position:]
        if len(self._held) > MAX_CHUNK_HEAD:
            raise BodyFault("a transfer chunk has no readable size")
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def _step_by_step(self, data: bytes, position: int, left: int, parts: list[bytes]) -> tuple[int, int]:
        """What is cut in the middle of a chunk, is the last one, or looks unusual. Gives the new position and
        state."""
        end = len(data)
        while position < end:
            if left > 0:
                piece = data[position : position + left]
                parts.append(piece)
                position += len(piece)
                left = left - len(piece) or AFTER_CHUNK
            elif left == AFTER_CHUNK:
                if data[position : position + 2] == b"\r\n":
                    position += 2
                elif data[position : position + 1] == b"\n":
                    position += 1
                elif end - position < 2:
                    break
                else:
                    raise BodyFault("a transfer chunk is longer than it says")
                left = 0
            else:
                line_end = data.find(b"\n", position)
                if line_end < 0:
                    break
                line = data[position:line_end]
                position = line_end + 1
                if left == 0:
                    left = _chunk_size(line) or TRAILERS
                elif not line.strip():
                    self.done, self.surplus = True, position < end
                    position = end
        return position, left


def _whole_chunks(data: bytes, position: int, parts: list[bytes]) -> int:
    """Take the chunks that are whole and plain, from a chunk's head on; gives the position behind them."""
    end = len(data)
    while True:
        line_end = data.find(b"\r\n", position)
        digits = data[position:line_end]
        if line_end < 0 or not digits.isalnum():
            return position
        try:
            size = int(digits, 16)
        except ValueError:
            return position
        begin = line_end + 2
        stop = begin + size
        if not size or stop + 2 > end or data[stop : stop + 2] != b"\r\n":
            return position
        parts.append(data[begin:stop])
        position = stop + 2


def _bare_chunks(data: bytes, position: int, parts: list[bytes]) -> int | None:
    r"""As `_whole_chunks`, for chunks without a `\r\n` of their own: all at once, in 0.3 microseconds each
    instead of 0.7. Takes nothing and gives None where there are others.
    """
    pieces = data[position:].split(b"\r\n")
    end = (len(pieces) - 1) // 2 * 2
    if end and not pieces[end - 1]:  # the last chunk, which has no data
        end -= 2
    heads, bodies = pieces[:end:2], pieces[1:end:2]
    if not end:
        return position
    if not b"".join(heads).isalnum():
        return None
    try:
        sizes = [int(head, 16) for head in heads]
    except ValueError:
        return None
    if not all(sizes) or sizes != [len(body) for body in bodies]:
        return None
    parts += bodies
    return len(data) - len(b"\r\n".join(pieces[end:]))


class CountedFraming:
    """Content-Length."""

    ends_at_eof = False

    def __init__(self, length: int) -> None:
        self._left = length
        self.done, self.surplus = length == 0, False

    def feed(self, data: bytes) -> bytes:
        if len(data) > self._left:
            data, self.surplus = data[: self._left], True
        self._left -= len(data)
        self.done = self._left == 0
        return data


class OpenFraming:
    """Neither: the body ends when the server closes."""

    ends_at_eof = True
    surplus = False

    def __init__(self) -> None:
        self.done = False

    def feed(self, data: bytes) -> bytes:
        return data


def _chunk_size(head: bytes) -> int:
    digits = head.split(b";", 1)[0].strip()
    try:
        size = int(digits, 16)
    except ValueError:
        size = -1
    if size < 0 or not digits.isalnum():
        raise BodyFault("a transfer chunk has no readable size")
    return size


class Inflater:
    """Content-Encoding gzip (also several members) or deflate (with or without the zlib wrapper)."""

    def __init__(self, encoding: str) -> None:
        self._bits = 31 if encoding in ("gzip", "x-gzip") else 15
        self._raw_allowed = self._bits == 15
        self._object = zlib.decompressobj(self._bits)
        self._held = b""

    def feed(self, data: bytes) -> bytes:
        parts = []
        data = self._held + data
        self._held = b""
        if self._raw_allowed and len(data) < 2:
            self._held, data = data, b""
        while data:
            if self._object.eof:
                if self._bits != 31:
                    break
                data = data.lstrip(b"\0")
                if not data:
                    break
                self._object = zlib.decompressobj(self._bits)
            parts.append(self._inflate(data))
            data = self._object.unused_data
        return b"".join(parts)

    def _inflate(self, data: bytes) -> bytes:
        try:
            out = self._object.decompress(data)
        except zlib.error as error:
            if not self._raw_allowed:
                raise BodyFault("the compressed body cannot be read") from error
            self._raw_allowed = False
            self._bits = -15
            self._object = zlib.decompressobj(self._bits)
            return self._inflate(data)
        self._raw_allowed = False
        return out


class SocketBody:
    """One body on a live socket. `complete`: read to its end, and nothing stood behind it, so that the
    connection may be used again."""

    def __init__(
        self, sock: Any, framing: Framing, inflater: Inflater | None, head: Callable[[], bytes]
    ) -> None:
        self._sock, self._framing, self._inflater, self._head = sock, framing, inflater, head

    @property
    def complete(self) -> bool:
        return self._framing.done and not self._framing.surplus

    def reads(self, *, tick_s: float, limit_s: float) -> Iterator[bytes]:
        """What each read brought; `b""` after each `tick_s` without output. Ends with the body.

        Raises TimeoutError when nothing came for `limit_s`, BodyCut, BodyFault, or the socket's own OSError.
        """
        shared = shared_wait(self._sock, min(tick_s, limit_s))
        receive = self._sock.recv if shared is None else shared.receive
        framing, inflater = self._framing, self._inflater
        try:
            data = self._buffered_bytes()
            heard = told = time.monotonic()
            self._sock.settimeout(min(tick_s, limit_s))
            while not framing.done:
                if not data:
                    try:
                        data = receive(READ_SIZE)
                    except (TimeoutError, ssl.SSLWantReadError):
                        told = time.monotonic()
                        if told - heard >= limit_s:
                            raise TimeoutError(f"nothing came for {limit_s:g} s") from None
                        yield b""
                        continue
                    if not data:
                        if framing.ends_at_eof:
                            framing.done = True
                            return
                        raise BodyCut("the connection closed before the answer was complete")
                out = framing.feed(data)
                if inflater is not None:
                    out = inflater.feed(out)
                heard = time.monotonic()
                if out:
                    told = heard
                    yield out
                elif heard - told >= tick_s:
                    told = heard
                    yield b""
                data = b""
        finally:
            if shared is not None:
                shared.close()

    def drain(self, wait_s: float) -> bool:
        """Read the rest of a body that has said all it has to say, for at most `wait_s`. True when
        complete."""
        until = time.monotonic() + wait_s
        while not self._framing.done and not isinstance(self._framing, OpenFraming):
            self._sock.settimeout(max(until - time.monotonic(), 0.0))
            try:
                data = self._sock.recv(READ_SIZE)
                if not data or time.monotonic() > until:
                    return False
                self._framing.feed(data)
            except (OSError, BodyFault):
                return False
        return self.complete

    def _buffered_bytes(self) -> bytes:
        """What http.client has read ahead, and what the socket already holds."""
        self._sock.settimeout(0.0)
        try:
            return self._head()
        except (BlockingIOError, ssl.SSLWantReadError):
            return b""


class StandInBody:
    """A body that is not read from our own socket (tests, unusual content codings): no ticks.

    `more()` gives the next piece, `b""` at the end; it may raise urllib3's own errors.
    """

    def __init__(self, more: Callable[[], bytes]) -> None:
        self._more = more
        self.complete = False

    def reads(self, *, tick_s: float, limit_s: float) -> Iterator[bytes]:
        while data := self._more():
            yield data
        self.complete = True

    def drain(self, wait_s: float) -> bool:
        return self.complete


def body_of(response: Any) -> SocketBody | StandInBody:
    """The body of a `requests` response that was opened with `stream=True`."""
    raw = response.raw
    encoding = str(raw.headers.get("content-encoding") or "").strip().lower()
    http = response_below(raw)
    file = getattr(http, "fp", None)
    sock = socket_below(file)
    if sock is not None and file is not None and encoding in _INFLATED:
        inflater = Inflater(encoding) if _INFLATED[encoding] else None
        return SocketBody(sock, _framing(raw), inflater, lambda: file.read1(READ_SIZE) or b"")
    if hasattr(raw, "read1"):
        return StandInBody(lambda: raw.read1(READ_SIZE, decode_content=True) or b"")
    pieces = response.iter_content(chunk_size=None)
    return StandInBody(lambda: next(pieces, b""))


_INFLATED = {"": False, "identity": False, "gzip": True, "x-gzip": True, "deflate": True}


def _framing(raw: Any) -> Framing:
    """As urllib3 reads the headers: http.client takes neither `chunked` behind another coding or with a blank
    behind it nor a length that is said twice in one line, and would read on until the server closes.
    """
    if raw.chunked:
        return ChunkedFraming()
    length = raw.length_remaining
    return OpenFraming() if length is None else CountedFraming(length)
