"""Where the values of a JSON text stand: JSON pointer -> start and end of the key and of the value. Pure.

One pass over the text, as people write it: `//` and `/* */` comments and trailing commas are forgiven. It
never raises: of a text that is no JSON it tells what it can recognise. Offsets count characters from 0, an
end is the offset behind the last one.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field

Span = tuple[int, int]

_TOKEN = re.compile(
    r'"[^"\\\n]*(?:\\.[^"\\\n]*)*"?|//[^\n]*|/\*.*?(?:\*/|\Z)|[{}\[\],:]|[^\s{}\[\],:"/]+|/', re.DOTALL
)
_MARK = "\ufeff"
_LONGEST_INDEX = 9


@dataclass(slots=True, eq=False)
class JsonPlace:
    """One value of the text. `name`: its key or index in `parent`; `key`: where a key stands, with quotes.

    `members`: by key or index, for an object or a list. `hidden`: the same key comes again in its object, so
    that this value means nothing.
    """

    start: int
    end: int
    parent: JsonPlace | None = field(default=None, repr=False)
    name: str | int = 0
    key: Span | None = None
    members: dict[str | int, JsonPlace] | None = field(default=None, repr=False)
    hidden: bool = False

    @property
    def span(self) -> Span:
        return self.start, self.end

    @property
    def pointer(self) -> str:
        """Source: RFC 6901."""
        parts: list[str] = []
        place: JsonPlace | None = self
        while place is not None and place.parent is not None:
            parts.append("/" + str(place.name).replace("~", "~0").replace("/", "~1"))
            place = place.parent
        return "".join(reversed(parts))


@dataclass(frozen=True, slots=True, eq=False)
class Positions:
    """The map of one text. `places`: all values in the order of their start, hidden ones too."""

    text: str = field(repr=False)
    places: list[JsonPlace] = field(repr=False)
    _lines: list[int] = field(default_factory=list, repr=False)

    def find(self, pointer: str) -> JsonPlace | None:
        """The value that a pointer leads to; None: to none."""
        place = self._nearest(pointer)
        return place if place is not None and place.pointer == pointer else None

    def value(self, pointer: str) -> Span:
        """Of the value; of a missing one the opening bracket of what should hold it."""
        place = self._nearest(pointer)
        if place is None:
            return 0, 0
        if place.members is not None and place.pointer != pointer:
            return place.start, place.start + 1
        return place.span

    def key(self, pointer: str) -> Span | None:
        """Of the key with its quotes; None: a missing one, an item of a list, the whole."""
        place = self.find(pointer)
        return place.key if place else None

    def twice(self) -> Iterator[str]:
        """The pointers of keys that stand a further time in their object, once for each time."""
        seen: set[tuple[int, str | int]] = set()
        for place in self.places:
            if place.key is not None:
                mark = id(place.parent), place.name
                if mark in seen:
                    yield place.pointer
                seen.add(mark)

    def line_column(self, offset: int) -> tuple[int, int]:
        """Both from 1; a line ends with its line feed."""
        if not self._lines:
            self._lines.extend([0, *(match.end() for match in re.finditer("\n", self.text))])
        line = bisect_right(self._lines, offset)
        return line, offset - self._lines[line - 1] + 1

    def _nearest(self, pointer: str) -> JsonPlace | None:
        """The value, or the nearest that should hold it; None: the text holds no value."""
        if not self.places:
            return None
        place = self.places[0]
        for part in pointer.split("/")[1:]:
            name = part.replace("~1", "/").replace("~0", "~")
            members = place.members or {}
            is_index = name.isdecimal() and len(name) <= _LONGEST_INDEX
            found = members.get(name) or members.get(int(name) if is_index else -1)
            if found is None:
                break
            place = found
        return place


def positions(text: str) -> Positions:
    """The map of a text; a byte order mark before it is passed over. Linear in its length."""
    reader = _Reader()
    for match in _TOKEN.finditer(text, len(_MARK) if text.startswith(_MARK) else 0):
        reader.take(match.group(), match.start(), match.end())
        if reader.is_done:
            break
    for holder in reader.open:
        holder.place.end = len(text)
    return Positions(text, reader.places)


def count_values(text: str, most: int) -> int:
    """How many values a text holds; it stops to count at `most`."""
    reader = _Reader()
    for match in _TOKEN.finditer(text):
        reader.take(match.group(), match.start(), match.end())
        if reader.is_done or len(reader.places) >= most:
            break
    return len(reader.places)


@dataclass(slots=True)
class _Holder:
    """An object or a list whose end is not reached. `key`: of the value that comes next in an object."""

    place: JsonPlace
    is_object: bool
    key: tuple[str, Span] | None = None
    index: int = 0
    is_filled: bool = False


class _Reader:
    """What is known so far. `open`: the holders around the next value, outermost first."""

    def __init__(self) -> None:
        self.places: list[JsonPlace] = []
        self.open: list[_Holder] = []

    @property
    def is_done(self) -> bool:
        return bool(self.places) and not self.open

    def take(self, token: str, start: int, end: int) -> None:
        """One token: a bracket, comma, colon, text, word or comment."""
        if token in ("}", "]"):
            if self.open:
                self.open.pop().place.end = end
        elif token == ",":
            if self.open:
                _next(self.open[-1])
        elif token == ":" or token.startswith("/"):
            return
        elif self._is_key(token):
            self.open[-1].key = _text(token), (start, end)
        else:
            place = self._place_value(start, end)
            if token in ("{", "["):
                place.members = {}
                self.open.append(_Holder(place, token == "{"))

    def _is_key(self, token: str) -> bool:
        """Whether a text or word names the next value. After a value a comma was forgotten."""
        if not self.open:
            return False
        holder = self.open[-1]
        if holder.is_filled:
            _next(holder)
        return holder.is_object and holder.key is None and token not in ("{", "[")

    def _place_value(self, start: int, end: int) -> JsonPlace:
        """A value, put where it belongs."""
        place = JsonPlace(start, end)
        self.places.append(place)
        if not self.open:
            return place
        holder = self.open[-1]
        place.parent = holder.place
        members = holder.place.members
        assert members is not None
        if holder.is_object:
            place.name, place.key = holder.key or ("", None)
            if place.name in members:
                members[place.name].hidden = True
        else:
            place.name = holder.index
        members[place.name] = place
        holder.is_filled = True
        return place


def _next(holder: _Holder) -> None:
    """The next member begins."""
    holder.key, holder.is_filled = None, False
    holder.index += 1


def _text(token: str) -> str:
    """The value of a key as it is written."""
    if "\\" not in token:
        return token.strip('"')
    try:
        return str(json.loads(token, strict=False))
    except json.JSONDecodeError:
        return token.strip('"')
