"""The body of a Responses request -> messages and tools; items of the store -> items of an answer. Pure.

Anything that a client may send is understood, dropped with one warning that names its type, or refused with a
ClientRequestError that names the field. Source: spec more-fronts.md 3.2 to 3.4, frontend-api.md 7.
"""

from __future__ import annotations

import logging
from typing import Any

from Middleware.api.requests.chat_messages import flatten_content, internal_message, text_of, type_names
from Middleware.common.errors import ClientRequestError
from Middleware.common.types import JsonObject, Message, Messages
from Middleware.protocols.response_object import text_part
from Middleware.services.answers import compact_json

logger = logging.getLogger(__name__)

_CALLS = ("function_call", "custom_tool_call")
_RESULTS = ("function_call_output", "custom_tool_call_output")
_CHOICES = ("auto", "none", "required")
_FUNCTION_KEYS = ("name", "description", "parameters", "strict")
_ID_PREFIXES = {"message": "msg", "function_call": "fc", "function_call_output": "fco", "reasoning": "rs"}


def refuse_unsupported(body: JsonObject) -> None:
    """Raise ClientRequestError for what the server does not have and cannot leave out in silence."""
    asked = {"background": body.get("background") is True}
    asked |= {name: body.get(name) is not None for name in ("conversation", "prompt")}
    for name, is_asked in asked.items():
        if is_asked:
            raise ClientRequestError(
                f"'{name}' is not supported by this server", param=name, code="unsupported_parameter"
            )


def input_items(body: JsonObject) -> list[JsonObject]:
    """The items of `input`, checked: objects, each message with a text role. A text is one user message."""
    given = body.get("input")
    if isinstance(given, str):
        return [{"type": "message", "role": "user", "content": given}]
    if given is None and body.get("previous_response_id"):
        return []
    if not isinstance(given, list):
        found = "is required" if given is None else "must be a string or a list of items"
        raise ClientRequestError(f"'input' {found}", param="input")
    for number, item in enumerate(given):
        where = f"input[{number}]"
        if not isinstance(item, dict):
            raise ClientRequestError(f"{where} must be an object", param=where)
        if _kind(item) == "message" and not isinstance(item.get("role"), str):
            found = "must be a string" if "role" in item else "is missing"
            raise ClientRequestError(f"{where}.role {found}", param=f"{where}.role")
    return given


def _kind(item: JsonObject) -> str:
    """The item's type. Without one, an item with a role or a content is a message."""
    kind = item.get("type")
    if kind is None:
        return "message" if "role" in item or "content" in item else "none"
    return kind if isinstance(kind, str) else compact_json(kind)


def messages_of(instructions: Any, items: list[JsonObject]) -> Messages:
    """Checked items -> internal messages, the instructions first. What has no place is logged by its type."""
    conversation = _conversation(instructions, items)
    if conversation.dropped:
        logger.warning("items or parts of these types were dropped: %s", type_names(conversation.dropped))
    return conversation.messages


def task_messages_of(body: JsonObject) -> Messages:
    """The messages of a body that nobody has checked yet; none where it has another shape. Logs nothing."""
    try:
        return _conversation(body.get("instructions"), input_items(body)).messages
    except ClientRequestError:  # whoever reads the body will say so
        return []


def _conversation(instructions: Any, items: list[JsonObject]) -> _Conversation:
    conversation = _Conversation()
    if isinstance(instructions, str) and instructions.strip():
        conversation.messages.append({"role": "system", "content": instructions})
    for item in items:
        conversation.add(item)
    return conversation


