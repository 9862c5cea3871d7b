"""Tool calls in a conversation that are the liveness machinery's own, and calls that are repeated. Pure.

Neither the list nor its messages are changed in place; what is malformed counts as genuine.
Source: spec frontend-api.md 9.1, 9.2 and workflows.md 13.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from Middleware.common.types import Message, Messages

LIVENESS_PREFIX = "wilmer_liveness_"
MARKER = "[Wilmer]"
_FILLERS = ("", "Assistant:")


def without_machinery(messages: Messages, liveness: Mapping[str, Any]) -> Messages:
    """The conversation without machinery, but for a trailing exchange that is: the model sees it once."""
    tail = _trailing_exchange(messages)
    if tail < len(messages) and not any(is_machinery(call, liveness) for call in _calls(messages[tail])):
        tail = len(messages)
    return [*_strip_tool_turns(messages[:tail], liveness), *messages[tail:]]


def is_machinery(call: Any, liveness: Mapping[str, Any]) -> bool:
    """`liveness`: `{"toolName": str, "arguments": object}`, as the user's settings hold it."""
    function = call.get("function") if isinstance(call, dict) else None
    if not isinstance(function, dict):
        return False
    if str(call.get("id") or "").startswith(LIVENESS_PREFIX):
        return True
    arguments = function.get("arguments")
    text = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
    if MARKER in text:
        return True
    wanted = dict(liveness.get("arguments") or {})
    return bool(function.get("name") == liveness["toolName"] and _as_object(arguments) == wanted)


def _as_object(arguments: Any) -> Any:
    if arguments is None or (isinstance(arguments, str) and not arguments.strip()):
        return {}
    if not isinstance(arguments, str):
        return arguments
    try:
        return json.loads(arguments)
    except (ValueError, RecursionError):
        return arguments


def _calls(message: Message) -> list[Any]:
    calls = message.get("tool_calls")
    return calls if message["role"] == "assistant" and isinstance(calls, list) else []


def _is_filler(message: Message) -> bool:
    return message["role"] == "assistant" and not _calls(message) and message["content"].strip() in _FILLERS


def _trailing_exchange(messages: Messages) -> int:
    """Index of the last assistant turn with calls, if only results and fillers follow; else the length."""
    for index in range(len(messages) - 1, -1, -1):
        message = messages[index]
        if _calls(message):
            return index
        if message["role"] != "tool" and not _is_filler(message):
            break
    return len(messages)


def _strip_tool_turns(messages: Messages, liveness: Mapping[str, Any]) -> Messages:
    kept: Messages = []
    gone: set[Any] = set()
    unnamed = 0  # results without an id that still belong to a turn that was all machinery
    for message in messages:
        calls = _calls(message)
        if message["role"] == "tool":
            given = message.get("tool_call_id")
            if given in gone:
                continue
            if not given and unnamed:
                unnamed -= 1
                continue
            kept.append(message)
            continue
        machinery = [call for call in calls if is_machinery(call, liveness)]
        gone.update(call["id"] for call in machinery if isinstance(call.get("id"), str) and call["id"])
        unnamed = len(machinery) if machinery and len(machinery) == len(calls) else 0
        if not machinery:
            kept.append(message)
        elif turn := _without_calls(message, machinery):
            kept.append(turn)
    return kept


def _without_calls(message: Message, machinery: list[Any]) -> Message | None:
    """The turn without these calls; None when nothing is left of it."""
    left = [call for call in message["tool_calls"] if not any(call is gone for gone in machinery)]
    if left:
        return {**message, "tool_calls": left}
    if message["content"].strip() in _FILLERS:
        return None
    return {key: value for key, value in message.items() if key != "tool_calls"}


def collapse_repeats(messages: Messages) -> Messages:
    """Three or more identical exchanges in a row become the first; its result says how often."""
    made: Messages = []
    index = 0
    while index < len(messages):
        exchange = _exchange(messages, index)
        if exchange is None:
            made.append(messages[index])
            index += 1
            continue
        count = 1
        while _exchange(messages, index + 2 * count) == exchange:
            count += 1
        if count < 3:
            made += messages[index : index + 2 * count]
        else:
            made += [messages[index], _note_count(messages[index + 1], count)]
        index += 2 * count
    return made


def _exchange(messages: Messages, index: int) -> tuple[Any, str, str] | None:
    """(name, arguments, result) of one call and its one result that begin here; None when none does."""
    if index + 1 >= len(messages) or messages[index + 1]["role"] != "tool":
        return None
    if index + 2 < len(messages) and messages[index + 2]["role"] == "tool":
        return None
    calls = _calls(messages[index])
    function = calls[0].get("function") if len(calls) == 1 and isinstance(calls[0], dict) else None
    if not isinstance(function, dict):
        return None
    arguments = json.dumps(_as_object(function.get("arguments")), sort_keys=True, ensure_ascii=False)
    return function.get("name"), arguments, " ".join(messages[index + 1]["content"].split())


def _note_count(result: Message, count: int) -> Message:
    note = (
        f"[Wilmer note: this call was made {count} times in a row with the same result. "
        "Repeating it will not help; try something else or answer with what is known.]"
    )
    return {**result, "content": f"{result['content']}\n\n{note}"}
