"""What the Claude messages API takes: systems apart, tool turns as blocks, roles in turn. Pure.

Source: spec backends.md 9.6.
"""

from __future__ import annotations

import json
import re
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from Middleware.common.types import JsonObject, Message, Messages
from Middleware.llmapis.dialects.event_mapping import arguments_object, whole_arguments
from Middleware.llmapis.dialects.image_injection import claude_image, content_parts, with_images
from Middleware.llmapis.dialects.tool_turns import NO_RESULT, TurnRules
from Middleware.utilities.hashing_utils import sha256_hex

FIRST_USER_TEXT = "..."
"""The user turn before a conversation that the assistant begins."""

CONTINUE_REQUEST = (
    "Continue your answer from exactly where the following text ends. "
    "Do not repeat any of it and write nothing before the continuation:\n\n"
)
"""Stands before the prefill where a model does not take one."""

CLAUDE_TURNS = TurnRules({"content": NO_RESULT, "is_error": True}, re.compile("[^A-Za-z0-9_-]"))
"""Source: the API's reference, `tool_use` and `tool_result`."""

Blocks = list[JsonObject]
ThoughtsOf = Callable[[JsonObject], Blocks]
"""`tool_use` block -> the signed thinking blocks that came with the call, `[]` when none are known."""


def split_system(messages: Messages) -> tuple[str, Messages]:
    """`(system, rest)`: all system messages joined with a blank line, and the others in their order."""
    systems = [_text_of(message["content"]) for message in messages if message.get("role") == "system"]
    rest = [message for message in messages if message.get("role") != "system"]
    return "\n\n".join(text for text in systems if text.strip()), rest


def claude_messages(messages: Messages, thoughts_of: ThoughtsOf) -> Messages:
    """Messages without system turns, tool turns whole, as the API takes them; the first is of the user."""
    turned = [
        _claude_turn(message, thoughts_of)
        for message in with_images(messages, content_parts(claude_image, images_first=True))
    ]
    merged: Messages = []
    for message in turned:
        if not _blocks(message["content"]):
            continue
        if merged and merged[-1]["role"] == message["role"]:
            merged[-1] = {**merged[-1], "content": _merge_contents(merged[-1]["content"], message["content"])}
        else:
            merged.append(message)
    if merged and merged[0]["role"] != "user":
        merged.insert(0, {"role": "user", "content": FIRST_USER_TEXT})
    last = merged[-1] if merged else None
    if last and last["role"] == "assistant" and isinstance(last["content"], str):
        merged[-1] = {**last, "content": last["content"].rstrip()}
    return merged


def has_prefill(messages: Messages) -> bool:
    """Whether the last message is an assistant's text that the model shall go on with."""
    return bool(messages) and messages[-1]["role"] == "assistant" and isinstance(messages[-1]["content"], str)


def without_prefill(messages: Messages) -> Messages:
    """The prefill moved into a last user turn that asks to continue from it."""
    *before, last = messages
    request = {"role": "user", "content": CONTINUE_REQUEST + last["content"]}
    if before and before[-1]["role"] == "user":
        return [
            *before[:-1],
            {**before[-1], "content": _merge_contents(before[-1]["content"], request["content"])},
        ]
    return [*before, request]


def holds_tool_blocks(messages: Messages) -> bool:
    """Whether any turn calls a tool or answers one."""
    return any(
        block.get("type") in ("tool_use", "tool_result")
        for message in messages
        if isinstance(message["content"], list)
        for block in message["content"]
        if isinstance(block, Mapping)
    )


def claude_tools(tools: list[JsonObject]) -> list[JsonObject]:
    """OpenAI tools in Claude's form; what is no function tool passes unchanged."""
    return [_claude_tool(tool) for tool in tools]


def claude_tool_choice(choice: Any) -> JsonObject | None:
    """Claude's `tool_choice`; None: leave it out. (`"none"` is the caller's matter.)"""
    if isinstance(choice, str):
        kind = {"auto": "auto", "required": "any"}.get(choice)
        return {"type": kind} if kind else None
    function = choice.get("function") if isinstance(choice, Mapping) else None
    name = function.get("name") if isinstance(function, Mapping) else None
    return {"type": "tool", "name": name} if name else None


def _claude_tool(tool: JsonObject) -> JsonObject:
    function = tool.get("function")
    if not isinstance(function, Mapping):
        return tool
    return {
        "name": function.get("name") or "",
        "description": function.get("description") or "",
        "input_schema": function.get("parameters") or {"type": "object", "properties": {}},
    }


