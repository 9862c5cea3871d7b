"""What a client asks of the model itself: sampling fields, limits, formats. Read, never checked. Pure.

Which node takes them, and whether they can be, is the engine's business. Source: spec more-fronts.md 13.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from Middleware.common.client_question import WISH_NAMES, Wish
from Middleware.common.types import JsonObject

WishFields = Mapping[str, tuple[str, ...]]
"""Name of a wish -> the client's fields for it, `options.num_predict` for a field of a field. The first that
says something counts. Names beside `WISH_NAMES`: what no node can take, told in the log."""


def read_wishes(body: JsonObject, fields: WishFields) -> Mapping[str, Wish]:
    """The wishes of a body, read-only, in the order of `fields`."""
    found: dict[str, Wish] = {}
    for name, places in fields.items():
        for place in places:
            value = _at(body, place)
            if _says_something(name, value):
                found[name] = Wish(value, place)
                break
    return MappingProxyType(found)


def _at(body: JsonObject, place: str) -> Any:
    value: Any = body
    for key in place.split("."):
        value = value.get(key) if isinstance(value, dict) else None
    return value


def _says_something(name: str, value: Any) -> bool:
    if value is None or value in ("", [], {}):
        return False
    if name == "response_format":
        return bool(value != {"type": "text"})
    if name in WISH_NAMES:
        return True
    return bool(value) and not (name in ("n", "best_of") and value == 1)
