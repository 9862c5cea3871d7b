"""What of a call's arguments does not fit the schema that a tool server gives for them, for a message.

The schema is a stranger's: only keywords whose check is quick and fetches nothing are looked at, and of them
only what is well-formed. A reference could lead to any address, a pattern could keep the process busy for
ever. Pure. Source: spec tools.md 11.5.2.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from Middleware.config.validation import check

MOST_FAULTS = 5
DEEPEST = 16
_TYPES = frozenset(["object", "array", "string", "integer", "number", "boolean", "null"])


def faults_of(arguments: Mapping[str, Any], schema: Any) -> str:
    """A line for each of the first faults; empty when there is none."""
    found = check(dict(arguments), _quick(schema, DEEPEST), "arguments", level="error")
    return "".join(f"\narguments{fault.pointer}: {fault.message}" for fault in found[:MOST_FAULTS])


def _quick(schema: Any, depth: int) -> dict[str, Any]:
    """The part of a schema that is looked at."""
    if not isinstance(schema, Mapping) or not depth:
        return {}
    kept = {
        word: schema[word] for word, is_sound in _SOUND.items() if word in schema and is_sound(schema[word])
    }
    if isinstance(named := schema.get("properties"), Mapping):
        kept["properties"] = {str(name): _quick(inner, depth - 1) for name, inner in named.items()}
    if isinstance(schema.get("items"), Mapping):
        kept["items"] = _quick(schema["items"], depth - 1)
    return kept


def _is_type(value: Any) -> bool:
    names = [value] if isinstance(value, str) else value
    return isinstance(names, list) and bool(names) and all(isinstance(n, str) and n in _TYPES for n in names)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _are_names(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(name, str) for name in value)


_SOUND: Mapping[str, Callable[[Any], bool]] = {
    "type": _is_type,
    "enum": lambda value: isinstance(value, list) and bool(value),
    "required": _are_names,
    "additionalProperties": lambda value: isinstance(value, bool),
    "minimum": _is_number,
    "maximum": _is_number,
    "minLength": _is_count,
    "maxLength": _is_count,
    "minItems": _is_count,
    "maxItems": _is_count,
}
