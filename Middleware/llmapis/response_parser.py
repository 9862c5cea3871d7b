"""`LLMResponseParser`: thoughts, text and tool calls of a stream, for users' scripts. Pure.

One parser belongs to one stream. Source: spec backends.md 12.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from Middleware.common.types import Chunk, JsonObject
from Middleware.llmapis.call.half_characters import HalfCharacters
from Middleware.llmapis.dialects.claude_events import ClaudeEvents
from Middleware.llmapis.dialects.event_mapping import ToolCallDeltas, standard_finish
from Middleware.llmapis.dialects.openai_messages import (
    GoogleThoughts,
    read_message,
    thoughts_in,
    tool_calls_of,
)
from Middleware.llmapis.reasoning_parser import has_reasoning_marks, reasoning_splitter


@dataclass(frozen=True, slots=True)
class ParsedDelta:
    """What one delta brought.

    `thinking`, `text`: all of that kind **so far**, `""` when this delta added nothing to it.
    `thinking_delta`, `text_delta`: what it added. `tool_calls`: OpenAI deltas. `is_complete`: the answer has
    ended.
    """

    thinking: str = ""
    text: str = ""
    tool_calls: list[JsonObject] = field(default_factory=list)
    is_complete: bool = False
    thinking_delta: str = ""
    text_delta: str = ""


class LLMResponseParser:
    """Parses the deltas of one stream, in order. `reset()` before another stream."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Forget everything."""
        self._thinking, self._text = "", ""
        self._splitter = reasoning_splitter("minimax")
        self._calls = ToolCallDeltas()
        self._halves = HalfCharacters()
        self._claude = ClaudeEvents()
        self._google: GoogleThoughts | None = None

    def parse_openai(self, delta: Mapping[str, Any]) -> ParsedDelta:
        """A delta (`choices[0].delta`), or a whole chunk. MiniMax's marks in the text are reasoning."""
        choices = delta.get("choices")
        choice = _mapping(choices[0]) if isinstance(choices, list) and choices else {"delta": delta}
        inner = _mapping(choice.get("delta"))
        self._google = thoughts_in(inner, self._google)
        token, thinking, _ = read_message(inner, self._google)
        ended = standard_finish(choice.get("finish_reason") or inner.get("finish_reason")) is not None
        if ended and self._google is not None:
            token, thinking = map("".join, zip((token, thinking), self._google.rest(), strict=True))
        pieces = [self._splitter.feed(token)] if self._splitter else [("", token)]
        if ended and self._splitter:
            pieces.append(self._splitter.finish())
        thinking += "".join(thought for thought, _ in pieces)
        text = "".join(piece for _, piece in pieces)
        return self._make_delta(thinking, text, self._calls.add(tool_calls_of(inner)), ended)

    def parse_anthropic(self, chunk: Mapping[str, Any]) -> ParsedDelta:
        """One event of a messages stream. One that is not of the API's form says nothing."""
        try:
            said = self._claude.chunk(dict(chunk))
        except (LookupError, TypeError, AttributeError):
            said = None
        if said is None:
            return self._make_delta("", "", [], self._claude.ended)
        ended = said["finish_reason"] is not None
        return self._make_delta(said.get("thinking", ""), said["token"], said.get("tool_calls", []), ended)

    def parse_chunk(self, chunk: Mapping[str, Any], provider: str = "openai") -> ParsedDelta:
        """By provider: `anthropic` or `claude`; every other name counts as `openai`."""
        if provider.lower() in ("anthropic", "claude"):
            return self.parse_anthropic(chunk)
        return self.parse_openai(chunk)

    def has_thinking_tags(self, text: str) -> bool:
        """Whether a mark that opens reasoning stands in the text."""
        return has_reasoning_marks(text)

    def _make_delta(self, thinking: str, text: str, calls: list[JsonObject], ended: bool) -> ParsedDelta:
        chunk: Chunk = {"token": text, "thinking": thinking, "finish_reason": None}
        self._halves.join(chunk)
        self._halves.join_calls(calls)
        if ended:
            self._halves.release(chunk)
        text, thinking = chunk["token"], chunk.get("thinking", "")
        self._thinking += thinking
        self._text += text
        return ParsedDelta(
            thinking=self._thinking if thinking else "",
            text=self._text if text else "",
            tool_calls=calls,
            is_complete=ended,
            thinking_delta=thinking,
            text_delta=text,
        )


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


class _ThreadsParser(LLMResponseParser, threading.local):
    """A parser whose state is each thread's own."""


llm_parser = _ThreadsParser()
"""For scripts that want no object of their own; call `reset()` before a stream."""
