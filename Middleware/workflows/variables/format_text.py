"""Format mode: `{name}` placeholders in Python's format syntax, filled in a way that never fails.

A text is first tried strictly (well-formed, all names known), else scanned tolerantly: what cannot be filled
stays text. The result is a list of pieces that remember where they come from, so that nothing inserted is
ever parsed again. Looks at no attribute, computes no variable that the text does not name. Source:
workflows.md 7.2, 16.1.
"""

from __future__ import annotations

import re
import string
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from typing import Any, NamedTuple, Protocol

MAX_DEPTH = 8
"""How deep values of workflow and user-wide variables are resolved."""
MAX_RESOLVED = 10_000
"""How many such values one substitution resolves; those behind it stay as text."""

_NAME = r"[^{}\[\].!:]+"
_PATH = r"(?:\[[^\[\]{}]+\])*"
_SPEC = r"(?:[^{}]|\{[^{}]*\})*"
_FIELD = re.compile(
    rf"\{{(?P<name>{_NAME})(?P<path>{_PATH})(?:!(?P<conversion>[^{{}}:]))?(?::(?P<spec>{_SPEC}))?\}}"
)
_SPEC_ALONE = re.compile(_SPEC)
_FIELD_NAME = re.compile(rf"(?P<name>{_NAME})(?P<path>{_PATH})")
_ESCAPED_WORD = re.compile(rf"\{{(\{{{_NAME}\}})\}}")
_KEY = re.compile(r"\[([^\]]+)\]")
_TOKEN = re.compile("\ufdd0([0-9]{1,9})\ufdd1")
_TOO_WIDE = re.compile(r"\d{5}")  # of any script, as Python reads them
_LONGEST_INDEX = 18
_CONVERSIONS: dict[str, Callable[[object], str]] = {"r": repr, "s": str, "a": ascii}
_DOES_NOT_FIT = (LookupError, TypeError, ValueError, AttributeError, OverflowError)


class Origin(Enum):
    """Where a piece of filled text comes from."""

    AUTHORED = "the text itself"
    STATIC = "a workflow or user-wide variable, or a date"
    RUN = "any other variable: known only while running"


class Piece(NamedTuple):
    text: str
    origin: Origin


class Found(NamedTuple):
    """A variable's value. `live`: its texts may hold placeholders (workflow and user-wide variables)."""

    value: Any
    live: bool
    origin: Origin


class Filled(NamedTuple):
    """A filled text. `unknown`: names that stay in it as text; `complete`: none of them is of the text
    itself.
    """

    pieces: list[Piece]
    unknown: frozenset[str]
    complete: bool


class Placeholder(NamedTuple):
    """What one stands for: a variable, or what lies at a path of indexes and keys in its value."""

    name: str
    path: tuple[str | int, ...]


class VariableNames(Protocol):
    """What placeholders are looked up in."""

    def find(self, name: str) -> Found | None: ...


class FilledText(str):
    """A text that remembers which parts of it were inserted: what a parent hands to its child's first node.

    Only run-time values are inserts: the author of a workflow wrote its variables too. `skeleton`: the
    authored text with a token in place of each insert; `inserts`: those pieces, by token number.
    """

    skeleton: str
    inserts: tuple[Piece, ...]

    @classmethod
    def of(cls, pieces: Sequence[Piece]) -> FilledText:
        text = cls(join_pieces(pieces))
        text.skeleton, text.inserts = _skeleton(pieces, literal=(Origin.RUN,))
        return text


@dataclass(frozen=True, slots=True)
class _Field:
    name: str
    path: tuple[str | int, ...]
    conversion: str | None
    spec: str
    raw: str


def join_pieces(pieces: Iterable[Piece]) -> str:
    return "".join(piece.text for piece in pieces)


def placeholder_names(text: str) -> frozenset[str]:
    """The names that `text` means to look up in format mode, known or not; for checks of a workflow file."""
    return frozenset(field.name for field in _fields_meant(text))


def placeholders(text: str, *, second_pass: bool = False) -> Iterator[Placeholder]:
    """All that `text` could look up in format mode, whichever names are known when it is filled, each once.

    A well-formed text with a name that nobody knows is scanned tolerantly, which reads `{{list[0]}}` as a
    placeholder in braces. `second_pass`: what a second pass could look up too.
    """
    fields = [*_fields_meant(text), *map(_field, _all_fields(text))]
    if second_pass and "{{" in text:
        fields += _fields_meant(text.replace("{{", "{").replace("}}", "}"))
    yield from dict.fromkeys(Placeholder(field.name, field.path) for field in fields)


def _fields_meant(text: str) -> Iterator[_Field]:
    parts = _strict_parts(text)
    return map(_field, _all_fields(text)) if parts is None else _fields_of(parts)


