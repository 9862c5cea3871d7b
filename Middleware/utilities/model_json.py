"""JSON as weak models write it: what is meant is clear, and Python's parser refuses it.

Read so: a comma before a closing bracket, line ends and tabs inside texts, escapes that JSON does not know;
on wish also what Python prints (single quotes, None, True, False). Pure. Source: spec memory.md 18.2 (20).
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator
from typing import Any

MAX_DEPTH = 100
"""Levels of lists and objects; what is nested deeper is refused."""

_TEXTS = {quote: re.compile(rf"{quote}((?:[^{quote}\\]|\\.)*){quote}", re.DOTALL) for quote in "\"'"}
_BLANK = re.compile(r"\s*")
_SCALAR = re.compile(r"[\w.+-]+")
_ESCAPE = re.compile(r'\\u[0-9a-fA-F]{4}|\\.|"', re.DOTALL)
_KNOWN_ESCAPES = frozenset('"\\/bfnrt')
_PYTHON_WORDS = {"None": None, "True": True, "False": False}
_CLOSING = {"[": "]", "{": "}"}


def read_value(text: str, start: int = 0, *, python: bool = False) -> tuple[Any, int]:
    """The value that begins at `start`, and where it ends. Raises ValueError.

    `python`: also as Python prints it.
    """
    return _LenientReader(text, python).value(start, 0)


def read_whole(text: str) -> Any:
    """The value that is all of the text. Raises ValueError."""
    value, end = read_value(text)
    if text[end:].strip():
        raise ValueError("there is more text after the value")
    return value


class _LenientReader:
    """One reading of a text: each method takes a position, and gives a value and the position behind it."""

    def __init__(self, text: str, python: bool) -> None:
        self._text, self._python = text, python

    def value(self, at: int, depth: int) -> tuple[Any, int]:
        at = self._behind_blanks(at)
        sign = self._text[at : at + 1]
        if sign in _CLOSING:
            if depth == MAX_DEPTH:
                raise ValueError("nested too deeply")
            return self._object(at + 1, depth + 1) if sign == "{" else self._list(at + 1, depth + 1)
        if sign == '"' or (sign == "'" and self._python):
            return self._read_quoted(at)
        return self._scalar(at)

    def _list(self, at: int, depth: int) -> tuple[list[Any], int]:
        items: list[Any] = []
        while (at := self._next_item(at, "]", first=not items)) >= 0:
            item, at = self.value(at, depth)
            items.append(item)
        return items, -at

    def _object(self, at: int, depth: int) -> tuple[dict[str, Any], int]:
        items: dict[str, Any] = {}
        first = True
        while (at := self._next_item(at, "}", first=first)) >= 0:
            first = False
            key, at = self.value(at, MAX_DEPTH)
            at = self._behind_blanks(at)
            if not isinstance(key, str) or self._text[at : at + 1] != ":":
                raise ValueError("no key")
            items[key], at = self.value(at + 1, depth)
        return items, -at

    def _next_item(self, at: int, closing: str, *, first: bool) -> int:
        """Where the next item begins; behind the closing bracket, as a negative number, if there is none."""
        at = self._behind_blanks(at)
        if not first and self._text[at : at + 1] == ",":
            at, first = self._behind_blanks(at + 1), True
        if self._text[at : at + 1] == closing:
            return -(at + 1)
        if not first:
            raise ValueError("no comma")
        return at

    def _read_quoted(self, at: int) -> tuple[str, int]:
        found = _TEXTS[self._text[at]].match(self._text, at)
        if found is None:
            raise ValueError("a string without an end")
        text: str = json.loads(f'"{_ESCAPE.sub(_known_escape, found[1])}"', strict=False)
        return text, found.end()

    def _scalar(self, at: int) -> tuple[Any, int]:
        found = _SCALAR.match(self._text, at)
        if found is None:
            raise ValueError("no value")
        word = found[0]
        if self._python and word in _PYTHON_WORDS:
            return _PYTHON_WORDS[word], found.end()
        return json.loads(word), found.end()

    def _behind_blanks(self, at: int) -> int:
        blank = _BLANK.match(self._text, at)
        return blank.end() if blank else at


def _known_escape(match: re.Match[str]) -> str:
    r"""An escape that JSON knows, for the same text: `\_` is `_`, `\d` a backslash and a letter."""
    escape = match[0]
    if escape == '"':
        return '\\"'
    sign = escape[1]
    if len(escape) > 2 or sign in _KNOWN_ESCAPES:
        return escape
    return f"\\\\{sign}" if sign.isalnum() else sign


# --------------------------------------------------------------------------
# JSON in the reply of a model: in a code fence, or between words. Pure.


_FENCE = re.compile(r"```[ \t]*([\w+-]*)[ \t]*\n(.*?)```", re.S)
_OPENING = re.compile(r"[{\[]")
_DECODER = json.JSONDecoder(strict=False)
"""Models write line ends into strings as they are."""
ReadsValue = Callable[[str, int], tuple[Any, int]]
TRIES = 1000
"""Places from which a value is looked for; a reply of nothing but brackets must not take for ever."""


def places_of_json(reply: str) -> list[str]:
    """Where JSON may be, the likeliest place first: fences that say `json`, other fences, the reply."""
    fences = sorted(_FENCE.finditer(reply), key=lambda fence: fence[1].lower() != "json")
    return [*(fence[2] for fence in fences), reply]


def json_values(
    text: str, read: ReadsValue = _DECODER.raw_decode, tries: int = TRIES
) -> Iterator[tuple[int, Any, int]]:
    """JSON objects and arrays, each with where it begins and ends, from left to right.

    `read(text, start)`: the value that begins there, and its end; raises ValueError where there is none. Up
    to one that is nested too deeply: to try each bracket of it would take minutes.
    """
    position = 0
    for _ in range(tries):
        opening = _OPENING.search(text, position)
        if opening is None:
            return
        start, position = opening.start(), opening.end()
        try:
            value, position = read(text, start)
        except ValueError:
            continue
        except RecursionError:
            return
        yield start, value, position


# --------------------------------------------------------------------------
# JSON as the standard has it. Python also reads `NaN`, `Infinity` and numbers that no float can hold;
# written again they would be no JSON, and whoever gets them could read nothing of the answer around them.


_SHOWN = 40


class NoNumber(ValueError):
    """A number that JSON has no form for, or that has no value."""


def strict_loads(text: str | bytes) -> Any:
    """The value of a JSON text. Raises NoNumber, ValueError, RecursionError."""
    return json.loads(text, parse_constant=_no_constant, parse_float=_finite)


def is_json(text: str) -> bool:
    """Whether Python's parser reads the text."""
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def object_of(text: str) -> dict[str, Any] | None:
    """The JSON object that a text is, all of it; None for any other text."""
    try:
        value = strict_loads(text)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


_INDEX = re.compile(r"0|[1-9]\d{0,17}", re.ASCII)


def value_at(value: Any, pointer: str) -> Any:
    """The part of a JSON value that a JSON pointer leads to (RFC 6901). Raises LookupError."""
    for part in pointer.split("/")[1:]:
        name = part.replace("~1", "/").replace("~0", "~")
        if isinstance(value, list) and _INDEX.fullmatch(name):
            value = value[int(name)]
        elif isinstance(value, dict):
            value = value[name]
        else:
            raise LookupError(name)
    return value


def _no_constant(word: str) -> Any:
    raise NoNumber(f"{word} is not a number")


def _finite(digits: str) -> float:
    number = float(digits)
    if math.isinf(number):
        raise NoNumber(f"it contains a number that is too large: {digits[:_SHOWN]}")
    return number
