"""Where the values of a JSON text stand: JSON pointer -> start and end of the key and of the value. Pure.

One pass over the text, as people write it: `//` and `/* */` comments and trailing commas are forgiven. It
never raises: of a text that is no JSON it tells what it can recognise. Offsets count characters from 0, an
end is the offset behind the last one.
"""

from __future__ import annotations

import codecs
import json
import math
import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

from Middleware.common.errors import NOWHERE, ConfigError, Position, node_index
from Middleware.common.secrets import SECRET_NAME, mask_keys
from Middleware.config.validation import WARNING, Finding

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


# --------------------------------------------------------------------------
# JSON as people write it: a byte order mark, `//` and `/* */` comments and trailing commas are forgiven.


_TOKENS = re.compile(r'"(?:[^"\\\n]|\\.)*"?|//[^\n]*|/\*.*?(?:\*/|\Z)|,(?=\s*[\]}])', re.DOTALL)
_COMMENT = re.compile(r"[^\n]")
_OUTSIDE = re.compile(r'"(?:[^"\\]|\\.)*"|[^\s{}\[\],:"]+', re.DOTALL)
_LONG_NUMBER = re.compile(r"\d{4000,}")
_NAMED_SECRET = re.compile(
    rf"""(["'][^"']*(?:{SECRET_NAME.pattern})[^"']*["']\s*:\s*["'])([^"']*)""", re.IGNORECASE
)
_MOST_BEFORE = 60
_CURLY = "\u201c\u201d\u201e\u2018\u2019\u00ab\u00bb"
_WORD = re.compile(r"[A-Za-z]+")
_BARE_NAME = re.compile(r"([A-Za-z_][\w-]{0,60})\s*:")
_OTHER_WORDS = {"true": "true", "false": "false", "none": "null", "null": "null", "undefined": "null"}
_HALF_A_CHARACTER = re.compile(r"\\u[dD][89a-fA-F]")
MAX_DEPTH = 100
"""Levels of lists and objects in a file; what walks through a document may recurse."""
_TOO_DEEP = f"nested too deeply: more than {MAX_DEPTH} levels"


def parse(raw: bytes, file: str, *, half_characters: bool = False) -> Any:
    """The value of a file's bytes. Raises ConfigError (`file`, position, the line with a caret).

    `half_characters`: escapes such as `\\ud83d` alone pass, as they do in a client's request.
    """
    text = _decode_bytes(raw, file)
    try:
        try:
            value = _loads(text)
        except json.JSONDecodeError:
            value = _loads(without_comments(text))
    except json.JSONDecodeError as error:
        raise syntax_error(f"not JSON: {_syntax_words(text, error, file)}", file, text, error.pos) from error
    except _NoNumber as error:
        raise syntax_error(str(error), file, text, _number_at(text, error.word)) from error
    except ValueError as error:  # Python reads no number of thousands of digits
        at = _offset(_LONG_NUMBER, text)
        raise syntax_error("contains a number with too many digits", file, text, at) from error
    except RecursionError as error:
        raise ConfigError(_TOO_DEEP, file=file) from error
    if _depth_exceeds(value, MAX_DEPTH):
        raise ConfigError(_TOO_DEEP, file=file)
    if not half_characters and _HALF_A_CHARACTER.search(text):
        _refuse_half_characters(value, file, text)
    return value


def _decode_bytes(raw: bytes, file: str) -> str:
    if raw.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) or b"\0" in raw[:4]:
        raise ConfigError("the file is UTF-16 or UTF-32 text, allowed: UTF-8; save it as UTF-8", file=file)
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before = raw[: error.start].decode("utf-8-sig")
        text = before + raw[error.start :].decode("utf-8", "replace")
        raise syntax_error("not UTF-8 text; save it as UTF-8", file, text, len(before)) from error


def syntax_error(message: str, file: str, text: str, at: int) -> ConfigError:
    """The error at an offset of the text, with its line and a caret below."""
    start = text.rfind("\n", 0, at) + 1
    position = Position(text.count("\n", 0, at) + 1, at - start + 1)
    return ConfigError(message, file=file, position=position, excerpt=_excerpt(text, start, at))


