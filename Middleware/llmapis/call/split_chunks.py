"""A chunk whose text holds thoughts -> chunks in which both stand in the order of the model. Pure."""

from __future__ import annotations

import re

from Middleware.common.types import Chunk
from Middleware.llmapis.call.stream_state import ThoughtSplitter

_MARKS_BEGIN = re.compile(r"(?=[<\[])")
"""No cut changes what a splitter says of a text; cut here, thought and text change at most once a piece."""


def split_in_order(splitter: ThoughtSplitter, chunk: Chunk) -> list[Chunk]:
    """The chunks that come before `chunk`, which keeps the last thought and the text behind it."""
    thought = chunk.pop("thinking", "")
    parts: list[tuple[bool, str]] = [(True, thought)] if thought else []
    for piece in _MARKS_BEGIN.split(chunk["token"]):
        first = splitter.in_thought
        thinking, text = splitter.feed(piece)
        for is_thought, part in (
            ((True, thinking), (False, text)) if first else ((False, text), (True, thinking))
        ):
            _add(parts, is_thought, part)
    chunk["token"] = parts.pop()[1] if parts and not parts[-1][0] else ""
    if parts and parts[-1][0]:
        chunk["thinking"] = parts.pop()[1]
    return [_chunk(is_thought, part) for is_thought, part in parts]


def _add(parts: list[tuple[bool, str]], is_thought: bool, part: str) -> None:
    if part and parts and parts[-1][0] is is_thought:
        parts[-1] = is_thought, parts[-1][1] + part
    elif part:
        parts.append((is_thought, part))


def _chunk(is_thought: bool, part: str) -> Chunk:
    if is_thought:
        return {"token": "", "thinking": part, "finish_reason": None}
    return {"token": part, "finish_reason": None}
