"""What a paid service is told so that it holds a prompt: marks, and a key of the chat. Pure.

A service writes, and looks for, what it holds at a mark alone, so the last one stands before a node's late
text: what stands behind it changes with each turn, and nobody would find it again. At most three are set: on
the system prompt, on the last tool, in the conversation. Source: spec prompt-reuse.md 5.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from Middleware.common.types import JsonObject, Message, Messages
from Middleware.config.endpoints import PROMPT_CACHE_BREAKPOINT, PROMPT_CACHE_MARKS, EndpointConfig

_SYSTEM = ("system", "developer")
_HOLDING_BLOCKS = frozenset(("image", "document", "tool_use", "tool_result"))
"""Claude's thoughts and OpenAI's pictures can have no mark."""
_JOINT = "\n\n"


@dataclass(frozen=True, slots=True)
class CacheMark:
    """`name`, `value`: of the field that a content block gets."""

    name: str
    value: Mapping[str, str]

    @classmethod
    def of(cls, endpoint: EndpointConfig, known: Sequence[str]) -> CacheMark | None:
        """None: the endpoint sets none. `known`: those that its backend knows; an API type that names none
        means the only one."""
        name = endpoint.cache_mark or (known[0] if len(known) == 1 else "")
        if endpoint.prompt_caching == "off" or name not in known:
            return None
        if name == PROMPT_CACHE_BREAKPOINT:
            return cls(name, {"mode": "explicit"})
        return cls(name, {"type": "ephemeral", **({"ttl": "1h"} if endpoint.prompt_caching == "1h" else {})})

    def fits(self, message: Message, block: Mapping[str, Any]) -> bool:
        """Whether the block can have it. OpenAI's own mark has no effect in the answers of a model."""
        if self.name == PROMPT_CACHE_BREAKPOINT and message.get("role") == "assistant":
            return False
        if block.get("type") == "text":
            return bool(str(block.get("text") or "").strip())
        return block.get("type") in _HOLDING_BLOCKS

    def set_on(self, block: JsonObject) -> JsonObject:
        """A copy with the mark."""
        return {**block, self.name: dict(self.value)}


@dataclass(frozen=True, slots=True)
class LateText:
    """A late text in a conversation. `content`: of the message that holds it; `start`: where it begins there,
    its joint included."""

    content: str
    start: int

    @classmethod
    def of(cls, messages: Messages, text: str, place: str) -> LateText | None:
        """In a conversation as it was assembled, from what `CallArguments` says of it. None: it has none."""
        if not text:
            return None
        if place == "alone":
            return cls(text, 0)
        content = next((one["content"] for one in reversed(messages) if one.get("role") == "user"), "")
        return cls(content, len(content) - len(text) if place == "after" else 0)


def chat_key(user: str, chat: str) -> str:
    """32 hex digits that are the same for all calls of one chat of a user. `chat`: its discussion id; without
    one its system prompt. Never of the node: nodes whose prompts begin alike share the key."""
    return hashlib.sha256(f"{user}\0{chat}".encode("utf-8", "surrogatepass")).hexdigest()[:32]


def system_text(messages: Messages, late: LateText | None) -> str:
    """The system messages that a conversation begins with, as one text; a late text is none of them."""
    return "\n\n".join(str(one.get("content")) for one in messages[: _count_systems(messages, late)])


def has_own_marks(payload: JsonObject) -> bool:
    """Whether a preset, a client or its tools have set marks: then no others are set."""
    if any(name in payload for name in PROMPT_CACHE_MARKS):
        return True
    contents = [payload.get("system"), *(m.get("content") for m in payload.get("messages") or ())]
    blocks = [block for content in contents if isinstance(content, list) for block in content]
    return _is_marked([*blocks, *(payload.get("tools") or ())])


def _is_marked(blocks: Iterable[Any]) -> bool:
    return any(
        isinstance(block, Mapping)
        and (
            any(name in block for name in PROMPT_CACHE_MARKS)
            or (isinstance(block.get("content"), list) and _is_marked(block["content"]))
        )
        for block in blocks
    )


def mark_last(items: list[JsonObject], mark: CacheMark) -> list[JsonObject]:
    """Tools or blocks, the last one with the mark."""
    return [*items[:-1], mark.set_on(items[-1])] if items else items