def fill_pieces(text: str, names: VariableNames, *, second_pass: bool = True) -> Filled:
    """`text` filled. A `FilledText`: what a parent inserted is not looked at. Never raises."""
    skeleton, inserts = (text.skeleton, text.inserts) if isinstance(text, FilledText) else (text, ())
    if "{" not in skeleton and "}" not in skeleton:
        return Filled(list(with_inserts(skeleton, inserts)), frozenset(), complete=True)
    filling = _Filling(names)
    pieces = filling.strict(skeleton, inserts, frozenset())
    if pieces is None:
        pieces = filling.tolerant(skeleton, inserts, frozenset())
    elif second_pass:
        pieces = filling.second_pass(pieces)
    return Filled(pieces, frozenset(filling.unknown), filling.complete)


class _Filling:
    """One substitution. `within` are the live variables whose values are just being resolved."""

    def __init__(self, names: VariableNames) -> None:
        self._names = names
        self.unknown: set[str] = set()
        self.complete = True
        self._resolved_values = 0
        self._left_braces = False  # of values that were resolved: the second pass of the peer sees them

    def strict(self, text: str, inserts: Sequence[Piece], within: frozenset[str]) -> list[Piece] | None:
        """The filled text, or None when it is not well-formed or a name is not known."""
        parts = _strict_parts(text)
        if parts is None:
            return None
        pieces: list[Piece] = []
        for part in parts:
            if isinstance(part, str):
                pieces += with_inserts(part, inserts)
                continue
            value = self._value(part, inserts, within)
            if value is None:
                return None
            pieces += value
        return pieces

    def tolerant(self, text: str, inserts: Sequence[Piece], within: frozenset[str]) -> list[Piece]:
        """From left to right, what can be filled is; all else stays as it is."""
        pieces: list[Piece] = []
        done = position = 0
        while (at := text.find("{", position)) >= 0:
            value, end = self._placeholder(text, at, inserts, within)
            if value is None:
                position = at + 1
                continue
            pieces += with_inserts(text[done:at], inserts)
            pieces += value
            done = position = end
        return [*pieces, *with_inserts(text[done:], inserts)]

    def second_pass(self, pieces: list[Piece]) -> list[Piece]:
        """The second pass, over braces that the authored text doubled; `pieces` itself if that does not work
        out.
        """
        authored = (piece.text for piece in pieces if piece.origin is Origin.AUTHORED)
        if not self._left_braces and not any("{" in text for text in authored):
            return pieces
        skeleton, inserts = _skeleton(pieces, literal=(Origin.STATIC, Origin.RUN))
        filled = self.strict(skeleton, inserts, frozenset())
        return pieces if filled is None else filled

    def _placeholder(
        self, text: str, at: int, inserts: Sequence[Piece], within: frozenset[str]
    ) -> tuple[list[Piece] | None, int]:
        """What stands for the brace at `at`, and where it ends; None: the brace itself does."""
        if escaped := _ESCAPED_WORD.match(text, at):
            return list(with_inserts(escaped[1], inserts)), escaped.end()
        match = _FIELD.match(text, at)
        if match is None:
            return None, at
        value = self._value(_field(match), inserts, within)
        if value is None:
            self.unknown.add(match["name"])
            self.complete = self.complete and bool(within)
        return value, match.end()

    def _value(self, field: _Field, inserts: Sequence[Piece], within: frozenset[str]) -> list[Piece] | None:
        """The text of one placeholder; None when the name is not known or something does not fit it."""
        if inserts and "\ufdd0" in field.raw:
            return self._value_of_built_name(field, inserts, within)
        found = None if field.name in within or field.name.isdecimal() else self._names.find(field.name)
        if found is None:
            return None
        try:
            value = found.value
            for key in field.path:
                value = value[key]
            if not (found.live and isinstance(value, str) and "{" in value and len(within) < MAX_DEPTH):
                return [Piece(self._format_value(value, field, found.live, within), found.origin)]
            if self._resolved_values >= MAX_RESOLVED:
                return None
            self._resolved_values += 1
            self._left_braces = True
            pieces = self._resolve_value(value, within | {field.name})
            if field.conversion is None and not field.spec:
                return pieces
            return _static_and_run(self._format_value(join_pieces(pieces), field, True, within), pieces)
        except _DOES_NOT_FIT:
            return None

    def _value_of_built_name(
        self, field: _Field, inserts: Sequence[Piece], within: frozenset[str]
    ) -> list[Piece] | None:
        """A placeholder whose authored braces hold inserted text, as the second pass can make it."""
        raw = join_pieces(with_inserts(field.raw, inserts))
        match = _FIELD.fullmatch(raw)
        if match is None or raw.count("{") != field.raw.count("{"):
            return None
        return self._value(_field(match), (), within)

    def _resolve_value(self, value: str, within: frozenset[str]) -> list[Piece]:
        """The value of a workflow or user-wide variable, itself filled; its own text is static."""
        pieces = self.strict(value, (), within)
        if pieces is None:
            pieces = self.tolerant(value, (), within)
        return [
            Piece(piece.text, Origin.STATIC) if piece.origin is Origin.AUTHORED else piece for piece in pieces
        ]

    def _format_value(self, value: Any, field: _Field, live: bool, within: frozenset[str]) -> str:
        """`value` as the placeholder's conversion and spec say. A null of the run prints as nothing."""
        spec = field.spec
        if "{" in spec:
            pieces = self.strict(spec, (), within)
            if pieces is None:
                raise ValueError("a name in the format specification is unknown")
            spec = join_pieces(pieces)
        if _TOO_WIDE.search(spec):
            raise ValueError("a placeholder cannot be that wide")
        if field.conversion is not None:
            value = _CONVERSIONS[field.conversion](value)
        elif value is None and not live:
            value = ""
        return format(value, spec)


