"""Tools for a model that cannot call them: described in its prompt, called by a JSON object in its reply.

Pure: text in, text out. Source: spec agents.md 4, `json`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from Middleware.utilities.model_json import json_values, read_value
from Middleware.workflows.agents.agent_tool import AgentTool
from Middleware.workflows.agents.text_calls import THINK_TAGS, Follower, OutsideThoughts, TextCall

KEY = "tool"
ARGUMENTS = "arguments"
_NO_TOOL = frozenset(["", "none", "null"])

DESCRIPTION = """\
You can use these tools:

{tools}

To use a tool, reply with this JSON object and nothing else:
{{"tool": "NAME", "arguments": {{...}}}}
NAME is the name of one tool, and the arguments fit its schema. Use one tool at a time; you then get its \
result.
When you need no tool, or have what you need, {otherwise}."""
ANSWER = "answer in plain words"
SAY_NONE = 'reply with {"tool": null}'


# --------------------------------------------------------------------------
# What the model is told.


def describe_tools(tools: Sequence[AgentTool], *, bound: bool = False) -> str:
    """What stands at the end of the system prompt. Empty without tools. `bound`: the reply is held to
    `reply_schema`, so the model cannot answer at once.
    """
    if not tools:
        return ""
    listed = "\n\n".join(map(_described, tools))
    return DESCRIPTION.format(tools=listed, otherwise=SAY_NONE if bound else ANSWER)


def _described(tool: AgentTool) -> str:
    """The schema stands before the words, the call behind them: so a model of 135M copies the name of a file
    from the question (by its own odds at temperature 0.2: 0.99; with the words first 0.82 to 0.93).
    """
    schema = json.dumps(tool.parameters, ensure_ascii=False)
    call = json.dumps({KEY: tool.name, ARGUMENTS: _least_arguments(tool.parameters)}, ensure_ascii=False)
    words = f"{tool.description.strip()}\n" if tool.description.strip() else ""
    return f"{tool.name}, schema of its arguments: {schema}\n{words}To use it: {call}"


_STAND_INS: dict[str, Any] = {"integer": 1, "number": 1, "boolean": True, "array": [], "object": {}}


def _least_arguments(schema: dict[str, Any]) -> dict[str, Any]:
    """Those that are needed, a text as its name in angle brackets.

    Measured with a model of 135M: without such a call it also gives arguments that exclude each other, and
    with dots for a text it makes one up.
    """
    known, needed = schema.get("properties"), schema.get("required")
    if not isinstance(known, dict) or not isinstance(needed, list):
        return {}
    kinds = {
        name: part.get("type") for name, part in known.items() if name in needed and isinstance(part, dict)
    }
    return {name: _STAND_INS.get(str(kind), f"<{name}>") for name, kind in kinds.items()}


def reply_schema(tools: Sequence[AgentTool]) -> dict[str, Any]:
    """JSON Schema of a step's reply: a call of one of the tools, or `{"tool": null}`."""
    calls = [_call_schema({"const": tool.name}, _bound_schema(tool.parameters)) for tool in tools]
    return {"anyOf": [*calls, _call_schema({"type": "null"}, None)]}


def _call_schema(tool: dict[str, Any], arguments: dict[str, Any] | None) -> dict[str, Any]:
    properties = {KEY: tool} if arguments is None else {KEY: tool, ARGUMENTS: arguments}
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def _bound_schema(parameters: dict[str, Any]) -> dict[str, Any]:
    """A schema with `$ref` counts as an object: its definitions would stand in another place."""
    return {"type": "object"} if _has_reference(parameters) else {"type": "object", **parameters}


def _has_reference(schema: Any) -> bool:
    if isinstance(schema, dict):
        return any(word in ("$ref", "$dynamicRef") or _has_reference(v) for word, v in schema.items())
    return isinstance(schema, list) and any(map(_has_reference, schema))


def result_turn(name: str, result: str) -> str:
    """The text of the user's message that gives a result."""
    return f"Result of {name}:\n{result}"


def results_prompt(results: Sequence[tuple[str, str]], question: str) -> str:
    """The text of the newest user message in the last call: each result (name, text) of a call that was made,
    once, then the question.
    """
    told = dict.fromkeys(result_turn(name, text) for name, text in results)
    return "".join(f"{each}\n\n" for each in told) + question


# --------------------------------------------------------------------------
# What the model replied.


@dataclass(frozen=True, slots=True)
class JsonReply:
    """What a reply came to. `rest`: text that was held and may be shown now.

    `call`: None without one. `is_null`: the model wants no tool (the last call follows). Neither: the reply
    was the answer.
    """

    rest: str = ""
    call: TextCall | None = None
    is_null: bool = False


