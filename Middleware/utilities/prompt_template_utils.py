"""Wraps messages in a prompt template for backends that take one flat text. Pure.

A template is the object of a PromptTemplate file; a key that is missing is `""`. Source: backends.md 5, 14.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

from Middleware.common.types import JsonObject, Message, Messages

Template = Mapping[str, str]

_MARKS = re.compile(r"\[Beg_(?:Sys|User|Assistant|SysMes)\]")


def affixes(template: Template, role: str) -> tuple[str, str]:
    """Prefix and suffix of a role: `tool` -> `promptTemplateToolPrefix`, `promptTemplateToolSuffix`."""
    name = role.capitalize()
    return template.get(f"promptTemplate{name}Prefix", ""), template.get(f"promptTemplate{name}Suffix", "")


def strip_marks(text: str) -> str:
    """`text` without `[Beg_Sys]`, `[Beg_User]`, `[Beg_Assistant]`, `[Beg_SysMes]`, wherever they stand."""
    return _MARKS.sub("", text) if "[Beg_" in text else text


def wrap(text: str, template: Template, role: str) -> str:
    """`text` between the role's prefix and suffix."""
    prefix, suffix = affixes(template, role)
    return f"{prefix}{text}{suffix}"


def format_messages(messages: Messages, template: Template) -> str:
    """The turns without separator; a last assistant turn is left open (no suffix). Marks stay."""
    turns = [wrap(message["content"], template, message["role"]) for message in messages]
    if messages and messages[-1]["role"] == "assistant":
        turns[-1] = affixes(template, "assistant")[0] + messages[-1]["content"]
    return "".join(turns)


def user_turn(text: str, template: Template) -> str:
    return wrap(text, template, "user")


def system_turn(text: str, template: Template, *, strict: bool = False) -> str:
    """The system turn; an empty text is wrapped too, unless `strict`. Source: backends.md 14.1, 14.3."""
    return "" if strict and not text else wrap(text, template, "system")


def open_assistant_turn(template: Template) -> str:
    """What makes the model answer: assistant prefix, then the end token. Source: backends.md 14.1 step 4."""
    return affixes(template, "assistant")[0] + template.get("promptTemplateEndToken", "")


def with_tool_text(messages: Iterable[Message]) -> Messages:
    """Copies in which tool calls and results are text, for `strictPromptTemplate`. Source: backends.md 14.3.

    A call becomes a line `[Tool Call: name] args` after the content, a result `[Tool Result: name] text`.
    """
    names: dict[str, str] = {}
    shown = []
    for message in messages:
        content = message["content"]
        if calls := message.get("tool_calls"):
            names |= {call["id"]: call_name(call) for call in calls if call.get("id")}
            lines = [f"[Tool Call: {call_name(call)}] {arguments_text(call)}".rstrip() for call in calls]
            content = "\n".join([content, *lines] if content else lines)
        elif message["role"] == "tool":
            name = names.get(message.get("tool_call_id", "")) or message.get("name") or "unknown_tool"
            content = f"[Tool Result: {name}] {content}"
        shown.append({**message, "content": content})
    return shown


def call_name(call: JsonObject) -> str:
    """Function name of a tool call, `unknown` if it has none."""
    return str(call_function(call).get("name") or "unknown")


def arguments_text(call: JsonObject) -> str:
    """Arguments of a tool call as they came, an object as JSON text, nothing as `""`."""
    arguments = call_function(call).get("arguments")
    if arguments is None:
        return ""
    return arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)


def call_function(call: JsonObject) -> Mapping[str, Any]:
    """The `function` object of a tool call, empty if there is none."""
    function = call.get("function")
    return function if isinstance(function, Mapping) else {}
