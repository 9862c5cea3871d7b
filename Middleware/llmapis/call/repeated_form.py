"""The form that the events of a stream repeat: most differ from the one before in a single JSON string, the
token.

An event with the same text before and after that string, and no quote or backslash inside it, is the same
JSON with another token; reading it as JSON again (most of the cost of a token) can be left out. Pure."""

from __future__ import annotations

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

    def forget(self) -> None:
        """From now on every event is read as JSON."""
        self.head = self.tail = NO_FORM
        self.misses = MISSES
