"""Which messages are new, and how they are cut into chunks. Pure. Source: spec memory.md 4.5, 5."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Set

from Middleware.common.types import Message, Messages
from Middleware.utilities.hashing_utils import message_hash, shown_hash
from Middleware.utilities.text_utils import estimate_message_tokens

FILL = 0.8
"""A chunk takes messages up to this part of its size."""


def without_system(messages: Iterable[Message]) -> Messages:
    """The messages that memories are made of: no system messages."""
    return [message for message in messages if message.get("role") != "system"]


def content(message: Message) -> str:
    return message.get("content") or ""


def unprocessed(messages: Messages, done: Set[str], lookback: int) -> tuple[int, int]:
    """Start and end of the messages that no chunk has covered yet; `done`: hashes of the chunks' ends.

    The message at the end itself counts as found: it is there when the newest answer was asked for again.
    """
    end = max(0, len(messages) - lookback)
    if not done:
        return 0, end
    for index in range(min(end, len(messages) - 1), -1, -1):
        message = messages[index]
        if message_hash(message) in done or shown_hash(message) in done:
            return end - max(0, end - index - 1), end
    return 0, end


def tokens_of(messages: Messages) -> int:
    """Estimated tokens of the contents, as one text."""
    return estimate_message_tokens(chunk_text(messages))


def chunked(
    messages: Messages, size: int, estimate: Callable[[str], int] = estimate_message_tokens
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
