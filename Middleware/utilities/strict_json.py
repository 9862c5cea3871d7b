"""JSON as the standard has it. Python also reads `NaN`, `Infinity` and numbers that no float can hold;
written again they would be no JSON, and whoever gets them could read nothing of the answer around them.

Pure. Source: RFC 8259, 6.
"""

from __future__ import annotations

import json
import math
from typing import Any

_SHOWN = 40


class NoNumber(ValueError):
    """A number that JSON has no form for, or that has no value."""


def strict_loads(text: str | bytes) -> Any:
    """The value of a JSON text. Raises NoNumber, ValueError, RecursionError."""
    return json.loads(text, parse_constant=_no_constant, parse_float=_finite)


def object_of(text: str) -> dict[str, Any] | None:
    """The JSON object that a text is, all of it; None for any other text."""
    try:
        value = strict_loads(text)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _no_constant(word: str) -> Any:
    raise NoNumber(f"{word} is no number")


def _finite(digits: str) -> float:
    number = float(digits)
    if math.isinf(number):
        raise NoNumber(f"it holds a number that is too large: {digits[:_SHOWN]}")
    return number
