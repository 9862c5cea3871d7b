"""A tool call that a client demands, got from a backend by a JSON Schema instead of native tools. Pure.

Source: spec backends.md 13.5; nodes.md 3.1 steps 4 and 5.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from Middleware.common.types import JsonObject
from Middleware.llmapis.reasoning_parser import reasoning_splitter
from Middleware.utilities.json_in_text import json_values, places_of_json
from Middleware.utilities.strict_json import object_of


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
    """The tool-call answer that `text` stands for; None when it is not what was demanded.

    The call may be in a code fence, between words or in a list, and behind thoughts; but it must be the only
    one: nobody knows which of two is meant.
    """
    answer = _behind_thoughts(text)
    for place in places_of_json(answer):
        if found := set(_calls_in(place, demand)):
            return _answer(*found.pop()) if len(found) == 1 else None
    return None


def _behind_thoughts(text: str) -> str:
    splitter = reasoning_splitter("auto")
    if splitter is None:
        return text
    return splitter.feed(text)[1] + splitter.finish()[1]


def _calls_in(text: str, demand: Demand) -> Iterator[tuple[str, str]]:
    """`(name, arguments as JSON text)` of each JSON object that is a call which counts."""
    for _, value, _ in json_values(text):
        for reply in value if isinstance(value, list) else (value,):
            name = reply.get("name") if isinstance(reply, dict) else None
            if isinstance(name, str) and name in demand.names:
                arguments = _object_text(reply.get("arguments"))
                if arguments is not None:
                    yield name, arguments


def _object_text(arguments: Any) -> str | None:
    """Arguments as the text of a JSON object; None for what is none. Some models write the text."""
    text = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
    value = object_of(text if text.strip() else "{}")
    return None if value is None else json.dumps(value, ensure_ascii=False)


def _answer(name: str, arguments: str) -> JsonObject:
    function = {"name": name, "arguments": arguments}
    call = {"id": f"wilmer-{uuid.uuid4().hex}", "type": "function", "function": function}
    return {"content": "", "tool_calls": [call], "finish_reason": "tool_calls"}
