"""How messages are cut into chunks. Pure. Source: spec memory.md 4.6, 5."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from Middleware.common.types import Message, Messages
from Middleware.utilities.hashing_utils import message_hash
from Middleware.utilities.text_utils import stored_message_tokens

FILL = 0.8
"""A chunk takes messages up to this part of its size."""


def without_system(messages: Iterable[Message]) -> Messages:
    """The messages that memories are made of: no system messages."""
    return [message for message in messages if message.get("role") != "system"]


def content(message: Message) -> str:
    return message.get("content") or ""


def tokens_of(messages: Messages) -> int:
    """Estimated tokens of the contents, as one text."""
    return stored_message_tokens(chunk_text(messages))


def chunk_messages(
    messages: Messages, size: int, estimate: Callable[[str], int] = stored_message_tokens
) -> list[Messages]:
    """The messages in chunks of about `size` tokens, filled from the newest backwards, in their own order.

    A message is never cut; the oldest messages are a chunk, however few they are.
    """
    chunks: list[Messages] = []
    current: Messages = []
    filled = 0
    for message in reversed(messages):
        tokens = estimate(content(message))
        if current and filled + tokens > FILL * size:
            chunks.append(current[::-1])
            current, filled = [], 0
        current.append(message)
        filled += tokens
    if current:
        chunks.append(current[::-1])
    return chunks[::-1]


def chunk_text(messages: Messages) -> str:
    """Contents, one under the other, without roles."""
    return "\n".join(map(content, messages))


def chunk_hash(messages: Messages) -> str:
    """Hash of the last message."""
    return message_hash(messages[-1])
