"""Tool turns of any client made whole: every call has an id, every result names the id of its call. Pure.

Ollama's clients may know no ids: their results name the tool, or nothing at all, and follow their calls.
Source: spec frontend-api.md 7 and 18; backends.md 9.1, 9.6."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from Middleware.common.types import JsonObject, Message, Messages
from Middleware.llmapis.dialects.event_mapping import arguments_text


def made_id(message: int, call: int) -> str:
    """The id of a call that came without one: the same at each request, so that prompts can be cached."""
    return f"toolcall_{message}_{call}"


@dataclass(frozen=True, slots=True)
class _Open:
    """A call that no result has answered yet. `made`: its id was made here, so its client knows no ids."""

    id: str
    name: str
    made: bool


def linked(messages: Messages) -> Messages:
    """Messages whose calls and results belong together by id. What has its id stays as it is."""
    turned: Messages = []
    waiting: list[_Open] = []
    for at, message in enumerate(messages):
        calls = message.get("tool_calls")
        if isinstance(calls, list):
            waiting = [
                _Open(str(call.get("id") or made_id(at, number)), name_of(call), not call.get("id"))
                for number, call in enumerate(calls)
                if isinstance(call, Mapping)
            ]
            named = [_with_id(call, at, number) for number, call in enumerate(calls)]
            message = {**message, "tool_calls": named}
        elif message.get("role") == "tool":
            message = _answering(message, waiting)
        turned.append(message)
    return turned


NO_RESULT = "no result"


def with_all_results(messages: Messages) -> Messages:
    """Linked messages in which every call has a result: a tool that failed or was stopped gave none.

    The missing ones, marked `is_error`, stand behind the results that follow the call directly."""
    missing = _unanswered(messages)
    turned: Messages = []
    waiting: Messages = []
    for at, message in enumerate(messages):
        if message.get("role") != "tool":
            turned += waiting
            waiting = []
        turned.append(message)
        waiting += missing.get(at, [])
    return turned + waiting


def _unanswered(messages: Messages) -> dict[int, Messages]:
    """Index of a message -> results for its calls that have none behind it (before the id is used again)."""
    missing: dict[int, Messages] = {}
    behind: set[Any] = set()
    for at in range(len(messages) - 1, -1, -1):
        message = messages[at]
        if message.get("role") == "tool":
            behind.add(message.get("tool_call_id"))
        elif message.get("role") == "assistant" and isinstance(message.get("tool_calls"), list):
            ids = [call["id"] for call in message["tool_calls"] if isinstance(call, Mapping)]
            missing[at] = [
                {"role": "tool", "tool_call_id": call_id, "content": NO_RESULT, "is_error": True}
                for call_id in ids
                if call_id not in behind
            ]
            behind.difference_update(ids)
    return missing


def openai_calls(messages: Messages) -> Messages:
    """Linked messages whose calls are in OpenAI's form: `type`, and arguments as text."""
    return [
        {**message, "tool_calls": [_openai_call(call) for call in calls if isinstance(call, Mapping)]}
        if isinstance(calls := message.get("tool_calls"), list)
        else message
        for message in linked(messages)
    ]


def name_of(call: Mapping[str, Any]) -> str:
    """The tool that a call is for."""
    function = call.get("function")
    return str(function.get("name") or "") if isinstance(function, Mapping) else ""


def _with_id(call: Any, at: int, number: int) -> Any:
    if not isinstance(call, Mapping) or call.get("id"):
        return call
    return {**call, "id": made_id(at, number)}


def _answering(message: Message, waiting: list[_Open]) -> Message:
    """A result with the id of its call: its own, else that of the first open call of its name, else (where
    the client knows no ids) that of the first open call."""
    own, name = message.get("tool_call_id"), message.get("name")
    ranks = (
        [call for call in waiting if call.id == own],
        [] if own else [call for call in waiting if call.name == name],
        [] if own else [call for call in waiting if call.made or name],
    )
    found = next((rank[0] for rank in ranks if rank), None)
    if found is None:
        return message
    waiting.remove(found)
    return message if own else {**message, "tool_call_id": found.id}


def _openai_call(call: Mapping[str, Any]) -> JsonObject:
    function = call.get("function")
    function = dict(function) if isinstance(function, Mapping) else {"name": ""}
    if not isinstance(function.get("arguments"), str):
        function["arguments"] = arguments_text(function.get("arguments")) or "{}"
        function.pop("index", None)
    return {**call, "type": call.get("type") or "function", "function": function}
