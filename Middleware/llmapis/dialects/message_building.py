"""From a conversation to the messages that a chat backend gets, and what is attached to its payload. Pure.

The caller's messages stay as they are: failover sends them again. Source: spec backends.md 8, 12.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from Middleware.common.types import Message, Messages
from Middleware.config.endpoints import STRUCTURED_OUTPUT_KEYS, STRUCTURED_OUTPUT_STYLES, InjectedTexts

logger = logging.getLogger(__name__)

WIRE_KEYS = ("role", "content", "tool_calls", "tool_call_id", "name", "images")
"""What of a message may leave the process (`images` only in the form that a backend makes of it)."""

SCHEMA_NAME = "wilmer_structured_output"

ANY_OBJECT = {"type": "object"}
"""The schema of a client that wants JSON, whatever it holds. OpenAI has a word of its own for it: a strict
server refuses a schema that names no fields."""


def build_messages(
    conversation: Sequence[Message] | None,
    system_prompt: str | None,
    prompt: str | None,
    texts: InjectedTexts,
    *,
    is_agent: bool = False,
) -> Messages:
    """New messages, ready for a backend's own conversion; each injected text is in them once.

    `is_agent`: the text for the completion is left out, since an agent's own turns follow (agents.md 3.1).
    """
    if conversation is None:
        pairs = (("system", system_prompt), ("user", prompt))
        conversation = [{"role": role, "content": text} for role, text in pairs if text]
    messages = [_for_the_wire(message) for message in conversation]
    _inject(messages, replace(texts, completion="") if is_agent else texts)
    if messages and _is_empty_assistant_turn(messages[-1]):
        messages.pop()
    return messages


def _for_the_wire(message: Message) -> Message:
    if len(message) == 2 and "role" in message and message.get("content") is not None:
        kept = {"role": message["role"], "content": message["content"]}
    else:
        kept = {key: message[key] for key in WIRE_KEYS if key in message}
    if kept.get("role") == "systemMes":
        kept["role"] = "system"
    if kept.get("content") is None:
        kept["content"] = ""
    return kept


def _is_empty_assistant_turn(message: Message) -> bool:
    return message.get("role") == "assistant" and not message["content"] and not message.get("tool_calls")


def _inject(messages: Messages, texts: InjectedTexts) -> None:
    if texts.system:
        at = next((i for i, message in enumerate(messages) if message.get("role") == "system"), None)
        if at is None:
            messages.insert(0, {"role": "system", "content": texts.system})
        else:
            _add_text(messages[at], texts.system, first=True)
    if texts.prompt:
        users = (i for i in range(len(messages) - 1, -1, -1) if messages[i].get("role") == "user")
        at = next(users, None)
        if at is None:
            messages.append({"role": "user", "content": texts.prompt})
        else:
            _add_text(messages[at], texts.prompt, first=True)
    if texts.completion:
        own_turn = texts.own_assistant_turn and messages and messages[-1].get("role") != "assistant"
        if own_turn or not messages:
            messages.append({"role": "assistant", "content": texts.completion})
        else:
            _add_text(messages[-1], texts.completion, first=False)


def _add_text(message: Message, text: str, *, first: bool) -> None:
    content = message["content"]
    if isinstance(content, list):
        part = [{"type": "text", "text": text}]
        message["content"] = part + content if first else content + part
    else:
        message["content"] = f"{text}{content}" if first else f"{content}{text}"


def attach_schema(payload: dict[str, Any], schema: Mapping[str, Any], apitype: Mapping[str, Any]) -> None:
    """Write a schema into `payload` as the API type's `structuredOutput` says; without one: a warning."""
    block = structured_output_block(apitype)
    if block is None:
        logger.warning("this API type has no valid structuredOutput block, so the schema is not sent")
        return
    field, style, strict = block
    *path, last = field.split(".")
    target = payload
    for step in path:
        inner = target.get(step)
        target[step] = dict(inner) if isinstance(inner, Mapping) else {}
        target = target[step]
    if last in target:
        logger.warning("the structured output schema replaces '%s' of the preset", field)
    target[last] = _schema_value(schema, style, strict)


def structured_output_block(apitype: Mapping[str, Any]) -> tuple[str, str, bool] | None:
    """`(field, style, strict)` of a valid `structuredOutput` block; None: absent, or invalid (warned of)."""
    block = apitype.get("structuredOutput")
    if block is None:
        return None
    if isinstance(block, Mapping):
        field, style = block.get("field"), block.get("style")
        strict = block.get("strict", STRUCTURED_OUTPUT_KEYS["strict"].default)
        good_field = isinstance(field, str) and all(field.split("."))
        if good_field and style in STRUCTURED_OUTPUT_STYLES and isinstance(strict, bool):
            return str(field), str(style), strict
    logger.warning("structuredOutput of the API type is invalid and counts as absent: %.200r", block)
    return None


def _schema_value(schema: Mapping[str, Any], style: str, strict: bool) -> Any:
    if style == "raw":
        return schema
    if style == "anthropicJsonSchema":
        return {"type": "json_schema", "schema": schema}
    if schema is ANY_OBJECT:
        return {"type": "json_object"}
    return {
        "type": "json_schema",
        "json_schema": {"name": SCHEMA_NAME, "strict": strict, "schema": schema},
    }
