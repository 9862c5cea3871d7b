"""Calls of tools that a model wrote as text, because its server has no parser for them.

Pure: text in, text out. What can still become calls is held, and nothing else. Each character is looked at a
bounded number of times, however the text is cut. Source: spec agents.md 4, "Calls as text".
"""

from __future__ import annotations

import json
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Generator, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

THINK_TAGS = (("<think>", "</think>"),)


@dataclass(frozen=True, slots=True)
class TextCall:
    """A call as it was written. `arguments`: JSON text, as `read_call` takes it; of a call that breaks off,
    what there is of it.
    """

    name: str
    arguments: str


# --------------------------------------------------------------------------
# Thoughts: what stands in them is no call. They pass at once.


class PartReader(Protocol):
    """Reads a text without thoughts."""

    def feed(self, text: str) -> str:
        """What may be shown now."""

    def drop(self) -> str:
        """The text is over and was a thought: all that is held."""


R = TypeVar("R", bound=PartReader)


class OutsideThoughts(Generic[R]):
    """Hands a reader what stands outside of thoughts; behind each thought a new one begins.

    A thought is what a start tag opens at the beginning of a text, and all that stands before an end tag,
    also where no start tag was: templates put that into the prompt.
    """

    def __init__(self, new_reader: Callable[[], R], tags: Sequence[tuple[str, str]]) -> None:
        self._new = new_reader
        self._starts = [start for start, _ in tags]
        self._end = re.compile("|".join(re.escape(end) for _, end in tags) or r"(?!)")
        self._longest_start = max(map(len, self._starts), default=0)
        self._longest_end = max((len(end) for _, end in tags), default=0)
        self.reader = new_reader()
        self._head: str | None = ""
        """The beginning, while it may still become a start tag; None: it is decided."""
        self._tail = ""
        """What came last and may be the beginning of an end tag."""
        self._is_thinking = False

    def feed(self, text: str) -> str:
        """What may be shown now."""
        shown, start = [], 0
        while start < len(text):
            if self._head is not None:
                if self._head:
                    text, start, self._head = self._head + text[start:], 0, ""
                begin = _behind_white_space(text, start)
                shown.append(self.reader.feed(text[start:begin]))
                start = begin
                if self._may_open(text[start : start + self._longest_start]):
                    self._head = text[start:]
                    break
                self._is_thinking = any(text.startswith(tag, start) for tag in self._starts)
                self._head = None
            end = self._behind_an_end(text, start)
            if end < 0:
                shown.append(self._pass_on(text[start:]))
                if self._longest_end:
                    self._tail = (self._tail + text[max(start, len(text) - self._longest_end) :])[
                        1 - self._longest_end :
                    ]
                break
            shown.append(self._pass_on(text[start:end]) + self.reader.drop())
            self.reader, self._head, self._tail, self._is_thinking = self._new(), "", "", False
            start = end
        return "".join(shown)

    def finish(self) -> str:
        """What was held of the beginning."""
        text, self._head = self._head or "", None
        return self._pass_on(text)

    def _pass_on(self, text: str) -> str:
        return text if self._is_thinking else self.reader.feed(text)

    def _may_open(self, head: str) -> bool:
        """Whether more text could make this a start tag."""
        return any(len(head) < len(tag) and tag.startswith(head) for tag in self._starts)

    def _behind_an_end(self, text: str, start: int) -> int:
        """Where the first end tag ends, one that began in an earlier piece too; -1: there is none."""
        if self._tail and (found := self._end.search(self._tail + text[start : start + self._longest_end])):
            return start + found.end() - len(self._tail)
        later = self._end.search(text, start)
        return later.end() if later else -1


_WHITE_SPACE = re.compile(r"\s*+")


def _behind_white_space(text: str, start: int) -> int:
    found = _WHITE_SPACE.match(text, start)
    return found.end() if found else start


# --------------------------------------------------------------------------
# JSON of calls, followed a character at a time.

_BLANKS = " \t\r\n"
_SCALAR_SIGNS = frozenset("abcdefghijklmnopqrstuvwxyzE0123456789+-.")
_SCALAR = re.compile(r"true|false|null|-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?")
_KEYS_OF_A_CALL = frozenset(["name", "arguments", "parameters", "type", "id"])
_MOST_SCALAR = 400
_MOST_DEEP = 100


