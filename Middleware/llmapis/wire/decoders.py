r"""Bytes of a streamed body -> events, for Server-Sent Events and for NDJSON. Pure: no I/O, no JSON objects,
no clock.

Any cut of the bytes gives the same events. Lines end with `\n`, `\r\n` or `\r` only. Source: spec backends.md
11 and WHATWG HTML 9.2. Bytes that form whole, plain events (what almost every read brings) take a short way.
"""

from __future__ import annotations

import re
from json import JSONDecodeError, JSONDecoder

from Middleware.common.constants import MAX_LINE_BYTES

Event = tuple[str, str]
"""`(name, data)`; the name is `message` unless an `event:` line said otherwise, and `error` for an `error:`
line."""

END_MARK = "[DONE]"

_JSON = JSONDecoder(strict=False)
_LINE_END = re.compile(r"\r\n|\n|\r")
_BOM = b"\xef\xbb\xbf"


class LineTooLong(ValueError):
    """A line is longer than a line may be; `limit` in bytes."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        super().__init__(f"a line of the stream is longer than {limit} bytes")


class _Lines:
    """Keeps what is not a whole line yet. The parts of a long line are joined once."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._parts: list[bytes] = []
        self._held = 0
        self._at_start = True

    @property
    def empty(self) -> bool:
        """Nothing is held and the start is past: bytes that end in a line end may go by."""
        return not self._parts and not self._at_start

    def feed(self, data: bytes) -> bytes:
        """All whole lines that `data` completes, with their line ends; `b""` for none. Raises LineTooLong.

        A `\\r` at the very end waits: a `\\n` may belong to it.
        """
        if self._at_start:
            data = self._without_bom(data)
        if not data:
            return b""
        end = len(data) - 1 if data[-1:] == b"\r" else len(data)
        cut = max(data.rfind(b"\n", 0, end), data.rfind(b"\r", 0, end)) + 1
        if not self._parts:
            if cut == len(data):
                return data
        elif cut == 0 and self._parts[-1][-1:] == b"\r":
            cut = -1
        if cut > 0:
            whole, self._parts = b"".join((*self._parts, data[:cut])), []
            self._held = 0
            data = data[cut:]
        elif cut < 0:
            whole, self._parts, self._held = b"".join(self._parts), [], 0
        else:
            whole = b""
        if data:
            self._hold(data)
            if self._held > self._limit:
                raise LineTooLong(self._limit)
        return whole

    def finish(self) -> bytes:
        """The last line, which has no line end."""
        rest, self._parts, self._held = b"".join(self._parts), [], 0
        return rest.removeprefix(_BOM) if self._at_start else rest

    def _without_bom(self, data: bytes) -> bytes:
        """Drop a byte order mark; while the bytes are a part of one, they are held."""
        data, self._parts, self._held = b"".join((*self._parts, data)), [], 0
        if _BOM.startswith(data) and data != _BOM:
            return self._hold(data)
        self._at_start = False
        return data.removeprefix(_BOM)

    def _hold(self, data: bytes) -> bytes:
        self._parts.append(data)
        self._held += len(data)
        return b""


