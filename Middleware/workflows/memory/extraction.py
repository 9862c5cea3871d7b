"""Memories out of a model's reply: finds the JSON, mends what can be mended, says what cannot.

Pure. Source: spec memory.md 7.5, 18.2 (8).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

_FENCE = re.compile(r"```[ \t]*([\w+-]*)[ \t]*\n(.*?)```", re.S)
_OPENING = re.compile(r"[{\[]")
_DECODER = json.JSONDecoder()
_GAP = re.compile(r"[\s,;]*")
_TITLE_WORDS = 8
_LISTS = ("entities", "key_phrases")
_TRIES = 1000
"""Places from which a value is looked for; a reply of nothing but brackets must not take for ever."""


@dataclass(frozen=True, slots=True)
class Extracted:
    """`memories`: objects with at least `title`, `summary`, `entities`, `key_phrases`. `rejected`: why
    others are
    none. `found`: the reply holds memories' JSON at all (`[]` too: nothing is worth keeping).
    """

    memories: list[dict[str, Any]] = field(default_factory=list)
    rejected: list[str] = field(default_factory=list)
    found: bool = False

    @property
    def nothing_to_keep(self) -> bool:
        return self.found and not self.memories and not self.rejected


def extract(reply: str) -> Extracted:
    """The memories of a reply: one object, an array of them, or several one after the other."""
    value = _json_of(reply)
    if value is None:
        return Extracted()
    memories: list[dict[str, Any]] = []
    rejected: list[str] = []
    for index, item in enumerate(value if isinstance(value, list) else [value]):
        try:
            memories.append(_memory(item))
        except ValueError as error:
            rejected.append(f"object {index + 1}: {error}")
    return Extracted(memories, rejected, found=True)


def _json_of(reply: str) -> Any:
    """The value of the first fenced block that holds one, else of the text; None: there is none."""
    fences = sorted(_FENCE.finditer(reply), key=lambda fence: fence[1].lower() != "json")
    for text in (*(fence[2] for fence in fences), reply):
        if (value := _first_value(text)) is not None:
            return value
    return None


def _first_value(text: str) -> Any:
    """An object or an array of objects (several objects in a row: their array); else an empty array, if
    any.
    """
    empty = None
    for start, value, end in _values(text):
        if isinstance(value, dict):
            return _in_a_row(text, value, end)
        if value and all(isinstance(item, dict) for item in value):
            return value
        if not value and not text[:start].strip() and not text[end:].strip():
            empty = value
    return empty


def _values(text: str) -> Iterator[tuple[int, Any, int]]:
    """JSON objects and arrays, each with where it begins and ends, from left to right.

    Up to one that is nested too deeply: that is no memory, and to try each bracket of it would take minutes.
    """
    position = 0
    for _ in range(_TRIES):
        opening = _OPENING.search(text, position)
        if opening is None:
            return
        start, position = opening.start(), opening.end()
        try:
            value, position = _DECODER.raw_decode(text, start)
        except ValueError:
            continue
        except RecursionError:
            return
        yield start, value, position


def _in_a_row(text: str, first: Any, end: int) -> Any:
    found = [first]
    while True:
        gap = _GAP.match(text, end)
        try:
            value, end = _DECODER.raw_decode(text, gap.end() if gap else end)
        except (ValueError, RecursionError):
            break
        if not isinstance(value, dict):
            break
        found.append(value)
    return found[0] if len(found) == 1 else found


def _memory(item: Any) -> dict[str, Any]:
    """The object, with the four keys in order. Raises ValueError with the reason."""
    if not isinstance(item, dict):
        raise ValueError(f"found {type(item).__name__}, allowed: an object")
    summary = _text(item.get("summary"), "summary")
    if not summary.strip():
        raise ValueError("`summary` is blank or missing")
    title = _text(item.get("title"), "title")
    if not title.strip():
        title = " ".join(summary.split()[:_TITLE_WORDS])
    return {**item, "title": title, "summary": summary, **{key: _list(item.get(key), key) for key in _LISTS}}


def _text(value: Any, key: str) -> str:
    if value is None:
        return ""
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        raise ValueError(f"`{key}` is no text")
    return _storable(str(value))


def _list(value: Any, key: str) -> list[str]:
    """Texts; one text is a list of one. What is nested in it is no phrase."""
    if value is None or value == "":
        return []
    items = value if isinstance(value, list) else [value]
    return [
        _text(item, key) for item in items if not isinstance(item, (dict, list, bool)) and item is not None
    ]


def _storable(text: str) -> str:
    """Half of a surrogate pair, which JSON can hold, no file can."""
    return text.encode("utf-8", "replace").decode("utf-8")