class CallJson:
    """One object that is a call, or (`listed`) a list of them, as far as it has come.

    Line ends may stand in its texts as they are. `name`: of the call that is being written; None: not known
    yet. `is_done`: it is closed.
    """

    def __init__(self, knows: Callable[[str], bool], *, listed: bool = False) -> None:
        self._knows, self._level = knows, 2 if listed else 1
        self._stack: list[str] = []
        self._state = "start"
        self._text: list[str] = []
        self._key = ""
        self.name: str | None = None
        self.is_done = False

    def take(self, sign: str) -> bool:
        """Whether it still can become a call of a tool that there is."""
        if self._state == "text" and sign not in '"\\':
            self._text.append(sign)
            return True
        if self._state in ("text", "key text", "escape", "key escape"):
            return self._take_in_text(sign)
        if self._state == "scalar":
            if sign in _SCALAR_SIGNS:
                self._text.append(sign)
                return len(self._text) < _MOST_SCALAR
            if not _SCALAR.fullmatch("".join(self._text)):
                return False
            self._state = "behind"
        return sign in _BLANKS or self._take_mark(sign)

    def _take_in_text(self, sign: str) -> bool:
        if self._state.endswith("escape"):
            self._state = self._state.replace("escape", "text")
            self._text.append("\\" + sign)
        elif sign == "\\":
            self._state = self._state.replace("text", "escape")
        elif sign != '"':
            self._text.append(sign)
        elif self._state == "key text":
            self._state, self._key = "colon", "".join(self._text)
            return not self._is_call or self._key in _KEYS_OF_A_CALL
        else:
            self._state = "behind"
            if self._is_call and self._key == "name":
                self.name = "".join(self._text)
                return self._knows(self.name)
        return True

    @property
    def _is_call(self) -> bool:
        return len(self._stack) == self._level

    def _take_mark(self, sign: str) -> bool:
        state = self._state
        if sign in "]}" and self._closes(sign, state):
            self._stack.pop()
            self._state, self.is_done = "behind", not self._stack
            return True
        if state in ("start", "value", "item or end"):
            return self._begin_value(sign)
        if state in ("key", "key or end") and sign == '"':
            self._state, self._text = "key text", []
            return True
        if state == "colon" and sign == ":":
            self._state = "value"
            return True
        if state == "behind" and sign == "," and self._stack:
            self._state = "key" if self._stack[-1] == "{" else "value"
            return True
        return False

    def _closes(self, sign: str, state: str) -> bool:
        if not self._stack or self._stack[-1] != ("[" if sign == "]" else "{"):
            return False
        return state in ("behind", "item or end" if sign == "]" else "key or end")

    def _begin_value(self, sign: str) -> bool:
        if self._level == 2 and len(self._stack) < 2:
            if sign != ("{" if self._stack else "["):
                return False
        elif (not self._stack and sign != "{") or (self._is_call and not self._may_begin(sign)):
            return False
        self._text = []
        if sign in "[{":
            self._stack.append(sign)
            if self._is_call:
                self.name = None
            self._state = "item or end" if sign == "[" else "key or end"
            return len(self._stack) <= _MOST_DEEP
        self._state = "text" if sign == '"' else "scalar"
        self._text = [] if sign == '"' else [sign]
        return sign == '"' or sign in _SCALAR_SIGNS

    def _may_begin(self, sign: str) -> bool:
        """Whether the value of this key of a call may begin so."""
        if self._key == "name":
            return sign == '"'
        return self._key not in ("arguments", "parameters") or sign in '{"n'


def calls_of_json(text: str) -> list[TextCall]:
    """The calls that a text is, a list of them or one. Raises ValueError."""
    value = json.loads(text, strict=False)
    return [_call_of(item) for item in (value if isinstance(value, list) else [value])]


def _call_of(item: dict[str, Any]) -> TextCall:
    said = item.get("arguments", item.get("parameters"))
    text = said if isinstance(said, str) else json.dumps(said or {}, ensure_ascii=False)
    return TextCall(str(item.get("name") or ""), text)


# --------------------------------------------------------------------------
# Marks and what stands between them.

_OPENING = ("<tool_call>", "<function=", "[TOOL_CALLS]")
_MOST_OF_A_NAME = 200
_END_OF_FUNCTION = re.compile(r"\s*+</function>\s*+(?:</tool_call>\s*+)?\Z")
Follower = Generator[None, str, None]
"""Is sent one character after the other and ends at the first that cannot belong to calls."""


