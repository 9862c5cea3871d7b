"""The events of a Claude stream as standard dicts. One object a stream; no I/O. Source: backends.md 9.6."""

from __future__ import annotations

from typing import Any

from Middleware.common.types import Chunk, JsonObject
from Middleware.llmapis.dialects.event_mapping import (
    arguments_text,
    count_of,
    finish_fields,
    known_count,
    text_of,
    usage_of,
)

EVENT_TYPES = frozenset(
    (
        "message_start",
        "content_block_start",
        "content_block_delta",
        "content_block_stop",
        "message_delta",
        "message_stop",
        "ping",
    )
)
"""What an answer is made of; events of other types are skipped."""

THOUGHT_BLOCKS = ("thinking", "redacted_thinking")


class ClaudeEvents:
    """`chunk(event)` for every event in order. `model`, `calls`, `thought_blocks`: what came so far."""

    def __init__(self) -> None:
        self.model: str | None = None
        self.ended = False
        self._call_ids: list[str] = []
        self._pieces: list[list[str]] = []
        self._thoughts: dict[Any, JsonObject] = {}
        self._call_index: dict[Any, int] = {}
        self._unsaid_input: dict[Any, Any] = {}
        self._counts: JsonObject = {}

    @property
    def usage(self) -> JsonObject | None:
        """What was told so far. What the start says of the output is of the start alone."""
        return claude_usage(self._counts)

    @property
    def calls(self) -> list[tuple[str, str]]:
        """Id and arguments of each call."""
        return [
            (call_id, "".join(pieces)) for call_id, pieces in zip(self._call_ids, self._pieces, strict=True)
        ]

    @property
    def thought_blocks(self) -> list[JsonObject]:
        """Thinking blocks with their signatures, as the API wants them back."""
        return list(self._thoughts.values())

    def chunk(self, data: JsonObject) -> Chunk | None:
        """The standard dict for one event; None when it says nothing (an unknown type included)."""
        kind = data.get("type")
        if kind == "content_block_delta":
            return self._delta(data.get("index"), data["delta"])
        if kind == "content_block_start":
            return self._start(data.get("index"), data.get("content_block") or {})
        if kind == "content_block_stop":
            return self._stop(data.get("index"))
        if kind == "message_delta":
            return self._ending(data)
        if kind == "message_start":
            message = data.get("message") or {}
            self.model = message.get("model")
            self._count(message.get("usage"))
            self._counts.pop("output_tokens", None)
        elif kind == "message_stop":
            self.ended = True
        return None

    def _delta(self, block: Any, delta: JsonObject) -> Chunk | None:
        kind = delta.get("type")
        if kind == "text_delta":
            return {"token": text_of(delta.get("text")), "finish_reason": None}
        if kind == "input_json_delta":
            piece = text_of(delta.get("partial_json"))
            if block not in self._call_index or not piece:
                return None
            self._unsaid_input.pop(block, None)
            return self._arguments(block, piece)
        if kind in ("thinking_delta", "signature_delta"):
            field = "thinking" if kind == "thinking_delta" else "signature"
            thought = self._thoughts.setdefault(block, {"type": "thinking", "thinking": ""})
            thought[field] = text_of(thought.get(field)) + text_of(delta.get(field))
            return _thought(delta.get("thinking"))
        return None

    def _start(self, block: Any, content: JsonObject) -> Chunk | None:
        kind = content.get("type")
        if kind == "tool_use":
            self._call_index[block] = index = len(self._call_ids)
            self._call_ids.append(text_of(content.get("id")))
            self._pieces.append([])
            self._unsaid_input[block] = content.get("input") or {}
            function = {"name": text_of(content.get("name")), "arguments": ""}
            call = {"index": index, "id": content.get("id"), "type": "function", "function": function}
            return {"token": "", "finish_reason": None, "tool_calls": [call]}
        if kind in THOUGHT_BLOCKS:
            self._thoughts[block] = dict(content)
            return _thought(content.get("thinking"))
        text = text_of(content.get("text")) if kind == "text" else ""
        return {"token": text, "finish_reason": None} if text else None

    def _stop(self, block: Any) -> Chunk | None:
        """Input that came whole at the start of the call, not in pieces, is said here. None at all may be a
        call that was cut, which only the end of the answer says."""
        given = self._unsaid_input.pop(block, None)
        return self._arguments(block, arguments_text(given)) if given else None

    def _ending(self, data: JsonObject) -> Chunk:
        self._count(data.get("usage"))
        delta = data.get("delta")
        reason = delta.get("stop_reason") if isinstance(delta, dict) else None
        chunk: Chunk = {"token": "", **finish_fields(reason)}  # type: ignore[typeddict-item]
        if (usage := self.usage) is not None:
            chunk["usage"] = usage
        return chunk

    def _count(self, usage: Any) -> None:
        """A later number replaces an earlier one; null says nothing."""
        if isinstance(usage, dict):
            self._counts.update((name, count) for name, count in usage.items() if count is not None)

    def _arguments(self, block: Any, text: str) -> Chunk:
        index = self._call_index[block]
        self._pieces[index].append(text)
        call = {"index": index, "function": {"arguments": text}}
        return {"token": "", "finish_reason": None, "tool_calls": [call]}


def _thought(text: Any) -> Chunk | None:
    text = text_of(text)
    return {"token": "", "finish_reason": None, "thinking": text} if text else None


def claude_usage(counts: Any) -> JsonObject | None:
    """The standard usage; what came from or went into the prompt cache counts as prompt."""
    if not isinstance(counts, dict):
        return None
    cache = {
        **known_count("cached_tokens", counts.get("cache_read_input_tokens")),
        **known_count("cache_write_tokens", counts.get("cache_creation_input_tokens")),
    }
    prompt = count_of(counts.get("input_tokens"))
    if prompt is not None:
        prompt += sum(cache.values())
    usage = usage_of(prompt, counts.get("output_tokens"))
    return None if usage is None else {**usage, **cache}
