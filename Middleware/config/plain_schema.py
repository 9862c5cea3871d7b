"""A quick yes for the common case: a document that plainly keeps to a schema of simple keywords. Pure.

What it does not know it leaves to the schema library, which the start of a server need not load.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from Middleware.config.text_patterns import has_pattern

_IGNORED = frozenset({"$schema", "$id", "title", "description", "default", "examples"})


def plainly_fits(value: Any, schema: Any) -> bool:
    """True only where JSON Schema (draft 2020-12) finds no fault in `value`."""
    if not isinstance(schema, Mapping):
        return schema is True
    for keyword, wanted in schema.items():
        if keyword in _IGNORED or keyword.startswith("x-"):
            continue
        if keyword == "additionalProperties" and wanted is False:
            if not _has_no_other(value, schema):
                return False
            continue
        holds = _KEYWORDS.get(keyword)
        if holds is None or not holds(value, wanted):
            return False
    return True


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


_TYPES: dict[str, Callable[[Any], bool]] = {
    "object": lambda value: isinstance(value, dict),
    "array": lambda value: isinstance(value, list),
    "string": lambda value: isinstance(value, str),
    "integer": lambda value: isinstance(value, int) and not isinstance(value, bool),
    "number": _is_number,
    "boolean": lambda value: isinstance(value, bool),
    "null": lambda value: value is None,
}


def _has_type(value: Any, wanted: Any) -> bool:
    return any(_TYPES[kind](value) for kind in ([wanted] if isinstance(wanted, str) else wanted))


def _properties(value: Any, wanted: Mapping[str, Any]) -> bool:
    if not isinstance(value, dict):
        return True
    return all(plainly_fits(value[name], inner) for name, inner in wanted.items() if name in value)


def _has_no_other(value: Any, schema: Mapping[str, Any]) -> bool:
    """Whether an object has no property but those that its schema names in full."""
    return not isinstance(value, dict) or value.keys() <= schema.get("properties", {}).keys()


def _additional(value: Any, wanted: Any) -> bool:
    """Of all properties: which of them are named beside this keyword is not known here."""
    return (
        wanted is True or not isinstance(value, dict) or all(plainly_fits(v, wanted) for v in value.values())
    )


_KEYWORDS: dict[str, Callable[[Any, Any], bool]] = {
    "type": _has_type,
    "enum": lambda value, wanted: any(type(one) is type(value) and one == value for one in wanted),
    "minimum": lambda value, wanted: not _is_number(value) or value >= wanted,
    "maximum": lambda value, wanted: not _is_number(value) or value <= wanted,
    "exclusiveMinimum": lambda value, wanted: not _is_number(value) or value > wanted,
    "minLength": lambda value, wanted: not isinstance(value, str) or len(value) >= wanted,
    "minProperties": lambda value, wanted: not isinstance(value, dict) or len(value) >= wanted,
    "pattern": lambda value, wanted: not isinstance(value, str) or has_pattern(value, wanted),
    "items": lambda value, wanted: (
        not isinstance(value, list) or all(plainly_fits(item, wanted) for item in value)
    ),
    "properties": _properties,
    "required": lambda value, wanted: not isinstance(value, dict) or all(name in value for name in wanted),
    "additionalProperties": _additional,
}