class _Candidate(ABC):
    """What began like calls, as far as it has come."""

    def __init__(self, knows: Callable[[str], bool]) -> None:
        self._knows = knows
        self._held: list[str] = []
        self._follower = self._follow()
        next(self._follower)
        self._signs: list[str] = []
        """Of the piece that is being written."""
        self.calls: list[TextCall] = []
        self.may_end = False
        self.broken_name = ""
        """The tool of a call that is not whole yet."""

    def take(self, text: str, start: int) -> int:
        """How many characters from `start` on still belong to it."""
        send = self._follower.send
        for at in range(start, len(text)):
            try:
                send(text[at])
            except StopIteration:
                self._held.append(text[start:at])
                return at - start
        self._held.append(text[start:])
        return len(text) - start

    def held(self) -> str:
        return "".join(self._held)

    def calls_at_end(self) -> list[TextCall] | None:
        """The calls, if the text ends here."""
        if self.may_end and self.calls:
            return self.calls
        if self.broken_name:
            return [*self.calls, TextCall(self.broken_name, "".join(self._signs))]
        return None

    @abstractmethod
    def _follow(self) -> Follower:
        """Adds the calls that are written, as far as they go."""

    def _literal(self, sign: str, options: Sequence[str]) -> Generator[None, str, str | None]:
        """The one of `options` that is written here, `sign` first; None: none is."""
        text = sign
        while text not in options:
            if not any(option.startswith(text) for option in options):
                return None
            text += yield
        return text

    def _behind_blanks(self) -> Generator[None, str, str]:
        while (sign := (yield)) in _BLANKS:
            continue
        return sign

    def _json(self, sign: str, *, listed: bool = False) -> Generator[None, str, bool]:
        """Whether JSON of calls stands here, `sign` first; adds them."""
        json_so_far = CallJson(self._knows, listed=listed)
        self._signs = []
        while True:
            self._signs.append(sign)
            if not json_so_far.take(sign):
                return False
            self.broken_name = json_so_far.name or self.broken_name
            if json_so_far.is_done:
                break
            sign = yield
        try:
            found = calls_of_json("".join(self._signs))
        except (ValueError, RecursionError):  # an escape that JSON does not know
            return False
        self.broken_name = ""
        self.calls += found
        return all(self._knows(call.name) for call in found)


class _MarkedCalls(_Candidate):
    """Calls between marks, from the start of a line on, one behind the other."""

    _given: dict[str, str] | None = None
    """The parameters of the function that is being written; None: none is."""
    _key: str | None = None
    """That of which the value is being written."""

    def _follow(self) -> Follower:
        sign, is_open = (yield), False
        while True:
            closing = ("</tool_call>",) if is_open else ()
            mark = yield from self._literal(sign, (*_OPENING, *closing))
            self.may_end = False
            if mark is None:
                return
            self._given = None
            if mark == "</tool_call>":
                is_open = False
            elif mark == "<tool_call>":
                is_open = True
                sign = yield from self._behind_blanks()
                if sign == "<":
                    if (yield from self._literal(sign, ("<function=",))) is None:
                        return
                    whole = yield from self._function()
                else:
                    whole = yield from self._json(sign)
                if not whole:
                    return
            elif mark == "<function=":
                if not (yield from self._function()):
                    return
            elif not (yield from self._json((yield from self._behind_blanks()), listed=True)):
                return
            self.may_end = True
            sign = yield from self._behind_blanks()

    def _function(self) -> Generator[None, str, bool]:
        """Whether a call stands behind `<function=`; adds it."""
        name = yield from self._until(">", _MOST_OF_A_NAME)
        if name is None or not self._knows(name.strip()):
            return False
        self.broken_name, self._given, self._key = name.strip(), {}, None
        while True:
            sign = yield from self._behind_blanks()
            mark = yield from self._literal(sign, ("<parameter=", "</function>"))
            if mark is None:
                return False
            if mark == "</function>":
                break
            self._key = yield from self._until(">", _MOST_OF_A_NAME)
            if self._key is None:
                return False
            self._give((yield from self._until("</parameter>", None)) or "")
        self.calls.append(self._function_call())
        self.broken_name = ""
        return True

    def _give(self, value: str) -> None:
        assert self._given is not None
        self._given[(self._key or "").strip()] = value.removeprefix("\n").removesuffix("\n")
        self._key = None

    def _function_call(self) -> TextCall:
        return TextCall(self.broken_name, json.dumps(self._given, ensure_ascii=False))

    def calls_at_end(self) -> list[TextCall] | None:
        """The end marks of a function, and of its last parameter before that, may be missing."""
        if self.broken_name and self._given is not None:
            value = "".join(self._signs)
            if self._key is not None and (end := _END_OF_FUNCTION.search(value)):
                self._give(value[: end.start()])
            if self._key is None:
                return [*self.calls, self._function_call()]
        return super().calls_at_end()

    def _until(self, end: str, most: int | None) -> Generator[None, str, str | None]:
        """What stands before `end`; None when it is longer than `most`."""
        self._signs = []
        while True:
            self._signs.append((yield))
            if self._signs[-1] == end[-1] and "".join(self._signs[-len(end) :]) == end:
                return "".join(self._signs[: -len(end)])
            if most is not None and len(self._signs) > most:
                return None


