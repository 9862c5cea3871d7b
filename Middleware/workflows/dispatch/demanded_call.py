"""A tool call that a client demands, got from a backend by a JSON Schema instead of native tools. Pure.

Source: spec backends.md 13.5; nodes.md 3.1 steps 4 and 5.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from Middleware.common.types import JsonObject
from Middleware.utilities.strict_json import strict_loads


@dataclass(frozen=True, slots=True)
class Demand:
    """`schema`: of the reply.

    `names`: the calls that count. `instruction`: what the system prompt says of it.
    """

    schema: JsonObject
    names: frozenset[str]
    instruction: str


def demand_of(tools: Sequence[Any], choice: Any) -> Demand | None:
    """The demand of a `tool_choice` (`"required"`, or a named function); None when nothing is demanded."""
    functions = [f for f in map(_function_of, tools) if f]
    if forced := _forced_name(choice):
        known = [f for f in functions if f["name"] == forced] or [{"name": forced}]
        return _demand(functions or known, known[:1])
    if choice == "required" and functions:
        return _demand(functions, functions)
    return None


def _function_of(tool: Any) -> JsonObject | None:
    function = tool.get("function") if isinstance(tool, Mapping) else None
    if isinstance(function, Mapping) and isinstance(function.get("name"), str) and function["name"]:
        return dict(function)
    return None


def _forced_name(choice: Any) -> str | None:
    if isinstance(choice, Mapping) and choice.get("type", "function") == "function":
        function = choice.get("function")
        name = function.get("name") if isinstance(function, Mapping) else None
        return name if isinstance(name, str) and name else None
    return None


def _demand(listed: Sequence[JsonObject], wanted: Sequence[JsonObject]) -> Demand:
    schemas = [_schema(function) for function in wanted]
    schema = schemas[0] if len(schemas) == 1 else {"anyOf": schemas}
    names = frozenset(function["name"] for function in wanted)
    return Demand(schema, names, _instruction(listed, wanted))


def _schema(function: JsonObject) -> JsonObject:
    parameters = function.get("parameters")
    arguments = parameters if isinstance(parameters, Mapping) and parameters else {"type": "object"}
    return {
        "type": "object",
        "properties": {"name": {"const": function["name"]}, "arguments": arguments},
        "required": ["name", "arguments"],
    }


def _instruction(listed: Sequence[JsonObject], wanted: Sequence[JsonObject]) -> str:
    lines = ["You can use these tools:"]
    for function in listed:
        lines.append(f"\nTool: {function['name']}")
        if function.get("description"):
            lines.append(f"What it does: {function['description']}")
        parameters = json.dumps(function.get("parameters") or {"type": "object"}, ensure_ascii=False)
        lines.append(f"JSON Schema of its arguments: {parameters}")
    names = ", ".join(f'"{function["name"]}"' for function in wanted)
    which = f"the tool {names}" if len(wanted) == 1 else f"exactly one of the tools {names}"
    lines.append(
        f"\nYou must call {which} now. Reply with one JSON object and nothing else, in this shape: "
        '{"name": <name of the tool>, "arguments": <object that fits its schema>}'
    )
    return "\n".join(lines)


def call_of(text: str, demand: Demand) -> JsonObject | None:
    """The tool-call answer that `text` stands for; None when it is not what was demanded."""
    try:
        reply = strict_loads(text.strip())
    except (ValueError, RecursionError):
        return None
    name = reply.get("name") if isinstance(reply, dict) else None
    if not isinstance(name, str) or name not in demand.names or not isinstance(reply.get("arguments"), dict):
        return None
    call = {
        "id": f"wilmer-{uuid.uuid4().hex}",
        "type": "function",
        "function": {
            "name": name,
            "arguments": json.dumps(reply["arguments"], ensure_ascii=False),
        },
    }
    return {"content": "", "tool_calls": [call], "finish_reason": "tool_calls"}
