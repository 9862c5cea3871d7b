"""The form that the events of a stream repeat. Pure.

Most differ from the one before in a single JSON string, the token. Cutting that out takes 0.7 microseconds,
reading the event as JSON 2.6, and mapping it comes on top (an OpenAI chunk of 180 characters, CPython 3.11).
Where all that a read brought is such events, they take 0.2 each. Nothing is assumed of the backend: a form is
learnt from an event that was read in full, and what stands in the token's place must be one JSON string.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from Middleware.llmapis.call.half_characters import ends_in_half
from Middleware.llmapis.dialects.event_mapping import DECODER

MISSES = 16
"""After so many events in a row that fitted no form (each has its own time stamp, say), none is looked for
any more."""

NO_FORM = "\0"


class RepeatedForm:
    """`head`, `tail`: the text around the token, `NO_FORM` while none is known. `name`: the event's name.
    `misses`: events since one had the form; whoever finds one sets it to 0."""

    __slots__ = ("head", "misses", "name", "tail")

    def __init__(self) -> None:
        self.name = "message"
        self.head = self.tail = NO_FORM
        self.misses = 0

    def learn(self, name: str, text: str, token: str) -> None:
        """An event with this text meant exactly this token, and nothing else."""
        if self.misses >= MISSES:
            return
        self.misses += 1
        self.head = self.tail = NO_FORM
        quoted = f'"{token}"'
        at = text.find(quoted)
        if at < 0 or text.find(quoted, at + 1) >= 0:
            return
        end = at + len(quoted)
        if text[end : end + 1] in (",", "}", "]"):
            self.name, self.head, self.tail = name, text[: at + 1], text[end - 1 :]

    def tokens_in(self, text: str, before: str, behind: str) -> list[str] | None:
        """What stands in the tokens' places, where `text` is events of this form and nothing else, framed by
        `before` and `behind`; None where it is not."""
        start, end, between = len(self.head), len(self.tail), behind + before
        tokens = [event[start:-end] for event in text[len(before) : -len(behind)].split(between)]
        # Put together again and compared in one go, instead of a look at the beginning and end of each event.
        opening, ending = before + self.head, self.tail + behind
        return tokens if opening + (ending + opening).join(tokens) + ending == text else None

    def unlearn(self) -> None:
        """The next event is read as JSON, whatever it looks like."""
        self.head = self.tail = NO_FORM

    def forget(self) -> None:
        """From now on every event is read as JSON."""
        self.unlearn()
        self.misses = MISSES


scan_json: Callable[[str, int], tuple[Any, int]] = cast(Any, DECODER).scan_once
"""`(value, end)` of the JSON that begins there; the decoder's own entry, which skips no white space."""


def string_within(inner: str) -> str | None:
    """The JSON string that has this between its quotes; None where it is none, or ends before, or with half
    a character."""
    try:
        string, end = scan_json(f'"{inner}"', 0)
    except ValueError:
        return None
    return string if end == len(inner) + 2 and not ends_in_half(string) else None
