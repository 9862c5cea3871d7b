"""Schemas and arguments by which a library would go on for ever.

Python's limit of frames is no guard: where workflows may be nested deeply it is high, and the stack of the
process ends before it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from urllib.parse import unquote

from Middleware.utilities.model_json import value_at

LEVELS = 200
"""A document with more of them is not judged: each takes several frames of Python's stack."""
_BESIDE = ("not", "if", "then", "else")
_LISTS_BESIDE = ("allOf", "anyOf", "oneOf")
_NAMES_BESIDE = ("dependentSchemas", "dependencies")


def is_endless(schema: dict[str, Any]) -> bool:
    """Whether judging one value by it leads back to the same part for the same value, without an end."""
    held = list(_dicts_in(schema))
    left = {id(part): {id(one) for one in _parts_beside(part, schema)} for part in held}
    while ends := [part for part, ways in left.items() if not ways & left.keys()]:
        for part in ends:
            del left[part]
    return bool(left)


def _dicts_in(value: Any) -> Iterator[dict[str, Any]]:
    """Each once, whatever it is for."""
    todo = [value]
    while todo:
        one = todo.pop()
        if isinstance(one, dict):
            yield one
        if isinstance(one, dict | list):
            todo += one.values() if isinstance(one, dict) else one


def _parts_beside(part: dict[str, Any], schema: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The parts that judge the same value as this one."""
    found = [part.get(word) for word in _BESIDE]
    for word in _LISTS_BESIDE:
        found += part[word] if isinstance(part.get(word), list) else []
    for word in _NAMES_BESIDE:
        found += part[word].values() if isinstance(part.get(word), dict) else []
    reference = part.get("$ref")
    if isinstance(reference, str) and reference.startswith("#"):
        try:
            found.append(value_at(schema, unquote(reference[1:])))
        except LookupError:
            found.append(None)
    yield from (one for one in found if isinstance(one, dict))


def is_deep(document: Any) -> bool:
    """Whether it has more than `LEVELS`."""
    level = [document]
    for _ in range(LEVELS):
        level = [
            inner
            for one in level
            if isinstance(one, dict | list)
            for inner in (one.values() if isinstance(one, dict) else one)
        ]
        if not level:
            return False
    return True
