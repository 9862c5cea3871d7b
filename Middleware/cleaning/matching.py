r"""Searches that never look twice: each pattern finds a whole tag, or the beginning of one at the very end
of the text.

A group takes part only when the tag is whole (`match.lastindex` is not None); otherwise the match is a tail
that may become a tag with the next chunk. The leftmost match is the right one: a tag cannot start behind a
tail that reaches the end. Case is ignored character by character (`re.IGNORECASE`), so a match is as long
as its tag. Holds no state.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

TAG_LIMIT = 64
"""A tolerant tag has at most this many characters, `<` and `>` included."""

_SPACE = r"[ \t\n\f\r]*+"


def _or_end(character: str) -> str:
    r"""This character, or the end of the text (once `\Z` has matched, nothing but `\Z` can follow)."""
    return rf"(?:{re.escape(character)}|\Z)"


def literal_tag(tag: str) -> re.Pattern[str]:
    """Finds `tag` (not empty) or a tail that begins it."""
    if len(tag) == 1:
        return re.compile(f"({re.escape(tag)})", re.IGNORECASE)
    middle = "".join(map(_or_end, tag[1:-1]))
    return re.compile(rf"{re.escape(tag[0])}{middle}(?:({re.escape(tag[-1])})|\Z)", re.IGNORECASE)


def opening_tag(names: Iterable[str]) -> re.Pattern[str]:
    """Finds `< name >` for any of `names` (not empty), or a tail that begins one."""
    return _tolerant_tag(_any_name(names))


def closing_tag(names: Iterable[str]) -> re.Pattern[str]:
    """Finds `< / name >` for any of `names` (not empty), or a tail that begins one."""
    return _tolerant_tag(rf"/{_SPACE}(?:{_any_name(names)}|\Z)")


def _any_name(names: Iterable[str]) -> str:
    spelled = (re.escape(name[0]) + "".join(map(_or_end, name[1:])) for name in names)
    return "(?:" + "|".join(rf"{name}{_SPACE}(?:(>)|\Z)" for name in spelled) + ")"


def _tolerant_tag(inner: str) -> re.Pattern[str]:
    """The look-ahead keeps the tag within TAG_LIMIT, so that a tail is never longer than that either."""
    near = rf"(?=[^>]{{0,{TAG_LIMIT - 2}}}(?:>|\Z))"
    return re.compile(rf"<{near}{_SPACE}(?:{inner}|\Z)", re.IGNORECASE)


def match_prefix(head: str, prefixes: Sequence[str]) -> int | None:
    """Length of the first of `prefixes` (list order, none empty) that opens `head`.

    0 when none can match any more, None while more text could still change the answer.
    """
    for prefix in prefixes:
        if head.startswith(prefix):
            return len(prefix)
        if prefix.startswith(head):
            return None
    return 0
