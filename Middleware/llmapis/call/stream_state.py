"""What a backend's handler and the stream reader tell each other about one stream."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Protocol

from Middleware.common.types import JsonObject


@dataclass(slots=True)
class StreamState:
    """One stream. `_map_event` may set `model` and `ended` and keep its own notes in `memo`; the rest is the
    reader's.

    `ended`: the end mark of this dialect was seen (`done: true`, `message_stop`); `[DONE]` is seen by the
    reader."""

    model: str | None = None
    ended: bool = False
    saw_tool_calls: bool = False
    usage: JsonObject = field(default_factory=dict)
    memo: dict[str, Any] = field(default_factory=dict)


class ThoughtSplitter(Protocol):
    """Takes reasoning that stands inside the text out of it. Both give `(thinking, text)`; what is undecided
    is held. `in_thought`: what comes next is thought until a mark says otherwise."""

    @property
    def in_thought(self) -> bool: ...

    def feed(self, text: str) -> tuple[str, str]: ...

    def finish(self) -> tuple[str, str]: ...
