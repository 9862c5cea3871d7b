r"""A character in two halves of a stream: `\ud83d` ends one event, `\ude00` begins the next. Pure.

Servers whose strings are UTF-16 (JavaScript, Java, C#) cut an emoji so. Source: spec backends.md 10.
"""

from __future__ import annotations

from collections.abc import Iterable

from Middleware.common.types import Chunk, JsonObject

_FIRST_HALF, _LAST_FIRST_HALF = "\ud800", "\udbff"


class HalfCharacters:
    """First halves of one stream, each held until more comes of what it stands in. `held`: by `token`,
    `thinking`, or the index of a call."""

    __slots__ = ("held",)

    def __init__(self) -> None:
        self.held: dict[str | int, str] = {}

    def join(self, chunk: Chunk) -> None:
        """Put the halves that wait before what this chunk says, and hold those at its end."""
        if not self.held and chunk["token"][-1:] < _FIRST_HALF and "thinking" not in chunk:
            return
        chunk["token"] = self._joined("token", chunk["token"])
        if thinking := self._joined("thinking", chunk.get("thinking", "")):
            chunk["thinking"] = thinking
        else:
            chunk.pop("thinking", None)

    def join_calls(self, deltas: Iterable[JsonObject]) -> None:
        """The same for the arguments of calls."""
        for delta in deltas:
            if arguments := delta["function"].get("arguments"):
                delta["function"]["arguments"] = self._joined(delta["index"], arguments)

    def release(self, chunk: Chunk) -> None:
        """Nothing more comes: put the halves that wait behind what this chunk says. A call that ends with one
        was cut, and its half says nothing."""
        chunk["token"] += self.held.pop("token", "")
        if half := self.held.pop("thinking", ""):
            chunk["thinking"] = chunk.get("thinking", "") + half

    def _joined(self, place: str | int, text: str) -> str:
        if half := self.held.pop(place, ""):
            text = whole_characters(half + text)
        if not ends_in_half(text):
            return text
        self.held[place] = text[-1]
        return text[:-1]


def ends_in_half(text: str) -> bool:
    """Whether its last character waits for another half."""
    return _FIRST_HALF <= text[-1:] <= _LAST_FIRST_HALF


def whole_characters(text: str) -> str:
    """Two halves side by side become their character; a half alone stays one."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
