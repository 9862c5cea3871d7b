"""Knows whether Markdown code is open at the end of a text that comes in pieces: a fenced block, or a span
that began with backticks on the same line.

Each character is looked at once; nothing of the text is kept.
"""

from __future__ import annotations

import re

_RUN = re.compile("`+")
_BLANK = re.compile(r"[ \t]*+(\r?)\Z")
_MOST_INDENT = 3
_FENCE = 3


class MarkdownCode:
    """`feed` the visible text, then ask `is_open`."""

    __slots__ = (
        "_blank",
        "_carriage_return",
        "_fence",
        "_fence_length",
        "_head_is_over",
        "_in_run",
        "_indent",
        "_length",
        "_mark",
        "_runs",
        "_ticks_follow",
    )

    def __init__(self) -> None:
        self._fence, self._fence_length = "", 0  # of the block that is open
        self._begin_line()

    @property
    def is_open(self) -> bool:
        return bool(self._fence) or self._runs % 2 == 1 or (self._mark == "~" and self._length >= _FENCE)

    def feed(self, text: str) -> None:
        position = 0
        while (end := text.find("\n", position)) >= 0:
            self._go_on(text[position:end])
            self._end_line()
            position = end + 1
        self._go_on(text[position:])

    def _begin_line(self) -> None:
        self._indent = self._length = 0  # spaces, then characters of the mark, at the start of the line
        self._mark = ""
        self._head_is_over = False
        self._ticks_follow, self._blank, self._carriage_return = False, True, False  # of what stands behind
        self._runs, self._in_run = 0, False

    def _end_line(self) -> None:
        if self._fence:
            if self._mark == self._fence and self._length >= self._fence_length and self._blank:
                self._fence = ""
        elif self._length >= _FENCE and not (self._mark == "`" and self._ticks_follow):
            self._fence, self._fence_length = self._mark, self._length
        self._begin_line()

    def _go_on(self, piece: str) -> None:
        """Take a piece of a line, without its end."""
        if not piece:
            return
        self._runs += len(_RUN.findall(piece)) - (self._in_run and piece[0] == "`")
        self._in_run = piece[-1] == "`"
        if not self._head_is_over:
            piece = self._behind_head(piece)
        if piece and self._mark:
            self._look_behind_mark(piece)

    def _behind_head(self, piece: str) -> str:
        """Count the spaces and the mark that the line begins with; what stands behind them in `piece`."""
        if not self._mark:
            text = piece.lstrip(" ")
            self._indent += len(piece) - len(text)
            self._head_is_over = self._indent > _MOST_INDENT or text[:1] not in ("", "`", "~")
            if self._head_is_over:
                return ""
            self._mark, piece = text[:1], text
        rest = piece.lstrip(self._mark) if piece else ""
        self._length += len(piece) - len(rest)
        self._head_is_over = bool(rest)
        return rest

    def _look_behind_mark(self, piece: str) -> None:
        blank = _BLANK.match(piece)
        self._ticks_follow = self._ticks_follow or "`" in piece
        self._blank = self._blank and not self._carriage_return and blank is not None
        self._carriage_return = blank is not None and bool(blank[1])
