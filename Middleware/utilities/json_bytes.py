"""A value as the bytes of a JSON body: by orjson if it is installed, else by the standard library.

Both write the same value; only blanks differ. What orjson would write as another value, or not at all, is
left to the standard library. Pure. Source: orjson, README ("Serialize").
"""

from __future__ import annotations

import json
from math import isfinite
from typing import Any


def _orjson() -> Any:
    """orjson, None where the extra `fast` is not installed."""
    try:
        import orjson
    except ImportError:
        return None
    return orjson


orjson = _orjson()
DEEPEST = 100
"""Levels that are looked through; what is deeper is left to the standard library."""
_HOLDERS = (dict, list, tuple)


def encode_json(value: Any) -> bytes:
    """UTF-8 JSON; two halves of a surrogate pair become one character, lone ones, which UTF-8 cannot hold,
    U+FFFD. Raises TypeError or ValueError for what is no JSON value.
    """
    return _written_fast(value) or _written(value)


def _written_fast(value: Any) -> bytes | None:
    """None: orjson is not there, or this is not for it (lone surrogates, numbers of more than 64 bits, no
    numbers). Most payloads hold no null and no such word, and are not looked through.
    """
    if orjson is None:
        return None
    try:
        written: bytes = orjson.dumps(value, option=orjson.OPT_PASSTHROUGH_DATACLASS)
    except TypeError:
        return None
    return written if b"null" not in written or _is_plain(value) else None


def _written(value: Any) -> bytes:
    text = json.dumps(value, ensure_ascii=False)
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace").encode("utf-8")


def _is_plain(value: Any) -> bool:
    """Whether it holds no NaN and no infinity, which orjson would write as null. A text costs next to
    nothing.
    """
    level = [[value]]
    for _ in range(DEEPEST):
        deeper: list[Any] = []
        for holder in level:
            for item in holder:
                if item.__class__ is str:
                    continue
                if isinstance(item, _HOLDERS):
                    deeper.append(item.values() if isinstance(item, dict) else item)
                elif isinstance(item, float) and not isfinite(item):
                    return False
        if not deeper:
            return True
        level = deeper
    return False
