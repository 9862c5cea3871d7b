"""Removes think blocks from a stream of text, whatever their tags look like.

The two thinking rules are made of it.

Work per chunk is proportional to the chunk: nothing but a tail that may begin a tag is looked at again.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from Middleware.cleaning.markdown_code import MarkdownCode
from Middleware.cleaning.stage import Findings

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
        tail, self._tail, self.done = self._tail, "", True
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
            warning = f"removeThinking: the closing think tag never came; {characters} characters {fate}"
            self._findings.warnings.append(warning)
