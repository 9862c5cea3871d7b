"""Memories out of a model's reply: finds the JSON, corrects what can be corrected, and says what cannot.

Pure. Source: spec memory.md 7.5, 18.2 (8, 20, 21).
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import Any

from Middleware.utilities.model_json import TRIES, json_values, read_value
from Middleware.utilities.text_utils import without_halves

_FENCE = re.compile(r"```[ \t]*([\w+-]*)[ \t]*\n(.*?)```", re.S)
_OPENING = re.compile(r"[{\[]")
_DECODER = json.JSONDecoder()
_GAP = re.compile(r"[\s,;]*")
_TITLE_WORDS = 8
_SUMMARY_KEYS = ("summary", "fact", "memory", "content", "text")
_PHRASE_KEYS = ("key_phrases", "keywords", "tags")
"""What is asked for, and what models write instead."""
_KEYS = frozenset((*_SUMMARY_KEYS, *_PHRASE_KEYS, "title", "entities", "topics"))


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
    """The memories of a reply: one object, an array of them, or several one after the other.

    What Python's parser refuses is read once more as weak models mean it. A memory that the reply says twice
    is one.
    """
    strict = _extract_items(_json_of(reply, _Strict()))
    if strict.nothing_to_keep or (strict.memories and not strict.rejected and _is_clean(reply)):
        return strict
    lenient = _extract_items(_json_of(reply, _Lenient()))
    return lenient if _yield_of(lenient) > _yield_of(strict) else strict


def fold_case(text: str) -> str:
    """The text as it is compared: without case, blanks alike."""
    return " ".join(text.casefold().split())


def _yield_of(found: Extracted) -> tuple[int, bool, int]:
    return len(found.memories), found.nothing_to_keep, -len(found.rejected)


def _extract_items(value: Any) -> Extracted:
    if value is None:
        return Extracted()
    memories: dict[str, dict[str, Any]] = {}
    rejected: list[str] = []
    for index, item in enumerate(value if isinstance(value, list) else [value]):
        try:
            memory = _memory(item)
            memories.setdefault(fold_case(memory["summary"]), memory)
        except ValueError as error:
            rejected.append(f"object {index + 1}: {error}")
    return Extracted([*memories.values()], rejected, found=True)


# --- two ways to read ---


class _Strict:
    """JSON as it is defined; memories are objects."""

    tries = TRIES

    def read(self, text: str, start: int) -> tuple[Any, int]:
        return _DECODER.raw_decode(text, start)

    def memories_of(self, value: Any, before: str) -> Any:
        """The value if it can be memories, else None. `before`: the text in front of it."""
        if isinstance(value, dict):
            return value
        return value if value and all(isinstance(item, dict) for item in value) else None


class _Lenient(_Strict):
    """JSON as weak models write it; also texts alone, and a list inside an object of one key."""

    tries = 100

    def read(self, text: str, start: int) -> tuple[Any, int]:
        return read_value(text, start, python=True)

    def memories_of(self, value: Any, before: str) -> Any:
        if isinstance(value, dict):
            ((key, held),) = value.items() if len(value) == 1 else ((None, None),)
            return held if isinstance(held, list) and key not in _KEYS else value
        if not value or not all(isinstance(item, (dict, str)) for item in value):
            return None
        # a list of texts behind a bracket that was never closed is a part of something, such as its entities
        whole = not _OPENING.search(before)
        return value if whole or all(isinstance(item, dict) for item in value) else None


def _is_clean(reply: str) -> bool:
    """Whether the first thing in the reply that looks like JSON is JSON: then nothing of it was skipped."""
    fences = [fence[2] for fence in _fences(reply)]
    text = fences[0] if fences else reply
    opening = _OPENING.search(text)
    if opening is None:
        return True
    try:
        _DECODER.raw_decode(text, opening.start())
    except (ValueError, RecursionError):
        return False
    return True


def _fences(reply: str) -> list[re.Match[str]]:
    """Code blocks, those of JSON first."""
    return sorted(_FENCE.finditer(reply), key=lambda fence: fence[1].lower() != "json")


def _json_of(reply: str, way: _Strict) -> Any:
    """The value of the first fenced block that holds one, else of the text; None: there is none."""
    for text in (*(fence[2] for fence in _fences(reply)), reply):
        if (value := _first_value(text, way)) is not None:
            return value
    return None


def _first_value(text: str, way: _Strict) -> Any:
    """An object or an array of objects (several objects in a row: their array); else an empty array, if
    any.
    """
    empty = None
    for start, value, end in json_values(text, way.read, way.tries):
        memories = way.memories_of(value, text[:start])
        if memories is not None and memories is value and isinstance(value, dict):
            return _in_a_row(text, value, end, way)
        if memories is not None:
            return memories
        if value == [] and not text[:start].strip() and not text[end:].strip():
            empty = value
    return empty


def _in_a_row(text: str, first: Any, end: int, way: _Strict) -> Any:
    found = [first]
    while True:
        gap = _GAP.match(text, end)
        try:
            value, end = way.read(text, gap.end() if gap else end)
        except (ValueError, RecursionError):
            break
        if not isinstance(value, dict):
            break
        found.append(value)
    return found[0] if len(found) == 1 else found


# --- one memory ---


def _memory(item: Any) -> dict[str, Any]:
    """The object, with the four keys in order. Raises ValueError with the reason."""
    if isinstance(item, str):
        item = {"summary": item}
    if not isinstance(item, dict):
        raise ValueError(f"found {type(item).__name__}, allowed: an object")
    summary = _text(_first_of(item, _SUMMARY_KEYS), "summary")
    if not summary.strip():
        raise ValueError("`summary` is empty or missing")
    title = _text(item.get("title"), "title")
    if not title.strip():
        title = " ".join(summary.split()[:_TITLE_WORDS])
    entities = _list(item.get("entities"), "entities")
    phrases = _list(_first_of(item, _PHRASE_KEYS), "key_phrases")
    return {**item, "title": title, "summary": summary, "entities": entities, "key_phrases": phrases}


def _first_of(item: dict[str, Any], keys: tuple[str, ...]) -> Any:
    """The value of the first key that says something."""
    return next((item[key] for key in keys if item.get(key) not in (None, "", [])), None)


def _text(value: Any, key: str) -> str:
    if value is None:
        return ""
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        raise ValueError(f"`{key}` is not a string")
    return without_halves(str(value))


def _list(value: Any, key: str) -> list[str]:
    """Texts; one text is a list of one. What is nested in it is no phrase."""
    if value is None or value == "":
        return []
    items = value if isinstance(value, list) else [value]
    return [
        _text(item, key) for item in items if not isinstance(item, (dict, list, bool)) and item is not None
    ]
