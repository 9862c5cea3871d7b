"""Removes one of some texts from the start of the answer. The prefix rules are made of it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

# --------------------------------------------------------------------------
# Searches that never look twice: each pattern finds a whole tag, or the beginning of one at the very end
# of the text.


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


# --------------------------------------------------------------------------


class LeadingSpace:
    """Stage. Drops white space at the start; never holds any."""

    __slots__ = ("done",)

    def __init__(self) -> None:
        self.done = False

    def feed(self, text: str) -> str:
        text = text.lstrip()
        self.done = bool(text)
        return text

    def finish(self) -> str:
        return ""


class HeadStrip:
    """Stage.

    Removes the first of `prefixes` (list order, none empty) that opens the text, and the white space behind
    it.

    Holds text only while the answer to "which prefix, if any?" can still change.
    """

    __slots__ = ("_after", "_head", "_prefixes", "done")

    def __init__(self, prefixes: Sequence[str]) -> None:
        self._prefixes = tuple(prefixes)
        self._head = ""
        self._after: LeadingSpace | None = None
        self.done = False

    def feed(self, text: str) -> str:
        if self._after is None:
            head, self._head = self._head + text, ""
            length = match_prefix(head, self._prefixes)
            if length is None:
                self._head = head
                return ""
            if length == 0:
                self.done = True
                return head
            text, self._after = head[length:], LeadingSpace()
        text = self._after.feed(text)
        self.done = self._after.done
        return text

    def finish(self) -> str:
        """The text has ended: what is a whole prefix now is one."""
        for prefix in self._prefixes:
            if self._head.startswith(prefix):
                return self._head[len(prefix) :].lstrip()
        return self._head