class _WholeCall(_Candidate):
    """A text that is one call and nothing else, in a code fence or not."""

    def _follow(self) -> Follower:
        sign = yield
        is_fenced = sign == "`"
        if is_fenced:
            if (yield from self._literal(sign, ("```",))) is None:
                return
            while (sign := (yield)) not in "{\n":
                if not (sign.isalnum() or sign in "_+- \t\r"):
                    return
            if sign == "\n":
                sign = yield from self._behind_blanks()
        if not (yield from self._json(sign)) or not self._has_arguments():
            return
        self.may_end = True
        sign = yield from self._behind_blanks()
        if is_fenced and (yield from self._literal(sign, ("```",))):
            yield from self._behind_blanks()

    def _has_arguments(self) -> bool:
        item = json.loads("".join(self._signs), strict=False)
        return isinstance(item.get("arguments", item.get("parameters")), dict)

    def calls_at_end(self) -> list[TextCall] | None:
        """A call that breaks off is a text: it may be anything."""
        return self.calls if self.may_end and self.calls else None


# --------------------------------------------------------------------------

_LINE_BLANKS = re.compile(r"[ \t\r]*+")
_NEXT_LINE = re.compile(r"\n[ \t\r]*+([<\[])")
_LOOKS = 8
"""How often each character may be looked at, on the average; a text that needs more has no calls."""


class _CallsAtTheEnd:
    """Reads one text without thoughts."""

    def __init__(self, knows: Callable[[str], bool]) -> None:
        self._knows = knows
        self._candidate: _Candidate | None = None
        self._is_first, self._at_line_start = True, True
        self._shown = self._looked = 0
        """Characters that were shown, and those that were looked at as calls."""
        self._gives_up = False

    def feed(self, text: str) -> str:
        return self._read([(text, 0)])

    def drop(self) -> str:
        held, self._candidate = self._candidate.held() if self._candidate else "", None
        return held

    def finish(self) -> tuple[str, list[TextCall] | None]:
        shown: list[str] = []
        while self._candidate is not None:
            calls = self._candidate.calls_at_end()
            if calls is not None:
                return "".join(shown), calls
            shown.append(self._read(self._held_again()))
        return "".join(shown), None

    def _read(self, parts: list[tuple[str, int]]) -> str:
        """`parts`: texts and where each is to be read from, the next one last."""
        shown: list[str] = []
        while parts:
            text, start = parts.pop()
            if self._candidate is None:
                begin = self._begin_of_calls(text, start)
                shown.append(text[start:begin])
                self._shown += begin - start
                start = begin
            if self._candidate is None:
                continue
            taken = self._candidate.take(text, start)
            self._looked += taken
            if start + taken < len(text):
                parts.append((text, start + taken))
                parts += self._held_again()
        return "".join(shown)

    def _held_again(self) -> list[tuple[str, int]]:
        """What was held, as text to be read for calls that begin further on in it."""
        held = self.drop()
        self._at_line_start = False
        self._gives_up = self._looked > _LOOKS * (self._shown + len(held))
        return [(held, 0)]

    def _begin_of_calls(self, text: str, start: int) -> int:
        """Where something begins that may become calls, which is the candidate then; else the text's end."""
        if self._gives_up:
            return len(text)
        if self._is_first:
            start = _behind_white_space(text, start)
            if start == len(text):
                return start
            self._is_first, self._at_line_start = False, False
            if text[start] in "{`":
                self._candidate = _WholeCall(self._knows)
                return start
            if text[start] in "<[":
                self._candidate = _MarkedCalls(self._knows)
                return start
        if self._at_line_start:
            found = _LINE_BLANKS.match(text, start)
            begin = found.end() if found else start
            if begin == len(text):
                return begin
            if text[begin] in "<[":
                self._candidate = _MarkedCalls(self._knows)
                return begin
        next_line = _NEXT_LINE.search(text, start)
        if next_line is not None:
            self._candidate = _MarkedCalls(self._knows)
            return next_line.start(1)
        line = text.rfind("\n", start)
        self._at_line_start = line >= 0 and not text[line + 1 :].strip(" \t\r")
        return len(text)


class TextCallReader:
    """Reads one answer of a model. `names`: the tools that there are. `think_tags`: what stands between them
    is no call.
    """

    def __init__(self, names: Collection[str], think_tags: Sequence[tuple[str, str]] = THINK_TAGS) -> None:
        known = {name.casefold() for name in names}

        def knows(name: str) -> bool:
            bare = name.strip().casefold()
            return bare in known or bare.rpartition(".")[2] in known

        self._outside = OutsideThoughts(lambda: _CallsAtTheEnd(knows), think_tags)

    def feed(self, text: str) -> str:
        """What of the text so far may be shown now."""
        return self._outside.feed(text)

    def finish(self) -> tuple[str, list[TextCall] | None]:
        """The rest of the text, and the calls that stood at its end; None: there are none."""
        head = self._outside.finish()
        rest, calls = self._outside.reader.finish()
        return head + rest, calls
