"""Splits reasoning that a model wrote inside its text from the answer (`reasoningParser`). Pure.

`feed(text)` and `finish()` give `(thinking, text)`; joined, any cut of the text gives the same
two. At most the length of a mark less one is held back. An opening mark in Markdown code is text.
Source: spec backends.md 12, cleaning.md 1c.
"""

from __future__ import annotations

import logging
import re
from dataclasses import dataclass, field

from Middleware.cleaning.block_remover import MarkdownCode

logger = logging.getLogger(__name__)


# --------------------------------------------------------------------------
# Splits a text in the harmony format into thoughts and answer. Pure.


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


# --------------------------------------------------------------------------

AUTO_WINDOW = 100
"""`auto` looks for an opening mark that ends within so many characters."""


@dataclass(frozen=True, slots=True)
class _Mark:
    """A literal in the text. `goes_to`: what comes after it."""

    literal: str
    goes_to: str
    closers: tuple[_Mark, ...] = ()
    eats_line_end: bool = False


def _block(opener: str, closer: str, *, eats_line_end: bool = False) -> _Mark:
    return _Mark(opener, THINKING, (_Mark(closer, TEXT),), eats_line_end)


_THINK = tuple(_block(f"<{name}>", f"</{name}>") for name in ("think", "thinking", "thought", "reasoning"))
_MINIMAX = (_block("<|im_start|>thinking", "<|im_end|>", eats_line_end=True),)
_MISTRAL = (_block("[think]", "[/think]"),)

_HARMONY = tuple(_Mark(f"<|{word}|>", THINKING) for word in ("channel", "start", "message"))
"""Any of them begins that format, which has a grammar of its own (`harmony.py`)."""

DIALECTS: dict[str, tuple[_Mark, ...]] = {
    "think": _THINK,
    "minimax": _MINIMAX,
    "mistral": _MISTRAL,
    "harmony": _HARMONY,
}
_FIRST_MARKS = {mark: marks for marks in DIALECTS.values() for mark in marks}
REASONING_PARSERS = ("none", *DIALECTS, "auto")


@dataclass(slots=True)
class ReasoningSplitter:
    """One answer's splitter. Make it with `reasoning_splitter(name)`."""

    _marks: tuple[_Mark, ...]
    _auto: bool = False
    _kind: str = TEXT
    _current: tuple[_Mark, ...] = field(init=False)
    _held: str = ""
    _passed: int = 0
    _line_end_due: bool = False
    _harmony: HarmonySplitter | None = None
    _code: MarkdownCode = field(default_factory=MarkdownCode)

    def __post_init__(self) -> None:
        self._current = self._marks

    @property
    def in_thought(self) -> bool:
        """What stands here is thought: of both halves that the next `feed` gives, it comes first."""
        return self._kind == THINKING if self._harmony is None else self._harmony.in_thought

    def feed(self, text: str) -> tuple[str, str]:
        """`(thinking, text)` that `text` decides."""
        if self._harmony is not None:
            return self._harmony.feed(text)
        buffer = self._held + text
        self._held = ""
        said: dict[str, list[str]] = {THINKING: [], TEXT: []}
        position = 0
        while True:
            position = self._skip_line_end(buffer, position)
            if position < 0:
                break
            start, mark = self._next_mark(buffer, position)
            said[self._kind].append(buffer[position:start])
            self._passed += start - position
            if mark is None:
                self._held = buffer[start:]
                break
            if mark in _HARMONY:
                self._harmony = HarmonySplitter()
                thinking, answer = self._harmony.feed(buffer[start:])
                return thinking, "".join(said[TEXT]) + answer
            position = start + len(mark.literal)
            self._enter(mark)
        return "".join(said[THINKING]), "".join(said[TEXT])

    def finish(self) -> tuple[str, str]:
        """What was held: half a mark belongs to what it stands in."""
        if self._harmony is not None:
            return self._harmony.finish()
        held, self._held = "" if self._line_end_due else self._held, ""
        return (held, "") if self._kind == THINKING else ("", held)

    def _enter(self, mark: _Mark) -> None:
        if self._auto:
            self._auto, self._marks = False, _FIRST_MARKS[mark]
        self._kind = mark.goes_to
        self._current = mark.closers or self._marks
        self._line_end_due = mark.eats_line_end

    def _skip_line_end(self, buffer: str, position: int) -> int:
        """Position after one line end, if one is due; -1 when more text must tell."""
        if not self._line_end_due:
            return position
        rest = buffer[position : position + 2]
        if rest in ("", "\r"):
            self._held = buffer[position:]
            return -1
        self._line_end_due = False
        if rest == "\r\n":
            return position + 2
        return position + 1 if rest[0] == "\n" else position

    def _next_mark(self, buffer: str, position: int) -> tuple[int, _Mark | None]:
        """As `_search`, without the opening marks that stand in code."""
        if self._kind == THINKING:
            return self._search(buffer, position)
        begin = position
        while True:
            start, mark = self._search(buffer, position, ahead=position - begin)
            self._code.feed(buffer[position:start])
            if mark is None or not self._code.is_open:
                return start, mark
            position = start + len(mark.literal)
            self._code.feed(buffer[start:position])

    def _search(self, buffer: str, position: int, ahead: int = 0) -> tuple[int, _Mark | None]:
        """The first mark from `position`, else where text that could become one begins (or the end)."""
        at = position
        while (at := _next_lead(buffer, at)) < len(buffer):
            budget = AUTO_WINDOW - self._passed - ahead - (at - position) if self._auto else len(buffer)
            rest = buffer[at : at + _LONGEST].lower()
            for mark in self._current:
                literal = mark.literal
                if self._auto and len(literal) > budget:
                    continue
                if rest.startswith(literal):
                    return at, mark
                if len(rest) < len(literal) and literal.startswith(rest):
                    return at, None
            at += 1
        return len(buffer), None


_LONGEST = max(len(mark.literal) for marks in DIALECTS.values() for mark in marks)


def _next_lead(buffer: str, position: int) -> int:
    """Where the next `<` or `[` stands; the buffer's length when there is none."""
    angle, bracket = buffer.find("<", position), buffer.find("[", position)
    if angle < 0 or bracket < 0:
        last = max(angle, bracket)
        return len(buffer) if last < 0 else last
    return min(angle, bracket)


def reasoning_splitter(name: str | None) -> ReasoningSplitter | HarmonySplitter | None:
    """The splitter for a `reasoningParser` value; None for `none`, empty, or an unknown name (warned of)."""
    if not name or name == "none":
        return None
    if name == "harmony":
        return HarmonySplitter()
    if name == "auto":
        return ReasoningSplitter(tuple(_FIRST_MARKS), _auto=True)
    if name in DIALECTS:
        return ReasoningSplitter(DIALECTS[name])
    logger.warning("unknown reasoningParser '%s' is ignored. Known: %s", name, ", ".join(REASONING_PARSERS))
    return None


def text_behind_thoughts(text: str) -> str:
    """A whole text without its thoughts, whichever dialect they are written in."""
    splitter = ReasoningSplitter(tuple(_FIRST_MARKS), _auto=True)
    return splitter.feed(text)[1] + splitter.finish()[1]


def has_reasoning_marks(text: str) -> bool:
    """Whether an opening mark of any dialect stands in `text`."""
    folded = text.lower()
    return any(mark.literal in folded for mark in _FIRST_MARKS)
