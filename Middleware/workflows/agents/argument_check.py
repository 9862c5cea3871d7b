"""Whether the arguments of a call fit the schema of its tool, in sentences that a model can act on.

The schema is a tool server's, or anybody's: `$ref` to elsewhere is not followed and `pattern` is not looked
at (it could take for ever), and what is no schema fits everything. Source: spec agents.md 3.5.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any
from urllib.parse import unquote

from Middleware.config.validation import ForeignBreach, foreign_check
from Middleware.utilities.model_json import value_at
from Middleware.workflows.agents.endless_schema import is_deep, is_endless

_KINDS = {
    "object": "an object",
    "array": "an array",
    "string": "a string",
    "integer": "an integer",
    "number": "a number",
    "boolean": "true or false",
    "null": "null",
}
_NOT_FOLLOWED = frozenset(["$id", "$dynamicRef", "$recursiveRef", "pattern", "patternProperties", "format"])
DEEPEST = 64
SHOWN = 100
CHOICES = 20


@dataclass(frozen=True, slots=True)
class Breach:
    """`path`: of the value that does not fit. `missing`: a property that is not there, else empty."""

    path: tuple[str | int, ...]
    rule: str
    wanted: Any
    missing: str = ""


def argument_breaches(arguments: Mapping[str, Any], schema: Mapping[str, Any]) -> list[Breach]:
    """What does not fit, in the order of the places; a property that is missing counts by itself."""
    try:
        text = json.dumps(schema, sort_keys=True)
    except (TypeError, ValueError, RecursionError):
        return []
    if is_deep(arguments):
        return []
    breaches = [breach for found in _check_of(text)(arguments) for breach in _breaches_of(found, schema)]
    return _each_missing_once(breaches)


def _each_missing_once(breaches: Iterable[Breach]) -> list[Breach]:
    """The check finds fault once for each property that is missing, and each time with all of them."""
    kept: list[Breach] = []
    missing: set[tuple[tuple[str | int, ...], str]] = set()
    for breach in breaches:
        if breach.missing and (breach.path, breach.missing) in missing:
            continue
        missing.add((breach.path, breach.missing))
        kept.append(breach)
    return kept


def sentence_of_breach(breach: Breach) -> str:
    """`"lines" must be an array`, `"path" is missing`."""
    where = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in breach.path)
    if breach.missing:
        return f'"{f"{where}.{breach.missing}".removeprefix(".")}" is missing'
    said = _sentence(breach.rule, breach.wanted)
    return f'"{where.removeprefix(".")}" {said}' if where else f"the arguments: {said}"


@lru_cache(maxsize=512)
def _check_of(schema: str) -> Callable[[Any], list[ForeignBreach]]:
    kept = _followed(json.loads(schema), DEEPEST)
    _drop_lost_references(kept, kept)
    return _no_breach if is_endless(kept) else foreign_check(kept)


def _no_breach(arguments: Any) -> list[ForeignBreach]:
    return []


def _followed(schema: Any, depth: int) -> Any:
    """The part of a schema that counts."""
    if isinstance(schema, list):
        return [_followed(item, depth - 1) for item in schema] if depth else []
    if not isinstance(schema, dict):
        return schema
    if not depth:
        return {}
    kept = {word: value for word, value in schema.items() if word not in _NOT_FOLLOWED}
    if "patternProperties" in schema:  # it would say which further properties there may be
        kept.pop("additionalProperties", None)
        kept.pop("unevaluatedProperties", None)
    for word in _OF_NAMES & kept.keys():
        if isinstance(kept[word], dict):
            kept[word] = {name: _followed(inner, depth - 1) for name, inner in kept[word].items()}
    return {
        word: value if word in _OF_NAMES or word in _OF_VALUES else _followed(value, depth - 1)
        for word, value in kept.items()
    }


def _drop_lost_references(part: Any, whole: Any) -> None:
    """Take out each `$ref` that leads to no place of the schema."""
    if isinstance(part, dict):
        if "$ref" in part and not _leads_somewhere(part["$ref"], whole):
            del part["$ref"]
        for inner in part.values():
            _drop_lost_references(inner, whole)
    elif isinstance(part, list):
        for inner in part:
            _drop_lost_references(inner, whole)


def _leads_somewhere(reference: Any, whole: Any) -> bool:
    """A JSON pointer to an object; names of other kinds are not looked for."""
    if not isinstance(reference, str) or not (reference == "#" or reference.startswith("#/")):
        return False
    try:
        return isinstance(value_at(whole, unquote(reference[1:])), dict)
    except LookupError:
        return False


_OF_NAMES = frozenset(["properties", "$defs", "definitions", "dependentSchemas"])
"""Their keys are names, not words of JSON Schema."""
_OF_VALUES = frozenset(["enum", "const", "default", "examples"])


def _breaches_of(found: ForeignBreach, schema: Mapping[str, Any]) -> list[Breach]:
    path, rule, wanted, instance = found
    if rule == "required" and isinstance(wanted, list) and isinstance(instance, Mapping):
        missing = [str(name) for name in wanted if name not in instance]
        return [Breach(path, rule, wanted, name) for name in missing]
    if rule == "additionalProperties" and not path and isinstance(instance, Mapping):
        known = schema.get("properties") or {}
        return [Breach((name,), rule, wanted) for name in instance if name not in known]
    return [Breach(path, rule, wanted)]


def _sentence(rule: str, wanted: Any) -> str:
    if rule == "type":
        kinds = [wanted] if isinstance(wanted, str) else wanted
        return f"must be {' or '.join(_KINDS.get(kind, str(kind)) for kind in kinds)}"
    if rule == "enum" and isinstance(wanted, list):
        return f"must be one of {', '.join(_shown(value) for value in wanted[:CHOICES])}"
    if rule in _SAYINGS:
        return _SAYINGS[rule].format(_shown(wanted))
    return "does not fit the tool's schema"


_SAYINGS = {
    "const": "must be {}",
    "minimum": "must be {} or more",
    "maximum": "must be {} or less",
    "exclusiveMinimum": "must be more than {}",
    "exclusiveMaximum": "must be less than {}",
    "minLength": "must have at least {} characters",
    "maxLength": "must have at most {} characters",
    "minItems": "must have at least {} items",
    "maxItems": "must have at most {} items",
    "additionalProperties": "is no argument of this tool",
}


def _shown(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)[:SHOWN]