def _claude_turn(message: Message, thoughts_of: ThoughtsOf) -> Message:
    if message.get("role") == "tool":
        result = {
            "type": "tool_result",
            "tool_use_id": message["tool_call_id"],
            **({"is_error": True} if message.get("is_error") is True else {}),
            "content": message["content"],
        }
        return {"role": "user", "content": [result]}
    calls = message.get("tool_calls")
    turn = {"role": message.get("role"), "content": message["content"]}
    if not calls:
        return turn
    uses = [_tool_use(call) for call in calls]
    thoughts = next((found for use in uses if (found := thoughts_of(use))), [])
    return {**turn, "content": [*thoughts, *_blocks(message["content"]), *uses]}


def _tool_use(call: Mapping[str, Any]) -> JsonObject:
    function = call["function"]
    return {
        "type": "tool_use",
        "id": call["id"],
        "name": function["name"],
        "input": arguments_object(function["arguments"]),
    }


def _merge_contents(first: str | Blocks, second: str | Blocks) -> str | Blocks:
    """Two contents of one turn; tool results stand before all that is no result."""
    if isinstance(first, str) and isinstance(second, str):
        return f"{first}\n\n{second}"
    before, after = _blocks(first), _blocks(second)
    results = [block for block in after if block.get("type") == "tool_result"]
    others = [block for block in after if block.get("type") != "tool_result"]
    place = next((i for i, block in enumerate(before) if block.get("type") != "tool_result"), len(before))
    return before[:place] + results + before[place:] + others


def _blocks(content: Any) -> Blocks:
    if isinstance(content, list):
        return [block for block in content if isinstance(block, dict) and not _is_blank_text(block)]
    text = _text_of(content)
    return [{"type": "text", "text": text}] if text.strip() else []


def _is_blank_text(block: JsonObject) -> bool:
    return block.get("type") == "text" and not str(block.get("text") or "").strip()


def _text_of(content: Any) -> str:
    if isinstance(content, list):
        return "".join(str(part.get("text") or "") for part in content if isinstance(part, Mapping))
    return str(content)


# --------------------------------------------------------------------------
# Signed thinking blocks, kept for an hour so that a tool turn can be sent back as Claude said it.


KEPT_FOR_S = 3600.0
MOST_CALLS = 2000


class ThinkingOwner(NamedTuple):
    """Whose thoughts they are: what one was told is put into no other's prompt. `asker`: `Asker.owner`."""

    asker: str
    user: str
    endpoint: str


_Place = tuple[ThinkingOwner, str, str]


def _arguments_key(arguments: Any) -> str:
    """What the arguments of a call are known by, however a client writes their JSON: by the value. What is no
    object counts as none.
    """
    try:
        value = json.loads(whole_arguments(arguments), parse_float=_number)
        text = json.dumps(value if isinstance(value, dict) else {}, sort_keys=True)
    except (ValueError, RecursionError):
        text = "{}"
    return sha256_hex(text)


def _number(text: str) -> float:
    """JavaScript writes 1 for 1.0."""
    number = float(text)
    return int(number) if number.is_integer() else number


class ThinkingReplay:
    """`(owner, tool call)` -> thinking blocks. Thread-safe; the oldest goes when there are too many.

    A call is its id and its arguments: some servers count their calls, so one id is in many chats.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._kept: OrderedDict[_Place, tuple[float, list[JsonObject]]] = OrderedDict()

    def keep(self, owner: ThinkingOwner, calls: Iterable[tuple[str, Any]], blocks: list[JsonObject]) -> None:
        """Remember `blocks` for each of the calls (id and arguments); nothing is kept when there are no
        blocks."""
        if not blocks:
            return
        until = self._clock() + KEPT_FOR_S
        places = [(owner, call_id, _arguments_key(arguments)) for call_id, arguments in calls]
        with self._lock:
            for place in places:
                self._kept[place] = (until, blocks)
                self._kept.move_to_end(place)
            while self._kept and (len(self._kept) > MOST_CALLS or self._oldest_is_over()):
                self._kept.popitem(last=False)

    def of(self, owner: ThinkingOwner, call_id: str, arguments: Any) -> list[JsonObject]:
        """The blocks that came with a call; `[]` when none are known any more."""
        place = owner, call_id, _arguments_key(arguments)
        with self._lock:
            until, blocks = self._kept.get(place, (0.0, []))
        return blocks if until > self._clock() else []

    def _oldest_is_over(self) -> bool:
        until, _ = next(iter(self._kept.values()))
        return until <= self._clock()


thinking_replay = ThinkingReplay()
"""The process's own."""
