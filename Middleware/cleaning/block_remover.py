"""Removes think blocks from a stream of text, whatever their tags look like.

The two thinking rules are made of it.

Work per chunk is proportional to the chunk: nothing but a tail that may begin a tag is looked at again.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from Middleware.cleaning.stage import Findings

# --------------------------------------------------------------------------
# Knows whether Markdown code is open at the end of a text that comes in pieces: a fenced block, or a span
# that began with backticks on the same line.


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
        if self._mark:
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


# --------------------------------------------------------------------------

ANYWHERE = 1 << 62
"""`last_start` of blocks that may start anywhere."""

_NEVER = re.compile("(?!)")

ROUTED = (
    "went out as reasoning and are not repeated as text "
    "(with this reasoningOutput, whenEndThinkTagMissing counts as discard)"
)


@dataclass(frozen=True, slots=True)
class BlockRule:
    """What a block looks like.

    `opening`: None when the text begins inside a block. `last_start`: index of the last character of the
    text at which the opening tag counts. `once`: only one block is ever removed. `keep`: a block that never
    closes is text. The patterns are those of `matching.py`; `opening_width` is the most characters that
    `opening` can match. `code_is_text`: an opening tag in Markdown code opens nothing.
    """

    opening: re.Pattern[str] | None
    closing: re.Pattern[str]
    keep: bool
    once: bool = True
    last_start: int = ANYWHERE
    opening_width: int = 0
    code_is_text: bool = False


class BlockRemover:
    """Stage. The block's text goes to `findings`; what stands outside passes."""

    def __init__(self, rule: BlockRule, findings: Findings) -> None:
        self._rule, self._findings = rule, findings
        self._find_opening, self._find_closing = (rule.opening or _NEVER).search, rule.closing.search
        self._code = MarkdownCode() if rule.code_is_text else None
        self._inside = rule.opening is None
        self._opening_text = ""
        self._kept = findings.open  # the open block so far
        self._tail = ""  # may begin a tag
        self._seen = 0  # characters before the tail
        self.done = False

    def feed(self, text: str) -> str:
        if self._tail:
            text, self._tail = self._tail + text, ""
        if self._inside and self._find_closing(text) is None:  # most frequent: a piece of a thought
            self._think(text)
            return ""
        released: list[str] = []
        position: int | None = 0
        while position is not None and not self.done:
            if self._inside:
                position = self._through_block(text, position)
            else:
                position = self._up_to_block(text, position, released)
        if position is not None:
            released.append(text[position:])
        return "".join(released)

    def finish(self) -> str:
        tail = self._tail
        if not self._inside:
            return tail
        thought = "".join(self._kept)
        if self._rule.keep and not self._findings.live:
            self._findings.open = []
            return self._opening_text + thought + tail
        self._think(tail)
        self._warn_of_unclosed(len(self._opening_text) + len(thought) + len(tail))
        if self._findings.live:
            self._findings.unclosed = thought + tail
        return ""

    def _up_to_block(self, text: str, position: int, released: list[str]) -> int | None:
        """Release what stands before a block.

        Gives where its inside begins, or None when the text is used up.
        """
        last = self._rule.last_start - self._seen
        found = self._opening_from(text, position, last + self._rule.opening_width)
        if found is None or found.start() > last:
            released.append(text[position:])
            self._seen += len(text)
            self.done = self._seen > self._rule.last_start
            return None
        released.append(text[position : found.start()])
        if found.lastindex is None:
            self._tail = text[found.start() :]
            self._seen += found.start()
            return None
        self._inside, self._opening_text = True, found.group()
        self._kept.append("")  # it has begun
        return found.end()

    def _opening_from(self, text: str, position: int, limit: int) -> re.Match[str] | None:
        """The next opening tag, or tail that may become one, that does not stand in code."""
        if self._code is None:
            return self._find_opening(text, position, limit)
        while found := self._find_opening(text, position, limit):
            self._code.feed(text[position : found.start()])
            if not self._code.is_open:
                return found
            self._code.feed(found.group())
            position = found.end()
        self._code.feed(text[position:])
        return None

    def _through_block(self, text: str, position: int) -> int | None:
        """Take the thought.

        Gives where the text goes on behind the block, or None when the text is used up.
        """
        found = self._find_closing(text, position)
        if found is None:
            self._think(text[position:])
            return None
        self._think(text[position : found.start()])
        if found.lastindex is None:
            self._tail = text[found.start() :]
            return None
        self._findings.completed.append("".join(self._kept))
        self._kept = self._findings.open = []
        self._inside, self.done = False, self._rule.once
        return found.end()

    def _think(self, text: str) -> None:
        if not text:
            return
        self._kept.append(text)
        if self._findings.live:
            self._findings.fresh.append(text)

    def _warn_of_unclosed(self, characters: int) -> None:
        if characters:
            fate = ROUTED if self._findings.live else "were dropped"
            warning = f"removeThinking: the closing think tag was missing; {characters} characters {fate}"
            self._findings.warnings.append(warning)
