"""What a file of a kind may hold: `schemas/<kind>.json`, and the fields that are handed in.

A field stands where it is read: a setting of a user in `users.py`, a key of a cleaning rule in the rule. Both
come here as JSON Schema, handed in by modules that this one does not know.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import cache
from importlib.resources import files
from typing import Any

Fields = Mapping[str, Mapping[str, Any]]
"""Name of a field -> its JSON Schema (draft 2020-12)."""

_SOURCES: dict[str, list[Callable[[], Fields]]] = {}
_WHOLE: dict[str, tuple[list[Fields], dict[str, Any]]] = {}


def hand_in(kind: str, fields: Callable[[], Fields]) -> None:
    """More fields of the files of a kind. `fields` gives the same object while nothing changes."""
    _SOURCES.setdefault(kind, []).append(fields)


def schema(kind: str) -> dict[str, Any]:
    """The schema of the files of a kind. Shared: not to be changed.

    Raises ValueError when two sources state a field differently.
    """
    parts = [fields() for fields in _SOURCES.get(kind, ())]
    kept = _WHOLE.get(kind)
    if kept is None or list(map(id, kept[0])) != list(map(id, parts)):
        kept = _WHOLE[kind] = (parts, _with_fields(kind, parts))
    return kept[1]


@cache
def _from_file(kind: str) -> dict[str, Any]:
    text = files("Middleware.config").joinpath("schemas", f"{kind}.json").read_text(encoding="utf-8")
    loaded: dict[str, Any] = json.loads(text)
    return loaded


def _with_fields(kind: str, parts: list[Fields]) -> dict[str, Any]:
    whole = _from_file(kind)
    if not parts:
        return whole
    together: dict[str, Mapping[str, Any]] = dict(whole.get("properties", {}))
    for fields in parts:
        for name, field in fields.items():
            together[name] = _merge_fields(kind, name, together.get(name, {}), field)
    return {**whole, "properties": together}


def _merge_fields(
    kind: str, name: str, one: Mapping[str, Any], other: Mapping[str, Any]
) -> Mapping[str, Any]:
    """What two sources say of one field, put together. Raises ValueError where they differ."""
    for keyword in one.keys() & other.keys():
        if one[keyword] != other[keyword]:
            raise ValueError(
                f"{kind} field {name!r}: {keyword} is stated as {one[keyword]!r} and as {other[keyword]!r}"
            )
    return {**one, **other}
