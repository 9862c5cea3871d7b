"""The fields of a body of which every one is known: a field too much, or of another type, is refused. Pure.

Source: spec console.md 5.2.
"""

from __future__ import annotations

import types
from collections.abc import Mapping
from typing import Any

from Middleware.common.errors import ClientRequestError
from Middleware.common.types import JsonObject
from Middleware.config.validation import describe_value

_TYPE_WORDS: dict[type, str] = {
    str: "a text",
    bool: "true or false",
    int: "a whole number",
    list: "a list",
    dict: "an object",
    types.NoneType: "null",
}


def typed_fields(body: JsonObject, kinds: Mapping[str, Any]) -> dict[str, Any]:
    """The value of each name of `kinds`, whose values are types: `str`, `str | None`, `list`...

    What may be null may also be absent: it is None then. Raises ClientRequestError.
    """
    for name in body:
        if name not in kinds:
            allowed = ", ".join(kinds) or "none"
            raise ClientRequestError(f"{describe_value(name)} is no field of this body, allowed: {allowed}")
    return {name: _fit(name, body, _types(kind)) for name, kind in kinds.items()}


def _types(kind: Any) -> tuple[type, ...]:
    return kind.__args__ if isinstance(kind, types.UnionType) else (kind,)


def _fit(name: str, body: JsonObject, kinds: tuple[type, ...]) -> Any:
    value = body.get(name)
    if value is None and types.NoneType in kinds:
        return None
    if type(value) not in kinds:
        what = describe_value(value) if name in body else "nothing"
        allowed = " or ".join(_TYPE_WORDS[kind] for kind in kinds)
        raise ClientRequestError(f"{name}: found {what}, allowed: {allowed}", param=name)
    return value