def _static_and_run(formatted: str, pieces: Sequence[Piece]) -> list[Piece]:
    """The formatted text of `pieces`: static up to the first run-time value, as far as it is still there."""
    run = next((index for index, piece in enumerate(pieces) if piece.origin is Origin.RUN), None)
    if run is None:
        return [Piece(formatted, Origin.STATIC)]
    static = join_pieces(pieces[:run])
    if not static or not formatted.startswith(static):
        return [Piece(formatted, Origin.RUN)]
    return [Piece(static, Origin.STATIC), Piece(formatted[len(static) :], Origin.RUN)]


def with_inserts(text: str, inserts: Sequence[Piece]) -> Iterator[Piece]:
    """Authored text with the inserted pieces back in the place of their tokens."""
    if not inserts or "\ufdd0" not in text:
        if text:
            yield Piece(text, Origin.AUTHORED)
        return
    for index, run in enumerate(_TOKEN.split(text)):
        if index % 2:
            number = int(run)
            yield inserts[number] if number < len(inserts) else Piece(f"\ufdd0{run}\ufdd1", Origin.RUN)
        elif run:
            yield Piece(run, Origin.AUTHORED)


def _skeleton(pieces: Sequence[Piece], *, literal: tuple[Origin, ...]) -> tuple[str, tuple[Piece, ...]]:
    """The authored text with numbered tokens for all else; a token sign in it becomes an insert too."""
    text: list[str] = []
    inserts: list[Piece] = []

    def insert(piece: Piece) -> None:
        text.append(f"\ufdd0{len(inserts)}\ufdd1")
        inserts.append(piece)

    for piece in pieces:
        if piece.origin in literal:
            insert(piece)
            continue
        for index, run in enumerate(piece.text.split("\ufdd0")):
            if index:
                insert(Piece("\ufdd0", Origin.STATIC))
            text.append(run)
    return "".join(text), tuple(inserts)


@lru_cache(maxsize=1024)
def _strict_parts(text: str) -> tuple[str | _Field, ...] | None:
    """The text cut into plain text (braces undoubled) and placeholders; None when it is not well-formed."""
    parts: list[str | _Field] = []
    try:
        for plain, name, spec, conversion in string.Formatter().parse(text):
            if plain:
                parts.append(plain)
            if name is None:
                continue
            match = _FIELD_NAME.fullmatch(name)
            if match is None or conversion not in (None, *_CONVERSIONS):
                return None
            if spec and not _SPEC_ALONE.fullmatch(spec):
                return None  # placeholders stand in a spec, not in the spec of a spec
            raw = f"{{{name}{'!' + conversion if conversion else ''}{':' + spec if spec else ''}}}"
            parts.append(_Field(match["name"], _keys(match["path"]), conversion, spec or "", raw))
    except ValueError:
        return None
    return tuple(parts)


def _field(match: re.Match[str]) -> _Field:
    return _Field(match["name"], _keys(match["path"]), match["conversion"], match["spec"] or "", match[0])


def _keys(path: str) -> tuple[str | int, ...]:
    keys = _KEY.findall(path)
    return tuple(int(key) if key.isdecimal() and len(key) <= _LONGEST_INDEX else key for key in keys)


def _fields_of(parts: Iterable[str | _Field]) -> Iterator[_Field]:
    """The placeholders, and those of their specs, whose own specs hold none."""
    for part in parts:
        if isinstance(part, _Field):
            yield part
            if "{" in part.spec:
                yield from _fields_of(_strict_parts(part.spec) or map(_field, _all_fields(part.spec)))


def _all_fields(text: str) -> Iterator[re.Match[str]]:
    """Every placeholder that the tolerant scan could stop at, also one inside another."""
    at = text.find("{")
    while at >= 0:
        escaped = _ESCAPED_WORD.match(text, at)
        if escaped is None and (match := _FIELD.match(text, at)):
            yield match
        at = text.find("{", escaped.end() if escaped else at + 1)
