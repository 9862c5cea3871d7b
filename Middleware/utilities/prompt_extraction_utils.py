"""Parts of a conversation: its system text, its newest messages, its tags. Pure; changes no message in place.

What needs the newest messages walks from the end and looks at no more than it takes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator

from Middleware.common.types import Message, Messages
from Middleware.config.paths import is_discussion_id
from Middleware.utilities.text_utils import estimate_message_tokens, stored_message_tokens

MESSAGE_OVERHEAD = 8
"""Tokens that each message costs beside its content."""

DISCUSSION_TAG = "[DiscussionId]"
"""What a tag begins with: where it is missing, nothing needs to be searched."""

_DISCUSSION_TAG = re.compile(r"\[DiscussionId\](?:(.*?)\[/DiscussionId\]|.*+)")
"""A tag that its line does not close takes the rest of the line (no group): nothing is searched twice."""


def leading_system_count(messages: Messages) -> int:
    """How many messages at the very front are system messages."""
    for index, message in enumerate(messages):
        if message["role"] != "system":
            return index
    return len(messages)


def leading_system_messages(messages: Messages) -> Messages:
    return messages[: leading_system_count(messages)]


def without_system(messages: Messages) -> Messages:
    return [message for message in messages if message["role"] != "system"]


def system_text(messages: Messages, *, everywhere: bool) -> str:
    """Contents of the leading, or of all, system messages, joined by blanks. Source: workflows.md 7.7."""
    chosen = messages if everywhere else leading_system_messages(messages)
    return " ".join(message["content"] for message in chosen if message["role"] == "system")


def newest_first(messages: Messages, *, drop_all_system: bool) -> Iterator[Message]:
    """From the end backwards, without all system messages, or without those at the front (unless all are)."""
    if drop_all_system:
        return (message for message in reversed(messages) if message["role"] != "system")
    front = leading_system_count(messages)
    if front == len(messages):
        return reversed(messages)
    return (messages[index] for index in range(len(messages) - 1, front - 1, -1))


def exchange_length(newest: Iterable[Message]) -> int:
    """How many messages at the end are an open tool exchange: the last user message and all behind it, where
    calls or results are. 0: there are none. `newest` walks backwards.

    A window that cut them apart would have the model ask the same again. A user message that holds no text
    directly behind results belongs to them: the pictures of a result of Anthropic's clients stand so. Without
    a user message they are all but the system messages at the front. Source: backends.md 13.4.
    """
    has_turns, pictures, length = False, False, 0
    for number, message in enumerate(newest, 1):
        role = message["role"]
        if role == "system":
            continue
        if pictures and role != "tool":
            break
        length, pictures = number, role == "user" and not message["content"].strip()
        if role == "user" and not pictures:
            break
        has_turns = has_turns or role == "tool" or bool(message.get("tool_calls"))
    return length if has_turns else 0


def answered_length(messages: Messages) -> int:
    """How many messages at the end a token budget never drops: an open tool exchange; else a user message
    with the beginning of the answer that stands behind it; else the newest message.
    """
    if length := exchange_length(reversed(messages)):
        return length
    roles = [message["role"] for message in messages[-2:]]
    return 2 if roles == ["user", "assistant"] else len(roles[-1:])


def message_cost(message: Message) -> int:
    """Tokens of a message's content by the measure that is the same for every script: limits of a node
    without the clamp.
    """
    return stored_message_tokens(message["content"])


def clamped_cost(message: Message) -> int:
    """Tokens of a message's content as the clamp counts them. Source: memory.md 18.2.19."""
    return estimate_message_tokens(message["content"])


def sent_cost(message: Message) -> int:
    """Tokens of a message as the clamp counts it in a prompt that is sent."""
    return clamped_cost(message) + MESSAGE_OVERHEAD


def newest_within(
    newest: Iterable[Message],
    *,
    count: int | None = None,
    budget: float | None = None,
    minimum: int = 1,
    cost: Callable[[Message], int] = message_cost,
) -> Messages:
    """The newest messages within `count` and a token `budget`, oldest first; `newest` walks backwards.

    The first `minimum` are taken whatever they cost, then each while the sum stays in the budget; the walk
    stops at the first that does not fit. None: no such limit. Source: workflows.md 7.7, 7.8.
    """
    taken: Messages = []
    spent = 0
    for message in newest:
        if count is not None and len(taken) >= count:
            break
        if budget is not None:
            spent += cost(message)
            if len(taken) >= minimum and spent > budget:
                break
        taken.append(message)
    taken.reverse()
    return taken


def discussion_id(messages: Messages) -> str | None:
    """Id of the first discussion tag; None: no tag, empty, or no name that a discussion can have.

    Source: workflows.md 3.3.
    """
    for message in messages:
        if DISCUSSION_TAG not in message["content"]:
            continue
        tags = _DISCUSSION_TAG.finditer(message["content"])
        found = next((tag[1] for tag in tags if tag[1] is not None), None)
        if found is not None:
            return found if is_discussion_id(found) else None
    return None


def without_discussion_tags(text: str) -> str:
    """`text` without any `[DiscussionId]...[/DiscussionId]`."""
    return (
        _DISCUSSION_TAG.sub(lambda tag: tag[0] if tag[1] is None else "", text)
        if DISCUSSION_TAG in text
        else text
    )


def text_between(text: str, opening: str, closing: str) -> str | None:
    """The text between the first `opening` and the next `closing`; None if either is not there."""
    start = text.find(opening)
    if start < 0:
        return None
    start += len(opening)
    end = text.find(closing, start)
    return text[start:end] if end >= 0 else None


def text_in_tag(text: str, tag: str) -> str | None:
    """The text in the first `<tag>...</tag>`, taken literally, not stripped. Source: nodes.md 3.8."""
    return text_between(text, f"<{tag}>", f"</{tag}>")