class SseDecoder:
    """Server-Sent Events. `feed` gives the events that are complete, `finish` the one that the end of input
    completes.

    Both raise LineTooLong. Servers that leave out the blank lines are understood: a line that is JSON by
    itself is one event."""

    def __init__(self, limit: int = MAX_LINE_BYTES) -> None:
        self._lines = _Lines(limit)
        self._limit = limit
        self._name = "message"
        self._data: list[str] = []
        self._size = 0

    def feed(self, data: bytes) -> list[Event]:
        return self.events_in(self.whole_lines(data))

    def whole_lines(self, data: bytes) -> str:
        """The lines that `data` completes; `""` for none. They are to be given to `events_in`, or to be whole
        events that are framed as `frame` says."""
        whole = data if data[-2:] == b"\n\n" and self._lines.empty else self._lines.feed(data)
        return whole.decode("utf-8", "replace")

    def frame(self, lines: str, name: str) -> tuple[str, str] | None:
        """What stands before and behind the data of an event `name` of one line, as nearly all servers write
        it; None where an event has begun already, or lines end in another way."""
        if self._data or self._name != "message" or "\r" in lines:
            return None
        is_named = name != "message" or lines[:1] == "e"
        return f"event: {name}\ndata: " if is_named else "data: ", "\n\n"

    def events_in(self, text: str) -> list[Event]:
        """The events that these lines complete."""
        if not text:
            return []
        if not self._data and text[-2:] == "\n\n" and self._name == "message" and "\r" not in text:
            plain = _plain_events(text)
            if plain is not None:
                return plain
        events: list[Event] = []
        lines = text.split("\n") if "\r" not in text else _LINE_END.split(text)
        lines.pop()
        self._take(lines, events)
        return events

    def finish(self) -> list[Event]:
        rest = self._lines.finish()
        events: list[Event] = []
        if rest:
            lines = _LINE_END.split(rest.decode("utf-8", "replace"))
            self._take(lines, events)
        self._dispatch(events)
        return events

    def _take(self, lines: list[str], events: list[Event]) -> None:
        for line in lines:
            if not line:
                if self._data or self._name != "message":
                    self._dispatch(events)
            elif line[:5] == "data:":
                self._add(line[6:] if line[5:6] == " " else line[5:], events)
            elif line[:6] == "event:":
                self._name = (line[7:] if line[6:7] == " " else line[6:]) or "message"
            elif line[0] == "{":
                self._add(line, events)
            elif line[:6] == "error:":
                self._dispatch(events)
                events.append(("error", line[6:].strip()))
            elif line == "data":
                self._add("", events)

    def _add(self, line: str, events: list[Event]) -> None:
        if len(self._data) == 1 and _stands_alone(self._data[0]):
            name = self._name
            self._dispatch(events)
            self._name = name
        self._data.append(line)
        self._size += len(line)
        if self._size > self._limit:
            raise LineTooLong(self._limit)

    def _dispatch(self, events: list[Event]) -> None:
        if self._data:
            events.append((self._name, "\n".join(self._data)))
            self._data = []
            self._size = 0
        self._name = "message"


def _plain_events(text: str) -> list[Event] | None:
    """Whole events of the two forms that nearly all servers send: one `data` line, or an `event` and a `data`
    line.

    None when anything else is among them.
    """
    if text[:6] == "data: ":
        parts = text[6:-2].split("\n\ndata: ")
        return [("message", part) for part in parts] if "\n" not in "".join(parts) else None
    if text[:7] != "event: ":
        return None
    blocks = text[7:-2].split("\n\nevent: ")
    if text.count("\n") != 3 * len(blocks):
        return None
    events = []
    for block in blocks:
        name, middle, data = block.partition("\ndata: ")
        if not middle or not name or "\n" in name or "\n" in data:
            return None
        events.append((name, data))
    return events


class NdjsonDecoder:
    """One JSON text a line; empty lines are nothing, a leading `data:` is cut off. Both methods raise
    LineTooLong."""

    def __init__(self, limit: int = MAX_LINE_BYTES) -> None:
        self._lines = _Lines(limit)

    def feed(self, data: bytes) -> list[Event]:
        return self.events_in(self.whole_lines(data))

    def whole_lines(self, data: bytes) -> str:
        """As SseDecoder's."""
        whole = data if data[-1:] == b"\n" and self._lines.empty else self._lines.feed(data)
        return whole.decode("utf-8", "replace")

    def frame(self, lines: str, name: str) -> tuple[str, str] | None:
        """As SseDecoder's."""
        return ("", "\n") if "\r" not in lines else None

    def events_in(self, text: str) -> list[Event]:
        """The events that these lines are."""
        return _line_events(text) if text else []

    def finish(self) -> list[Event]:
        return _line_events(self._lines.finish().decode("utf-8", "replace"))


def _line_events(text: str) -> list[Event]:
    if "\r" in text:
        lines = _LINE_END.split(text)
    else:
        lines = text.split("\n")
        if text[:1] == "{" and not lines[-1] and text.count("\n{") == len(lines) - 2:
            lines.pop()
            return [("message", line) for line in lines]
    return [("message", line) for raw in lines if (line := _bare(raw))]


def _bare(line: str) -> str:
    if line[:1] == "{":
        return line
    line = line.strip(" \t")
    return line[5:].strip(" \t") if line[:5] == "data:" else line


def _stands_alone(line: str) -> bool:
    """Whether a data line is an event by itself, so that a further data line begins another one."""
    text = line.strip()
    if text == END_MARK:
        return True
    if text[:1] not in ("{", "[", '"'):
        return False
    try:
        _JSON.decode(text)
    except (JSONDecodeError, RecursionError):
        return False
    return True
