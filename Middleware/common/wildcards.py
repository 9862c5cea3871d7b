"""Patterns in which `*` stands for any run of characters and nothing else is special. Pure."""

from __future__ import annotations

STAR = "*"


def has_star(pattern: str) -> bool:
    return STAR in pattern


def fits(pattern: str, text: str) -> bool:
    """Whether the whole text has the form of the pattern; upper and lower case differ.

    Each part between two stars is taken where it first stands: one walk through the text, whatever was
    written.
    """
    if STAR not in pattern:
        return text == pattern
    if pattern == STAR:
        return True
    first, *rest = pattern.split(STAR)
    *middle, last = rest
    if len(text) < len(first) + len(last) or not (text.startswith(first) and text.endswith(last)):
        return False
    place, end = len(first), len(text) - len(last)
    for part in middle:
        place = text.find(part, place, end)
        if place < 0:
            return False
        place += len(part)
    return True
