"""Units whose parts do not change within a stream are made once; per batch only the text is put between."""

from __future__ import annotations

from json.encoder import encode_basestring

MARK = "\x01text\x01"
"""Stands for the text in the pattern of a unit."""


def halves(unit: str) -> tuple[str, str]:
    """What stands before and after the marked text."""
    before, _, after = unit.partition(encode_basestring(MARK))
    return before, after