class JsonReplyReader:
    """Reads one reply as it comes; any cut of it gives the same. `think_tags`: what stands between them is no
    call.
    """

    def __init__(self, think_tags: Sequence[tuple[str, str]] = THINK_TAGS) -> None:
        self._outside = OutsideThoughts(_ReplyPart, think_tags)

    def feed(self, text: str) -> str:
        """What of the text so far may be shown now."""
        return self._outside.feed(text)

    def finish(self) -> JsonReply:
        """What the reply came to."""
        head = self._outside.finish()
        reply = self._outside.reader.finish()
        return JsonReply(head + reply.rest, reply.call, reply.is_null)


_BEGIN = re.compile(r"[{`]")
_BLANKS = " \t\r\n"
_NAME = re.compile(r"""\{\s*+["']tool["']\s*+:\s*+["']([^"'\n]{1,200})["']""")
_MENTION = re.compile(r"""["']tool["']""")


class _ReplyPart:
    """Reads what stands outside of thoughts. Held are a `{` whose first key is, or may become, `tool`, and a
    fence before it; from such a key on everything.
    """

    def __init__(self) -> None:
        self._follower: Follower | None = None
        self._held: list[str] = []
        self._shown: list[str] = []
        self._is_call = False

    def feed(self, text: str) -> str:
        before = len(self._shown)
        parts = [(text, 0)]
        while parts:
            self._read(*parts.pop(), parts)
        return "".join(self._shown[before:])

    def drop(self) -> str:
        held, self._held, self._follower = "".join(self._held), [], None
        return held

    def finish(self) -> JsonReply:
        if self._has_begun():
            held = "".join(self._held)
            return _reply_of(held, held)
        rest = self.drop()
        whole = "".join((*self._shown, rest))
        return _reply_of(whole, rest) if _MENTION.search(whole) else JsonReply(rest)

    def _has_begun(self) -> bool:
        """Whether a call is being written: all that comes is held."""
        return self._is_call

    def _read(self, text: str, start: int, parts: list[tuple[str, int]]) -> None:
        """`parts`: gets what is to be read next, the first of it last."""
        if self._has_begun():
            self._held.append(text[start:])
            return
        if self._follower is None:
            begin = _BEGIN.search(text, start)
            at = begin.start() if begin else len(text)
            self._shown.append(text[start:at])
            if begin is None:
                return
            self._follower, start = self._follow(), at
            next(self._follower)
        for at in range(start, len(text)):
            try:
                self._follower.send(text[at])
            except StopIteration:
                self._held.append(text[start:at])
                parts.append((text, at))
                held = self.drop()
                self._shown.append(held[:1])
                parts.append((held, 1))
                return
            if self._has_begun():
                break
        self._held.append(text[start:])

    def _follow(self) -> Follower:
        """Ends at the first character with which no call can begin; never once one has begun."""
        sign = yield
        if sign == "`":
            for _ in range(2):
                if (yield) != "`":
                    return
            while (sign := (yield)).isalnum() or sign in "_+- \t\r":
                continue
            while sign in _BLANKS:
                sign = yield
            if sign != "{":
                return
        while (sign := (yield)) in _BLANKS:
            continue
        if sign not in ("'", '"'):
            return
        for expected in (*KEY, sign):
            if (yield) != expected:
                return
        while (sign := (yield)) in _BLANKS:
            continue
        if sign == ":":
            self._is_call = True
            yield


def _reply_of(text: str, rest: str) -> JsonReply:
    """What the first object with the key `tool` in a text means. `rest`: what is shown if none does."""
    for _, value, _ in json_values(text, lambda reply, start: read_value(reply, start, python=True)):
        if isinstance(value, dict) and KEY in value:
            shown = "" if rest == text else rest
            return replace(_meaning_of(value), rest=shown)
    broken = _NAME.search(text)
    if broken is not None and rest == text:
        return JsonReply(call=TextCall(broken[1], text[broken.start() :]))
    return JsonReply(rest)


def _meaning_of(value: dict[str, Any]) -> JsonReply:
    named = value[KEY]
    if isinstance(named, dict):
        value, named = {**named, KEY: None}, named.get("name")
        value.pop("name", None)
    if named is None or (isinstance(named, str) and named.strip().lower() in _NO_TOOL):
        return JsonReply(is_null=True)
    given = value.get(ARGUMENTS, {}) if ARGUMENTS in value else {k: v for k, v in value.items() if k != KEY}
    text = given if isinstance(given, str) else json.dumps(given or {}, ensure_ascii=False)
    return JsonReply(call=TextCall(str(named), text))
