"""The prompt that a payload holds, as what is compared with earlier ones: tools, system, messages or text.

Reads the keys that the dialects of all backends share; changes nothing. Source: spec prompt-reuse.md 3.2.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from Middleware.common.types import JsonObject
from Middleware.services.held_prompts import PromptDigest
from Middleware.services.run_trace import json_text

_PICTURES = frozenset(("image", "image_url", "input_image", "input_audio", "audio", "document", "file"))
"""Types of content parts that carry data."""
_ASIDE = ("tool_calls", "tool_call_id", "name", "tool_name", "reasoning_content", "thinking")
"""What a message says beside its content."""


class BuiltPayload(NamedTuple):
    """A payload before it is known which server gets it."""

    payload: JsonObject
    prompt: PromptDigest


def digest_payload(payload: Mapping[str, Any], system_prompt: str | None = None) -> PromptDigest:
    """The prompt of a payload of any backend. `system_prompt`: that of the call; a flat prompt that begins
    with it is told as two messages, so that `head_chars` is known of it, too."""
    return PromptDigest.of(prompt_parts(payload, system_prompt))


def prompt_parts(payload: Mapping[str, Any], system_prompt: str | None = None) -> list[tuple[str, str]]:
    """`(role, text)` in the order in which a server reads them: `tools`, `system`, then the messages or
    `prompt`. A picture stands in a text as a digest."""
    parts: list[tuple[str, str]] = []
    if tools := payload.get("tools"):
        parts.append(("tools", json_text(tools)))
    if system := payload.get("system"):
        parts.append(("system", _content_text(system)))
    messages = payload.get("messages")
    for message in messages if isinstance(messages, list) else ():
        text = message.get("content")
        if text.__class__ is not str or len(message) > 2:
            text = _message_text(message)  # nearly every message of a long chat is a plain one
        parts.append((str(message.get("role")), text))
    prompt = payload.get("prompt")
    if isinstance(prompt, str):
        parts += _flat_parts(prompt, system_prompt, payload.get("images"))
    return parts


def _flat_parts(prompt: str, system_prompt: str | None, pictures: Any) -> Iterable[tuple[str, str]]:
    start = prompt.find(system_prompt) if system_prompt else -1
    end = start + len(system_prompt or "") if start >= 0 else 0
    if end:
        yield "system", prompt[:end]
    yield "prompt", prompt[end:] + _picture_marks(pictures)


def _message_text(message: Mapping[str, Any]) -> str:
    text = _content_text(message.get("content"))
    if len(message) > 2:
        text += "".join(f"\n{json_text(message[key])}" for key in _ASIDE if message.get(key))
        text += _picture_marks(message.get("images"))
    return text


def _content_text(content: Any) -> str:
    if isinstance(content, str):
        return content
    return "\n".join(map(_part_text, content)) if isinstance(content, list) else ""


def _part_text(part: Any) -> str:
    if not isinstance(part, Mapping):
        return str(part)
    if part.get("type") == "text":
        return str(part.get("text", ""))
    return _mark(json_text(part)) if part.get("type") in _PICTURES else json_text(part)


def _picture_marks(pictures: Any) -> str:
    return "".join(map(_mark, pictures)) if isinstance(pictures, list) else ""


def _mark(data: Any) -> str:
    """Data are compared as a whole: their characters are not what the model reads."""
    return f"\n[{hash(str(data)):x}]"
