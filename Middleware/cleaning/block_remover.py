"""Removes think blocks from a stream of text, whatever their tags look like. The two thinking rules are made of it.

Work per chunk is proportional to the chunk: nothing but a tail that may begin a tag is looked at again.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from Middleware.cleaning.stage import Findings

ANYWHERE = 1 << 62
"""`last_start` of blocks that may start anywhere."""


@dataclass(frozen=True, slots=True)
class BlockRule:
    """What a block looks like.

    `opening`: None when the text begins inside a block. `last_start`: index of the last character of the text at which
    the opening tag counts. `once`: only one block is ever removed. `keep`: a block that never closes is text.
    The patterns are those of `matching.py`; `opening_width` is the most characters that `opening` can match.
    """

    opening: re.Pattern[str] | None
    closing: re.Pattern[str]
    keep: bool
    once: bool = True
    last_start: int = ANYWHERE
    opening_width: int = 0


class BlockRemover:
    """Stage. The block's text goes to `findings`; what stands outside passes."""

    __slots__ = ("_closing", "_findings", "_inside", "_kept", "_opening_text", "_rule", "_seen", "_tail", "done")

    def __init__(self, rule: BlockRule, findings: Findings) -> None:
        self._rule, self._findings = rule, findings
        self._closing = rule.closing.search
        self._inside = rule.opening is None
        self._opening_text = ""
        self._kept: list[str] = []  # the open block so far
        self._tail = ""  # may begin a tag
        self._seen = 0  # characters before the tail
        self.done = False

    def feed(self, text: str) -> str:
        if self._tail:
            text, self._tail = self._tail + text, ""
        if not self._inside:
            return self._outside(text, 0)
        found = self._closing(text)
        if found is None:  # by far the most frequent case: a piece of a long thought
            self._think(text)
            return ""
        return self._close(text, 0, found)

    def finish(self) -> str:
        tail, self._tail, self.done = self._tail, "", True
        if not self._inside:
            return tail
        thought = "".join(self._kept)
        if self._rule.keep and not self._findings.live:
            return self._opening_text + thought + tail
        if tail:
            self._think(tail)
        self._warn_of_unclosed(self._opening_text + thought + tail)
        if self._findings.live:
            self._findings.unclosed = thought + tail
        return ""

    def _outside(self, text: str, position: int) -> str:
        """Release what stands before a block and go on inside; several blocks in one text take turns."""
        released: list[str] = []
        while True:
            found = self._find_opening(text, position)
            if found is None:
                released.append(text[position:])
                break
            released.append(text[position : found.start()])
            if found.lastindex is None:
                self._tail = text[found.start() :]
                break
            self._inside, self._opening_text, self._kept = True, found.group(), []
            position = found.end()
            closing = self._closing(text, position)
            if closing is None:
                self._think(text[position:])
                break
            position = self._leave(text, position, closing)
            if position < 0:
                break
            if self.done:
                released.append(text[position:])
                break
        self._seen += len(text) - len(self._tail)
        if self._seen > self._rule.last_start and not self._inside:
            self.done = True
        return "".join(released)

    def _find_opening(self, text: str, position: int) -> re.Match[str] | None:
        """An opening tag, or a tail that begins one, that starts in time."""
        last = self._rule.last_start - self._seen
        assert self._rule.opening is not None  # a text that begins inside a block ends the search with that block
        found = self._rule.opening.search(text, position, last + self._rule.opening_width)
        return found if found and found.start() <= last else None

    def _close(self, text: str, position: int, closing: re.Match[str]) -> str:
        position = self._leave(text, position, closing)
        if position < 0:
            return ""
        return text[position:] if self.done else self._outside(text, position)

    def _leave(self, text: str, position: int, closing: re.Match[str]) -> int:
        """Take the thought up to `closing`. Gives where the text goes on, or -1 when the tag is not whole yet."""
        self._think(text[position : closing.start()])
        if closing.lastindex is None:
            self._tail = text[closing.start() :]
            return -1
        self._findings.completed.append("".join(self._kept))
        self._inside, self._kept = False, []
        self.done = self._rule.once
        return closing.end()

    def _think(self, text: str) -> None:
        self._kept.append(text)
        if self._findings.live:
            self._findings.fresh.append(text)

    def _warn_of_unclosed(self, dropped: str) -> None:
        if not dropped:
            return
        fate = "were dropped"
        if self._findings.live:
            fate = "went out as reasoning and are not repeated as text (reasoningOutput makes whenEndThinkTagMissing count as discard)"
        self._findings.warnings.append(f"removeThinking: the closing think tag never came; {len(dropped)} characters {fate}")
