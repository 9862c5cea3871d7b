"""Patterns of schemas, which editors and this program must read alike. Pure.

Source: JSON Schema 2020-12 (Validation), 6.3.3: a pattern is one of ECMA-262.
"""

from __future__ import annotations

import re
from functools import lru_cache

_END = re.compile(r"(?<!\\)\$(?=$|[|)])")


def has_pattern(value: str, pattern: str) -> bool:
    """Whether a text fits a pattern of a schema. `$` is the end of the text; Python's also stands before a
    line end there.
    """
    return _compiled(pattern).search(value) is not None


@lru_cache(maxsize=256)
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(_END.sub(r"\\Z", pattern))
