"""Edits of a keys file's text: an entry more, one less, another digest. Comments and layout stay. Pure.

Each edit is read again before it is handed out: a text that would not say just what was meant is refused.
Source: spec keys.md 7.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from Middleware.common.errors import ConfigError
from Middleware.config.json_positions import JsonPlace, positions
from Middleware.config.key_file import KeyEntry, read_keys
from Middleware.config.paths import KEYS_FILE

EMPTY = '{\n  "keys": [\n  ]\n}\n'
"""A file without entries."""
_NOT_CODE = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_AFTER = re.compile(r"(?:\s|//[^\n]*\n|/\*.*?\*/)*,[ \t]*", re.DOTALL)
_BEFORE = re.compile(r",(?:\s|//[^\n]*\n|/\*.*?\*/)*\Z", re.DOTALL)
_LINE = re.compile(r"[ \t]*\n")


def with_entry(text: str, entry: Mapping[str, Any]) -> str:
    """The text with one more entry, the last one. `entry`: as the file holds it. Raises ConfigError."""
    held = _entries(text)
    place = _list_of(text)
    written = json.dumps(entry, ensure_ascii=False)
    members = list((place.members or {}).values())
    begin = members[-1].end if members else place.start + 1
    between = text[begin : place.end - 1]
    comma = "," if members and "," not in _NOT_CODE.sub("", between) else ""
    lead = text[:begin] + comma + between.rstrip()
    made = f"{lead}\n    {written}\n  {text[place.end - 1 :]}"
    return _checked(made, [*(one.name for one in held), entry["name"]], held)


def without_entry(text: str, name: str) -> str:
    """The text without the entry of this name. Raises ConfigError, LookupError where there is none."""
    held = _entries(text)
    place = _place_of(text, held, name)
    start, end = place.start, place.end
    if after := _AFTER.match(text, end):
        end = after.end()
    elif before := _BEFORE.search(text, 0, start):
        start = before.start()
    if line := _LINE.match(text, end):  # a line that held nothing else goes with it
        indent = len(text[:start]) - len(text[:start].rstrip(" \t"))
        if text[: start - indent].endswith("\n"):
            start, end = start - indent, line.end()
    kept = [one for one in held if one.name != name]
    return _checked(text[:start] + text[end:], [one.name for one in kept], kept)


def with_digest(text: str, name: str, sha256: str, folder: str | None = None) -> str:
    """The text with another digest in the entry of this name. `folder`: what the entry, which names none,
    names from now on; None: it stays without. Raises ConfigError, LookupError where there is no such entry.
    """
    held = _entries(text)
    place = (_place_of(text, held, name).members or {})["sha256"]
    more = "" if folder is None else f', "folder": {json.dumps(folder)}'
    made = text[: place.start] + json.dumps(sha256) + more + text[place.end :]
    kept = [one for one in held if one.name != name]
    return _checked(made, [one.name for one in held], kept)


def _entries(text: str) -> tuple[KeyEntry, ...]:
    return read_keys(text.encode())


def _list_of(text: str) -> JsonPlace:
    place = positions(text).find("/keys")
    if place is None:
        raise ConfigError("'keys' is missing", file=KEYS_FILE)
    return place


def _place_of(text: str, held: Sequence[KeyEntry], name: str) -> JsonPlace:
    index = next((index for index, one in enumerate(held) if one.name == name), None)
    if index is None:
        raise LookupError(name)
    return (_list_of(text).members or {})[index]


def _checked(text: str, names: Sequence[str], kept: Sequence[KeyEntry]) -> str:
    """The text, which must hold entries of these names, and these as they were."""
    now = read_keys(text.encode())
    if [one.name for one in now] != list(names) or any(one not in now for one in kept):
        raise ConfigError("the file is laid out in a way that only a person can edit", file=KEYS_FILE)
    return text
