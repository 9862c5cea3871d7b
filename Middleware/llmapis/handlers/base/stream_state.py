"""What a backend's handler and the stream reader tell each other about one stream."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Protocol

from Middleware.common.types import Chunk, JsonObject

NULL_WORDS = frozenset(("", "null", "none"))
"""Texts that mean "no finish reason yet" on every backend. Source: spec backends.md 9.5."""


@dataclass(slots=True)
class StreamState:
    """One stream. `_map_event` may set `model` and `ended` and keep its own notes in `memo`; the rest is the reader's.

    `ended`: the end mark of this dialect was seen (`done: true`, `message_stop`); `[DONE]` is seen by the reader.
    """

    model: str | None = None
    ended: bool = False
    saw_tool_calls: bool = False
    usage: JsonObject = field(default_factory=dict)
    memo: dict[str, Any] = field(default_factory=dict)


class ReasoningSplitter(Protocol):
    """Takes reasoning that stands inside the text out of it. Both give `(thinking, text)`; what is undecided is held."""

    def feed(self, text: str) -> tuple[str, str]: ...

    def finish(self) -> tuple[str, str]: ...


def set_finish(chunk: Chunk, native: object, words: dict[str, str]) -> Chunk:
    """Set `finish_reason` from the backend's own word; `native_finish_reason` too when it differs.

    `words` maps native words to ours; a word that is in neither becomes `stop`. Null words (also as text) set nothing.
    """
    if native is None:
        return chunk
    word = str(native).strip()
    if word.lower() in NULL_WORDS:
        return chunk
    ours = words.get(word) or (word if word in FINISH_REASONS else "stop")
    chunk["finish_reason"] = ours
    if ours != word:
        chunk["native_finish_reason"] = word
    return chunk


FINISH_REASONS = frozenset(("stop", "length", "tool_calls", "content_filter", "error"))