class _Conversation:
    """Messages so far. Calls belong to the assistant's message before them, thoughts between them or not."""

    def __init__(self) -> None:
        self.messages: Messages = []
        self.dropped: set[str] = set()
        self._turn: Message | None = None
        self._names: dict[str, str] = {}

    def add(self, item: JsonObject) -> None:
        kind = _kind(item)
        if kind == "reasoning":
            return
        if kind in _CALLS:
            self._add_call(item, kind)
            return
        self._turn = None
        if kind == "message":
            message = internal_message(item, self.dropped)
            self.messages.append(message)
            self._turn = message if message["role"] == "assistant" else None
        elif kind in _RESULTS:
            self._add_result(item)
        else:
            self.dropped.add(kind)

    def _add_call(self, item: JsonObject, kind: str) -> None:
        if self._turn is None:
            self._turn = {"role": "assistant", "content": ""}
            self.messages.append(self._turn)
        call_id, name = text_of(item.get("call_id")), text_of(item.get("name"))
        given = item.get("arguments")
        arguments = (
            compact_json({"input": item.get("input")}) if kind == "custom_tool_call" else text_of(given)
        )
        self._names[call_id] = name
        call = {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}
        self._turn.setdefault("tool_calls", []).append(call)

    def _add_result(self, item: JsonObject) -> None:
        text, images = flatten_content(item.get("output"), self.dropped)
        call_id = text_of(item.get("call_id"))
        result: Message = {"role": "tool", "content": text, "tool_call_id": call_id}
        if name := self._names.get(call_id):
            result["name"] = name
        if images:
            result["images"] = images
        self.messages.append(result)


def function_tools(body: JsonObject) -> tuple[list[JsonObject] | None, Any]:
    """(tools, tool choice) in the form that workflows know; both None when no function is left."""
    given = body.get("tools")
    tools: list[JsonObject] = []
    dropped: set[str] = set()
    for tool in given if isinstance(given, list) else ():
        function = _function(tool)
        if function is None:
            dropped.add(text_of(tool.get("type")) if isinstance(tool, dict) else "none")
        else:
            tools.append({"type": "function", "function": function})
    if dropped:
        logger.warning("tools of these types were left out: %s", type_names(dropped))
    choice = body.get("tool_choice")
    if isinstance(choice, dict) and choice.get("type") == "allowed_tools":
        allowed = _names(choice.get("tools"))
        tools, choice = [one for one in tools if one["function"]["name"] in allowed], choice.get("mode")
    return (tools, _choice(choice)) if tools else (None, None)


def _function(tool: Any) -> JsonObject | None:
    """The function of a tool, flat or nested, without its null values; None for another tool."""
    if not isinstance(tool, dict) or tool.get("type") != "function":
        return None
    nested = tool.get("function")
    stated = nested if isinstance(nested, dict) else tool
    if not isinstance(stated.get("name"), str) or not stated["name"]:
        return None
    return {name: stated[name] for name in _FUNCTION_KEYS if stated.get(name) is not None}


def _names(tools: Any) -> set[str]:
    """The names in a list of functions."""
    made = (_function(tool) for tool in tools) if isinstance(tools, list) else ()
    return {function["name"] for function in made if function is not None}


def _choice(choice: Any) -> Any:
    if isinstance(choice, str):
        return choice if choice in _CHOICES else None
    function = _function(choice)
    return None if function is None else {"type": "function", "function": {"name": function["name"]}}


def listed_items(items: list[JsonObject], request_id: str) -> list[JsonObject]:
    """The items of a request as a list of them shows them: in the form that the official types want.

    Each has an `id`; what was sent stays."""
    return [_listed_item(item, f"{request_id}_in_{number}") for number, item in enumerate(items)]


def _listed_item(item: JsonObject, name: str) -> JsonObject:
    kind, made = _kind(item), dict(item)
    if not isinstance(item.get("id"), str) or not item["id"]:
        made["id"] = f"{_ID_PREFIXES.get(kind, 'item')}_{name}"
    if kind in ("message", *_CALLS, *_RESULTS):
        made.setdefault("status", "completed")
    if kind == "message":
        made["type"] = kind
        if not isinstance(item.get("content"), list):
            text, own = text_of(item.get("content")), item["role"].strip().lower() == "assistant"
            made["content"] = [text_part(text) if own else {"type": "input_text", "text": text}]
    return made