def _excerpt(text: str, start: int, at: int) -> str:
    """The line that begins at `start`, cut around `at`, secrets masked; below it a caret."""
    line = text[start:].partition("\n")[0].rstrip("\r")
    line = _NAMED_SECRET.sub(lambda match: match[1] + "*" * len(match[2]), line)
    line = mask_keys(line, same_length=True)
    first = max(0, at - start - _MOST_BEFORE)
    shown = line[first : first + 2 * _MOST_BEFORE].replace("\t", " ")
    return f"\n    {shown}\n    {' ' * (at - start - first)}^" if line.strip() else ""


_SLIPS = {
    "Invalid control character at": (
        r'a string must end with " on the line where it begins; '
        r"write \n for a line break and \t for a tab"
    ),
    "Unterminated string starting at": 'the closing " of this string is missing',
    "Invalid \\escape": "write a backslash in a string as \\\\",
    "Invalid \\uXXXX escape": "write a backslash in a string as \\\\",
    "Extra data": "the file must contain one value, which ended before this",
}
"""What Python's parser says -> what to do about it."""
_NAME, _COMMA = "Expecting property name enclosed in double quotes", "Expecting ',' delimiter"
_MISSING = {
    "Expecting value": "a value is missing here",
    _NAME: "a name in double quotes is missing here",
    "Expecting ':' delimiter": "a colon is missing before this",
    _COMMA: "a comma is missing before this",
}
"""What it says where no usual slip stands -> the same in plain words."""


def _smallest(file: str) -> str:
    if file.startswith("Workflows/"):
        return 'the smallest workflow is [{"type": "Standard", "endpointName": "..."}]'
    return "the smallest object is {}"


def _syntax_words(text: str, error: json.JSONDecodeError, file: str) -> str:
    """What is wrong, in words for who wrote it: what people mean who write this, else what is missing."""
    at = error.pos
    if not text.strip():
        return f"the file is empty; {_smallest(file)}"
    if error.msg in _SLIPS:
        return _SLIPS[error.msg]
    if not text[at:].strip():
        return "the file ends here; a closing ] or } is missing"
    sign = text[at : at + 1]
    if sign == "'":
        return "JSON strings need double quotes, not single ones"
    if sign in _CURLY and sign:
        return 'JSON strings need straight double quotes ", not curly ones'
    word = _WORD.match(text, at)
    if word and word[0].lower() in _OTHER_WORDS:
        return f"in JSON, write {_OTHER_WORDS[word[0].lower()]} instead of {word[0]}"
    if error.msg == _NAME and (name := _BARE_NAME.match(text, at)):
        return f'names need double quotes: "{name[1]}":'
    if error.msg == _COMMA and _is_inside_quotes(text, at):
        return 'write a " inside a string as \\"'
    # A newer Python may know faults of its own; it names the place, which stands before ours.
    return _MISSING.get(error.msg, error.msg.removesuffix(" at").removesuffix(" starting"))


def _is_inside_quotes(text: str, at: int) -> bool:
    """Whether a quote stands right before what should be a comma: it was meant to be part of a string."""
    before = text[:at].rstrip()
    between = text[len(before) : at]
    return before.endswith('"') and "\n" not in between and text[at : at + 1] not in "{["


def _number_at(text: str, word: str) -> int:
    """Where a number or word stands outside of texts and comments."""
    for match in _OUTSIDE.finditer(without_comments(text)):
        if match[0] == word:
            return match.start()
    return 0


def _offset(pattern: re.Pattern[str], text: str) -> int:
    match = pattern.search(text)
    return match.start() if match else 0


def _refuse_half_characters(value: Any, file: str, text: str) -> None:
    r"""An escape like `\ud83d` alone is no character: it could be neither sent, written nor logged."""
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        escape = f"\\u{ord(error.object[error.start]):04x}"
        at = _offset(re.compile(re.escape(escape), re.IGNORECASE), text)
        raise syntax_error(f"the escape {escape} is only half of a character", file, text, at) from error