def text_blocks(content: Any) -> list[JsonObject]:
    """A content as blocks; a blank text is none."""
    if isinstance(content, list):
        return [block for block in content if isinstance(block, dict)]
    return [{"type": "text", "text": content}] if isinstance(content, str) and content.strip() else []


def mark_messages(messages: Messages, mark: CacheMark, late: LateText | None) -> Messages:
    """The messages with a mark on the system messages that they begin with, and one where what stays of the
    conversation ends.

    That is before the late text; without one at the end of the newest user message; behind tool results,
    where those are the last. What stands before a late text that opens its message is marked at the end of
    the message before.
    """
    systems = _count_systems(messages, late)
    marked = _mark_before(messages, (systems, 0), mark, lowest=0)
    found = None if late is None else _find_late(marked, late)
    newest = found[0] if found else _newest_question(marked)
    if newest is None:
        return marked
    results = [at for at in range(newest + 1, len(marked)) if _is_result(marked[at])]
    if results:
        return _mark_before(marked, (results[-1] + 1, 0), mark, lowest=systems)
    if late is None or found is None:
        return _mark_before(marked, (newest + 1, 0), mark, lowest=systems)
    parted, end = _part_message(marked, found, late)
    return _mark_before(parted, end, mark, lowest=systems)


def _count_systems(messages: Messages, late: LateText | None) -> int:
    """How many system messages the conversation begins with; a late text is none of them."""
    for at, message in enumerate(messages):
        is_late = late is not None and late.start == 0 and message.get("content") == late.content
        if message.get("role") not in _SYSTEM or is_late:
            return at
    return len(messages)


def _find_late(messages: Messages, late: LateText) -> tuple[int, int, int] | None:
    """`(message, block, character)` where the late text begins; None: it is not there."""
    for at in range(len(messages) - 1, -1, -1):
        if messages[at].get("role") not in ("user", *_SYSTEM):
            continue
        for block, one in reversed(list(enumerate(text_blocks(messages[at]["content"])))):
            place = str(one.get("text", "")).rfind(late.content)
            if place >= 0:
                return at, block, place + late.start
    return None


def _part_message(
    messages: Messages, found: tuple[int, int, int], late: LateText
) -> tuple[Messages, tuple[int, int]]:
    """The block that holds the late text cut in two before it, and where the second one is; one that begins
    with it stays as it is."""
    at, block, place = found
    blocks = text_blocks(messages[at]["content"])
    steady, rest = blocks[block]["text"][:place], blocks[block]["text"][place:]
    if not steady.strip():
        return messages, (at, block)
    if late.start:
        rest = rest.removeprefix(_JOINT)
    halves = [{**blocks[block], "text": steady}, {"type": "text", "text": rest}]
    parted = {**messages[at], "content": [*blocks[:block], *halves, *blocks[block + 1 :]]}
    return [*messages[:at], parted, *messages[at + 1 :]], (at, block + 1)


def _newest_question(messages: Messages) -> int | None:
    for at in range(len(messages) - 1, -1, -1):
        if messages[at].get("role") == "user" and not _is_result(messages[at]):
            return at
    return None


def _is_result(message: Message) -> bool:
    """Whether it is nothing but results of tools, in either dialect."""
    if message.get("role") == "tool":
        return True
    blocks = text_blocks(message.get("content"))
    return bool(blocks) and all(block.get("type") == "tool_result" for block in blocks)


def _mark_before(messages: Messages, end: tuple[int, int], mark: CacheMark, *, lowest: int) -> Messages:
    """A mark on the nearest block that can have one: before block `end[1]` of message `end[0]`, back to
    message `lowest`. None can: no mark."""
    for at, block in _places_before(messages, end, lowest):
        blocks = text_blocks(messages[at]["content"])
        if mark.fits(messages[at], blocks[block]):
            content = [*blocks[:block], mark.set_on(blocks[block]), *blocks[block + 1 :]]
            return [*messages[:at], {**messages[at], "content": content}, *messages[at + 1 :]]
    return messages


def _places_before(messages: Messages, end: tuple[int, int], lowest: int) -> Iterator[tuple[int, int]]:
    """`(message, block)`, the nearest first."""
    yield from ((end[0], block) for block in range(end[1] - 1, -1, -1))
    for at in range(end[0] - 1, lowest - 1, -1):
        for block in range(len(text_blocks(messages[at]["content"])) - 1, -1, -1):
            yield at, block
