"""JSON as backends write it: raw control characters in texts; `NaN`, `Infinity` and what no float can
hold, which are read as null.

Pure. Some servers (with `logprobs`, say) write numbers that JSON does not know; passed on, they would make
the answer unreadable for the client."""

from __future__ import annotations

import json
import math
from typing import Any

_BOM = "\ufeff"


def _finite(digits: str) -> float | None:
    number = float(digits)
    return None if math.isinf(number) else number


DECODER = json.JSONDecoder(strict=False, parse_constant=lambda _: None, parse_float=_finite)


def decode_json(text: str) -> Any:
    """The value of a whole JSON text. Raises ValueError, RecursionError."""
    return DECODER.decode(text.removeprefix(_BOM))
