"""The fields of a request body that are not messages: stream flag, tools, options of the answer. Pure.

Sampling fields are accepted in any type and never used: presets and workflows decide. Source: frontend-api.md
8.
"""

from __future__ import annotations

import json
from typing import Any

from Middleware.common.errors import ClientRequestError
from Middleware.common.types import JsonObject
from Middleware.utilities.strict_json import NoNumber, strict_loads

DEEPEST = 200
"""Levels of lists and objects in a body; no client sends a tenth of it."""

_WORDS = {"true": True, "false": False}
_HOLDERS = (dict, list)


def json_body(data: bytes) -> JsonObject:
    """The body as an object, whatever its content type says. Raises ClientRequestError."""
    if not data.strip():
        raise ClientRequestError("the body is empty; a JSON object is expected")
    try:
        body = strict_loads(data)
    except (ValueError, RecursionError) as error:
        raise ClientRequestError(f"the body is not JSON: {_short(error)}") from error
    if not isinstance(body, dict):
        raise ClientRequestError("the body must be a JSON object")
    if _is_too_deep(body):
        raise ClientRequestError(f"the body is nested more than {DEEPEST} levels deep")
    return body


def _is_too_deep(body: JsonObject) -> bool:
    """Whoever copies or writes a value recursively is safe behind this."""
    level: list[Any] = [body]
    for _ in range(DEEPEST):
        level = [
            value
            for holder in level
            for value in (holder.values() if isinstance(holder, dict) else holder)
            if isinstance(value, _HOLDERS)
        ]
        if not level:
            return False
    return True


def _short(error: Exception) -> str:
    if isinstance(error, json.JSONDecodeError):
        return f"{error.msg} at line {error.lineno}, column {error.colno}"
    if isinstance(error, UnicodeDecodeError):
        return f"it is not {error.encoding.upper()} text"
    if isinstance(error, NoNumber):
        return str(error)
    return (
        "it is nested too deeply"
        if isinstance(error, RecursionError)
        else "it holds a number that is too long"
    )


def wants_stream(body: JsonObject, default: bool) -> bool:
    """`stream`: booleans, `"true"`/`"false"` in any case, 0 and 1; anything else is the route's default."""
    value = body.get("stream")
    if isinstance(value, bool):
        return value
    if isinstance(value, str):
        return _WORDS.get(value.strip().lower(), default)
    return bool(value) if value in (0, 1) and isinstance(value, int | float) else default


def wants_usage(body: JsonObject) -> bool:
    """`stream_options.include_usage`."""
    options = body.get("stream_options")
    return isinstance(options, dict) and options.get("include_usage") is True


def suppresses_reasoning(body: JsonObject) -> bool:
    """`think: false` or `reasoning_effort: "none"`."""
    return body.get("think") is False or body.get("reasoning_effort") == "none"


def tools_of(body: JsonObject) -> tuple[list[JsonObject] | None, Any]:
    """(tools, tool choice); legacy `functions`, `function_call` are translated when `tools` is absent."""
    tools, choice = _objects(body.get("tools")), body.get("tool_choice")
    if tools is None and (functions := _objects(body.get("functions"))):
        tools = [{"type": "function", "function": function} for function in functions]
        choice = body.get("function_call")
        if isinstance(choice, dict):
            choice = {"type": "function", "function": choice}
    return tools, choice if isinstance(choice, str | dict) and choice else None


def _objects(value: Any) -> list[JsonObject] | None:
    """The objects of a list; None when there are none."""
    return ([item for item in value if isinstance(item, dict)] if isinstance(value, list) else []) or None
