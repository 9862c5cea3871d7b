"""JSON in the reply of a model: in a code fence, or between words. Pure.

Source: spec memory.md 18.2 (8), backends.md 13.5.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

_FENCE = re.compile(r"```[ \t]*([\w+-]*)[ \t]*\n(.*?)```", re.S)
_OPENING = re.compile(r"[{\[]")
_DECODER = json.JSONDecoder(strict=False)
"""Models write line ends into strings as they are."""
_TRIES = 1000
"""Places from which a value is looked for; a reply of nothing but brackets must not take for ever."""


def places_of_json(reply: str) -> list[str]:
    """Where JSON may be, the likeliest place first: fences that say `json`, other fences, the reply."""
    fences = sorted(_FENCE.finditer(reply), key=lambda fence: fence[1].lower() != "json")
    return [*(fence[2] for fence in fences), reply]


def json_values(text: str) -> Iterator[tuple[int, Any, int]]:
    """JSON objects and arrays, each with where it begins and ends, from left to right.

    Up to one that is nested too deeply: to try each bracket of it would take minutes.
    """
    position = 0
    for _ in range(_TRIES):
        opening = _OPENING.search(text, position)
        if opening is None:
            return
        start, position = opening.start(), opening.end()
        try:
            value, position = _DECODER.raw_decode(text, start)
        except ValueError:
            continue
        except RecursionError:
            return
        yield start, value, position
