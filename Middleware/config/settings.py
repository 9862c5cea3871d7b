"""How a setting is stated: a field of a dataclass says type, default and meaning; all else is made of it.

    max_parallel_nodes: int = setting(4, "How many nodes of a `parallelGroup` run at once.", minimum=1)

Its key in the file (`maxParallelNodes`), the check of the file, the schema for editors and the value when the
file says nothing: see `users.py`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import Field, field
from typing import Any

_KEYWORD = {"allowed": "x-allowed", "level": "x-level"}
_KINDS = {bool: "boolean", int: "integer", str: "string"}


def setting(
    default: Any,
    description: str = "",
    *,
    key: str = "",
    read: Callable[[Any], Any] | None = None,
    **shape: Any,
) -> Any:
    """A field of a settings class.

    `shape`: keywords of JSON Schema for its value; the type is that of the default unless it is given.
    `allowed`: words for what a pattern allows; `level`: of a breach, `error` by itself, `warning` for a
    flag. `key`: the name in the file, where it is not the field's in camelCase. `read`: what makes the value
    of what the file holds (None: it counts as not set). Without a description a cleaning rule states it.
    """
    stated = {_KEYWORD.get(word, word): value for word, value in shape.items()}
    kind = _KINDS.get(type(default))
    if kind and not stated.keys() & {"type", "enum"}:
        stated = {"type": kind, **stated}
    if default is False:
        stated.setdefault("x-level", "warning")
    if default not in ("", None) and not isinstance(default, Mapping):
        stated["default"] = default
    if description:
        stated["description"] = description
    made = {"default_factory": lambda: default} if isinstance(default, Mapping) else {"default": default}
    return field(**made, metadata={"key": key, "read": read, "schema": stated})


def key_of(one: Field[Any]) -> str:
    """The setting's name in the file."""
    return one.metadata["key"] or re.sub(r"_([a-z])", lambda match: match[1].upper(), one.name)


def schema_of(one: Field[Any]) -> Mapping[str, Any]:
    """JSON Schema of the setting's value, with `description` and `default`."""
    stated: Mapping[str, Any] = one.metadata["schema"]
    return stated


def value_of(one: Field[Any], value: Any) -> Any:
    """The typed value of what a file holds; None where that is of a wrong type and counts as not set."""
    read = one.metadata["read"]
    if read is not None:
        return read(value)
    default = one.default
    if isinstance(default, bool):
        return bool(value)
    if isinstance(default, int):
        return whole_number(value, minimum=schema_of(one).get("minimum"))
    return value if isinstance(value, str) else None


def whole_number(value: Any, minimum: int | None) -> int | None:
    """The number, or of a text that holds one; None for anything else or below the minimum."""
    try:
        number = int(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return number if minimum is None or number >= minimum else None
