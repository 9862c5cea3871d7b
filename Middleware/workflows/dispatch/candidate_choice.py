"""Which of several answers is taken: votes that are counted, a judge's reply that is read, and the list of
answers that a judge is shown. Pure. Source: spec agents.md 12.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Hashable, Sequence
from decimal import Decimal
from typing import Any

from Middleware.common.types import JsonObject
from Middleware.utilities.model_json import json_values, places_of_json, read_value, value_at

LAST_NUMBER, LAST_LINE, JSON_PATH = "last_number", "last_line", "json:"
VOTE_ALLOWED = (
    f"`{LAST_NUMBER}`, `{LAST_LINE}`, `{JSON_PATH}/path`, or a regular expression with one group in brackets"
)

QUESTION, CANDIDATES = "[Question]", "[Candidates]"
_MARK = re.compile(rf"{re.escape(QUESTION)}|{re.escape(CANDIDATES)}")

_NUMBER = re.compile(r"(?<![A-Za-z0-9_.])[-+\u2212]?(?:\d{1,3}(?:,\d{3})+(?!\d)|\d+)(?:\.\d+)?", re.ASCII)
_ONE_NUMBER = re.compile(rf"\s*({_NUMBER.pattern})\s*", re.ASCII)
_WRITTEN_NUMBER = re.compile(r"\d+(?:[.,]\d+)*", re.ASCII)
_MOST_DIGITS = 400
"""A longer run of digits is no number that anybody votes for."""

Value = Hashable
ReadVote = Callable[[str], "Value | None"]
"""What of a text is compared; None: it does not vote."""


# --------------------------------------------------------------------------
# Votes.


def vote_reader(vote_on: str) -> ReadVote:
    """What `voteOn` says is compared. Raises ValueError with what is allowed."""
    if vote_on == LAST_NUMBER:
        return last_number
    if vote_on == LAST_LINE:
        return last_line
    if vote_on.startswith(JSON_PATH):
        path = vote_on.removeprefix(JSON_PATH)
        if path and not path.startswith("/"):
            raise ValueError(f"{VOTE_ALLOWED}; a path begins with a slash, not {path!r}")
        return lambda text: _json_vote(text, path)
    try:
        pattern = re.compile(vote_on)
    except re.error as error:
        raise ValueError(f"{VOTE_ALLOWED}, not {vote_on!r} ({error})") from None
    if pattern.groups != 1:
        raise ValueError(f"{VOTE_ALLOWED}, not {vote_on!r}, which has {pattern.groups} groups")
    return lambda text: _matched(pattern, text)


def last_number(text: str) -> Value | None:
    """The last number in the text, as a number: `8`, `8.0` and `1,000` are what they say."""
    numbers = _NUMBER.findall(text)
    return _as_number(numbers[-1]) if numbers else None


def _as_number(digits: str) -> Value | None:
    plain = digits.replace(",", "").replace("\u2212", "-")
    return None if len(plain) > _MOST_DIGITS else Decimal(plain)


def last_line(text: str) -> Value | None:
    """The last line that is not blank, trimmed, whatever its case."""
    lines = (line.strip() for line in reversed(text.splitlines()))
    return next((line.casefold() for line in lines if line), None)


def _matched(pattern: re.Pattern[str], text: str) -> Value | None:
    match = pattern.search(text)
    if match is None or match[1] is None or not match[1].strip():
        return None
    number = _ONE_NUMBER.fullmatch(match[1])
    return _as_number(number[1]) if number else match[1].strip().casefold()


def _json_vote(text: str, path: str) -> Value | None:
    """The value at a JSON pointer (RFC 6901) in the first JSON of the text that has it."""
    for place in places_of_json(text):
        for _, value, _ in json_values(place, read_value):
            try:
                return _canonical(value_at(value, path))
            except LookupError:
                continue
    return None


def _canonical(value: Any) -> Value:
    """Equal for equal JSON; `8` and `8.0` are the same number, and `true` is none."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return Decimal(str(value))
    return json.dumps(_numbers_alike(value), sort_keys=True, default=str)


def _numbers_alike(value: Any) -> Any:
    if isinstance(value, list):
        return [_numbers_alike(item) for item in value]
    if isinstance(value, dict):
        return {name: _numbers_alike(item) for name, item in value.items()}
    return int(value) if isinstance(value, float) and value.is_integer() else value


class Ballot:
    """Votes as they come in. `count`: how many may vote. Not for several threads at once."""

    def __init__(self, count: int, read: ReadVote) -> None:
        self._waiting, self._read = count, read
        self._votes: dict[Value, list[int]] = {}

    def add(self, position: int, text: str) -> None:
        """What the one at `position` said; one that failed said nothing."""
        self._waiting -= 1
        value = self._read(text) if text.strip() else None
        if value is not None:
            self._votes.setdefault(value, []).append(position)

    def winner(self) -> int | None:
        """The first position of the most frequent value; of equally frequent ones the value whose position
        is first. None: nobody has voted."""
        ranked = sorted((-len(positions), min(positions)) for positions in self._votes.values())
        return ranked[0][1] if ranked else None

    @property
    def is_decided(self) -> bool:
        """Whether no other value can reach the leader any more."""
        counts = sorted((len(positions) for positions in self._votes.values()), reverse=True)
        others = counts[1] if len(counts) > 1 else 0
        return bool(counts) and counts[0] > others + self._waiting


# --------------------------------------------------------------------------
# What a judge is shown, and what it says.


def listed(texts: Sequence[str]) -> str:
    """`[1]`, a newline, the first text, an empty line, `[2]` ..."""
    return "\n\n".join(f"[{number}]\n{text}" for number, text in enumerate(texts, 1))


def filled_in(template: str, question: str, candidates: str) -> str:
    """The prompt with its marks filled in; what is filled in is never looked at again."""
    return _MARK.sub(lambda mark: question if mark[0] == QUESTION else candidates, template)


def best_schema(count: int) -> JsonObject:
    """JSON Schema of a judge's reply on so many candidates."""
    best = {"type": "integer", "minimum": 1, "maximum": count}
    return {
        "type": "object",
        "properties": {"best": best},
        "required": ["best"],
        "additionalProperties": False,
    }


def named_best(reply: str, count: int) -> int | None:
    """Which of `count` candidates, from 1 on, a judge's reply names: `{"best": 2}`, else the first number in
    it that can be one. None: it names none."""
    for place in places_of_json(reply):
        for _, value, _ in json_values(place, read_value):
            best = value.get("best") if isinstance(value, dict) else None
            if isinstance(best, int) and not isinstance(best, bool) and 1 <= best <= count:
                return best
    words = (match[0] for match in _WRITTEN_NUMBER.finditer(reply))
    numbers = (int(word) for word in words if word.isdigit() and len(word) <= len(str(count)))
    return next((number for number in numbers if 1 <= number <= count), None)
