"""Splits a text in the harmony format into thoughts and answer. Pure.

A message is a header and a body:

    [<|start|>role][ to=recipient]<|channel|>name[ to=recipient][ [<|constrain|>]type]<|message|>body

The header says where the body goes. What is no header by this grammar is text, so a long answer is never
held for one. Source: spec backends.md 12.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

THINKING, TEXT = "thinking", "text"

MARKS = tuple(f"<|{word}|>" for word in ("start", "channel", "message", "constrain", "end", "return", "call"))
_MARK = re.compile("|".join(map(re.escape, MARKS)), re.IGNORECASE)
_LONGEST_MARK = max(map(len, MARKS))

HEADER_LIMIT = 256
"""A header, marks left out, has at most so many characters."""
_MOST_WORDS = 4  # of one part of a header


@dataclass(slots=True)
class _Header:
    """What came of one. `parts`: the text before `<|channel|>`, then after it, then after `<|constrain|>`."""

    parts: list[str] = field(default_factory=lambda: [""])
    in_channel: bool = False

    @property
    def text(self) -> str:
        return "".join(self.parts)

    @property
    def breaks_grammar(self) -> bool:
        return len(self.text) > HEADER_LIMIT or len(self.parts[-1].split()) > _MOST_WORDS

    def add(self, text: str) -> None:
        self.parts[-1] += text

    def next_part(self, mark: str) -> None:
        self.in_channel = self.in_channel or mark == "<|channel|>"
        self.parts.append("")

    def kind(self) -> str:
        """Where the body goes: a tool's arguments are never answer, whatever the channel."""
        words = [part[:HEADER_LIMIT].split()[:_MOST_WORDS] for part in self.parts]
        if any(word.lower().startswith("to=") for part in words for word in part):
            return THINKING
        channel = words[1] if self.in_channel else ["final"]
        return TEXT if channel and channel[0].lower() == "final" else THINKING


class HarmonySplitter:
    """One answer's splitter: `feed` and `finish` give `(thinking, text)`; no mark is in either."""

    __slots__ = ("_header", "_held", "_kind", "_said")

    def __init__(self) -> None:
        self._held = ""  # may begin a mark
        self._header: _Header | None = None
        self._kind = TEXT
        self._said: dict[str, list[str]] = {THINKING: [], TEXT: []}

    @property
    def in_thought(self) -> bool:
        return self._header is not None or self._kind == THINKING

    def feed(self, text: str) -> tuple[str, str]:
        """What `text` decides."""
        buffer, self._held = self._held + text, ""
        position = 0
        for mark in _MARK.finditer(buffer):
            self._words(buffer[position : mark.start()])
            self._pass_mark(mark[0].lower())
            position = mark.end()
        end = _tail(buffer, position)
        self._held = buffer[end:]
        self._words(buffer[position:end])
        return self._take_texts()

    def finish(self) -> tuple[str, str]:
        """What was held: half a mark belongs to what it stands in, an unfinished header is thought."""
        held, self._held = self._held, ""
        self._words(held)
        self._leave_header()
        return self._take_texts()

    def _words(self, text: str) -> None:
        if self._header is None:
            self._said[self._kind].append(text)
            return
        self._header.add(text)
        if self._header.breaks_grammar:
            self._kind = self._header.kind()
            self._said[self._kind].append(self._header.text)
            self._header = None

    def _pass_mark(self, mark: str) -> None:
        if mark == "<|message|>":
            self._begin_body()
        elif mark == "<|constrain|>" or (mark == "<|channel|>" and self._is_before_channel()):
            if self._header is not None:
                self._header.next_part(mark)
        else:
            self._leave_header()
            self._kind = TEXT
            if mark in ("<|start|>", "<|channel|>"):
                self._header = _Header()
            if mark == "<|channel|>" and self._header is not None:
                self._header.next_part(mark)

    def _is_before_channel(self) -> bool:
        return self._header is not None and len(self._header.parts) == 1

    def _begin_body(self) -> None:
        """Within a body this mark means nothing and only goes."""
        if self._header is not None:
            self._kind, self._header = self._header.kind(), None

    def _leave_header(self) -> None:
        """A header that no body follows is no answer."""
        if self._header is not None:
            self._said[THINKING].append(self._header.text)
            self._header = None

    def _take_texts(self) -> tuple[str, str]:
        thinking, text = "".join(self._said[THINKING]), "".join(self._said[TEXT])
        self._said = {THINKING: [], TEXT: []}
        return thinking, text


def _tail(buffer: str, position: int) -> int:
    """Where a text that may become a mark begins at the end of `buffer`; its length when there is none."""
    start = buffer.rfind("<", max(position, len(buffer) - _LONGEST_MARK + 1))
    if start < 0:
        return len(buffer)
    tail = buffer[start:].lower()
    return start if any(mark.startswith(tail) for mark in MARKS) else len(buffer)
