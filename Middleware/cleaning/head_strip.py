"""Removes one of some texts from the start of the answer. The prefix rules are made of it."""

from __future__ import annotations

from collections.abc import Sequence

from Middleware.cleaning.matching import match_prefix


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
        head, self._head = self._head, ""
        for prefix in self._prefixes:
            if head.startswith(prefix):
                return head[len(prefix) :].lstrip()
        return head