class _NoNumber(ValueError):
    """A word that Python would read as an infinite number or as none; no setting can mean it."""

    def __init__(self, message: str, word: str) -> None:
        self.word = word
        super().__init__(message)


def _loads(text: str) -> Any:
    return json.loads(text, parse_constant=_no_constant, parse_float=_finite)


def _no_constant(word: str) -> Any:
    raise _NoNumber(f"not JSON: {word} is not a number", word)


def _finite(digits: str) -> float:
    number = float(digits)
    if math.isinf(number):
        raise _NoNumber(f"the number {digits[:60]} is too large", digits)
    return number


def _depth_exceeds(value: Any, limit: int) -> bool:
    """Whether lists and objects stand more than `limit` levels inside each other. Without recursion."""
    level = [value]
    for _ in range(limit):
        level = [item for holder in level for item in _items(holder) if isinstance(item, (dict, list))]
        if not level:
            return False
    return True


def _items(value: Any) -> Iterable[Any]:
    return value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()


def without_comments(text: str) -> str:
    """Comments, then commas before a closing bracket, become blanks of the same length."""
    return _TOKENS.sub(_blank_comma, _TOKENS.sub(_blank_comment, text))


def _blank_comment(match: re.Match[str]) -> str:
    token = match.group()
    return _COMMENT.sub(" ", token) if token.startswith("/") else token


def _blank_comma(match: re.Match[str]) -> str:
    """A comma after a value and before a closing bracket goes; one that follows no value stays an error."""
    if match.group() != ",":
        return match.group()
    before = match.start() - 1
    while before >= 0 and match.string[before].isspace():
        before -= 1
    return "," if before < 0 or match.string[before] in "[{,:" else " "


# --------------------------------------------------------------------------
# Findings at their places in a file's bytes, and the keys that it holds twice. Pure.


_REMARK = re.compile(r"_|//|comment|displayOnlyComment|description", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Layout:
    """A file's document and the map of its text."""

    document: Any
    map: Positions

    def position(self, file: str, pointer: str) -> Position:
        """Of the value, or of the nearest that holds it."""
        if isinstance(self.document, list):
            pointer = pointer.removeprefix("/nodes")
        title = self._title(node_index(file, pointer))
        return Position(*self.map.line_column(self.map.value(pointer)[0]), title)

    def _title(self, index: int | None) -> str:
        nodes = self.document.get("nodes") if isinstance(self.document, Mapping) else self.document
        if index is None or not isinstance(nodes, list) or index >= len(nodes):
            return ""
        node = nodes[index]
        return str(node.get("title") or node.get("agentName") or "") if isinstance(node, Mapping) else ""


@lru_cache(maxsize=32)
def layout(raw: bytes) -> Layout | None:
    """The layout of a file's bytes; None for what is no JSON."""
    try:
        document = parse(raw, "")
    except ConfigError:
        return None
    return Layout(document, positions(raw.decode("utf-8-sig")))


def position_in(raw: bytes, file: str, pointer: str) -> Position:
    """Where a pointer leads in a file's bytes; nowhere in what is no JSON."""
    found = layout(raw)
    return found.position(file, pointer) if found else NOWHERE


def place_findings(findings: Iterable[Finding], raw: bytes) -> list[Finding]:
    """The findings of one file with their positions; those that have one keep it."""
    return [
        finding
        if finding.position.line
        else replace(finding, position=position_in(raw, finding.file, finding.pointer))
        for finding in findings
    ]


def repeated_keys(raw: bytes, file: str) -> list[Finding]:
    """A warning for each key that stands twice in one object; a remark may."""
    found = layout(raw)
    keys = [(pointer, pointer.rpartition("/")[2]) for pointer in (found.map.twice() if found else ())]
    return [
        Finding(file, pointer, WARNING, f"the key {key!r} occurs twice in this object; the last one is used")
        for pointer, key in keys
        if not _REMARK.match(key)
    ]
