"""Splits reasoning that a model wrote inside its text from the answer (`reasoningParser`). Pure.

`feed(text)` and `finish()` give `(thinking, text)`; joined, any cut of the text gives the same
two. At most the length of a mark less one is held back. An opening mark in Markdown code is text.
Source: spec backends.md 12, cleaning.md 1c.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field

from Middleware.cleaning.markdown_code import MarkdownCode
from Middleware.llmapis.harmony import TEXT, THINKING, HarmonySplitter

logger = logging.getLogger(__name__)

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
    logger.warning("reasoningParser '%s' is unknown, ignored. Known: %s", name, ", ".join(REASONING_PARSERS))
    return None


def has_reasoning_marks(text: str) -> bool:
    """Whether an opening mark of any dialect stands in `text`."""
    folded = text.lower()
    return any(mark.literal in folded for mark in _FIRST_MARKS if mark.goes_to == THINKING)
