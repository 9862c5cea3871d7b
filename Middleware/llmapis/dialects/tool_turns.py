"""Tool turns of any client made whole, so that no API refuses a chat for ever. Pure.

One pass over a history, before a dialect puts it into its own form: every call has an id of its own and
exactly one result, directly behind its turn; no result is without its call. Ollama's clients may know no ids:
their results name the tool, or nothing at all, and follow their calls.
Source: spec backends.md 13.5a; frontend-api.md 7 and 18."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from Middleware.common.types import JsonObject, Message, Messages
from Middleware.llmapis.dialects.event_mapping import whole_arguments

NO_RESULT = "no result"
NO_NAME = "unknown"
"""Of a call that names no tool: an empty name is refused."""


@dataclass(frozen=True, slots=True)
class TurnRules:
    """What a dialect asks of tool turns. `missing`: the result of a call that has none (its tool failed or
    was stopped). `odd_in_id`: characters that no id may hold; they become `_`. None: all may."""

    missing: Mapping[str, Any] = field(default_factory=lambda: {"content": NO_RESULT})
    odd_in_id: re.Pattern[str] | None = None


COMMON_RULES = TurnRules()


def repair_turns(messages: Messages, rules: TurnRules = COMMON_RULES) -> Messages:
    """The history with whole tool turns; calls are in OpenAI's form, their arguments are never blank.

    Results that follow their turn stay in their order; late ones move up behind them, in the order of the
    calls. Of several of one call the first counts; a call without one gets `rules.missing`; a result without
    its call becomes a text of the user. The messages stay as they are."""
    if not _has_tool_turns(messages):
        return list(messages)
    links = _Links(rules)
    turns: list[tuple[Message, list[_Call]]] = []
    for at, message in enumerate(messages):
        if message.get("role") != "tool":
            turns.append(links.turn(message, at))
        elif (orphan := links.answer(message)) is not None:
            turns.append((orphan, []))
    whole: Messages = []
    for message, calls in turns:
        whole.append(message)
        for call in sorted(calls, key=lambda call: (call.place is None, call.place or 0)):
            result = {"role": "tool", **rules.missing} if call.result is None else call.result
            whole.append({**result, "tool_call_id": call.id})
    return whole


def _has_tool_turns(messages: Messages) -> bool:
    return any("tool_calls" in message or message.get("role") == "tool" for message in messages)


@dataclass(slots=True, eq=False)
class _Call:
    """`given`: the id that the client knows it by; empty: its client knows none. `id`: the one that is sent.
    `turn`: the number of its turn."""

    given: str
    id: str
    name: str
    turn: int
    result: Message | None = None
    place: int | None = None
    """Of the result, among those that follow the turn directly; None: it comes late, or never."""


class _Links:
    """Which result belongs to which call, message by message: what came later changes no id."""

    def __init__(self, rules: TurnRules) -> None:
        self._odd = rules.odd_in_id
        self._taken: dict[str, int] = {}
        """Id that was sent -> how many calls wanted it."""
        self._open: dict[str, list[_Call]] = {}
        """Id that a client knows -> its calls without a result, oldest first."""
        self._newest: list[_Call] = []
        self._turns = 0
        self._followed: int | None = None
        """How many results follow the newest turn so far; None: something else came behind it."""

    def turn(self, message: Message, at: int) -> tuple[Message, list[_Call]]:
        """A message that is no result, and the calls that it makes."""
        self._followed = None
        if "tool_calls" not in message:
            return message, []
        called = message["tool_calls"] if message.get("role") == "assistant" else None
        numbered = enumerate(called if isinstance(called, list) else ())
        calls = [(call, f"toolcall_{at}_{number}") for number, call in numbered if isinstance(call, Mapping)]
        if not calls:
            return {key: value for key, value in message.items() if key != "tool_calls"}, []
        self._turns += 1
        self._followed = 0
        self._newest = [self._call(call, place) for call, place in calls]
        sent = [_openai_form(call, link) for (call, _), link in zip(calls, self._newest, strict=True)]
        return {**message, "tool_calls": sent}, self._newest

    def answer(self, result: Message) -> Message | None:
        """Give a result to its call. One whose call is nowhere before it: the message that it becomes."""
        own = str(result.get("tool_call_id") or "")
        call = self._newest_open(own) if own in self._open else self._by_name_or_place(result, own)
        if call is not None:
            call.result = result
            if self._followed is not None and call.turn == self._turns:
                call.place = self._followed = self._followed + 1
            if call.given:
                self._open[call.given].remove(call)
            return None
        return None if own in self._open else _as_text(result)

    def _call(self, call: Mapping[str, Any], place: str) -> _Call:
        """`place`: its id when it has none; the same at each request, so that prompts are cached."""
        given = str(call.get("id") or "")
        made = _Call(given, self._unique(given or place), name_of(call) or NO_NAME, self._turns)
        if given:
            self._open.setdefault(given, []).append(made)
        return made

    def _unique(self, wanted: str) -> str:
        wanted = unique = self._odd.sub("_", wanted) if self._odd else wanted
        while unique in self._taken:
            self._taken[wanted] += 1
            unique = f"{wanted}-{self._taken[wanted]}"
        self._taken[unique] = 1
        return unique

    def _newest_open(self, given: str) -> _Call | None:
        """Of the calls with this id that wait, the first of the newest turn."""
        waiting = self._open[given]
        at = len(waiting) - 1
        while at > 0 and waiting[at - 1].turn == waiting[at].turn:
            at -= 1
        return waiting[at] if waiting else None

    def _by_name_or_place(self, result: Message, own: str) -> _Call | None:
        """A result whose id says nothing belongs to the turn before it: by its tool's name, else in order.
        One with an id of its own is of no call whose id its client knows."""
        waiting = [call for call in self._newest if call.result is None and not (own and call.given)]
        name = result.get("name")
        in_order = waiting[0] if waiting and not (own and name) else None
        return next((call for call in waiting if call.name == name), in_order)


def name_of(call: Mapping[str, Any]) -> str:
    """The tool that a call is for."""
    function = call.get("function")
    return str(function.get("name") or "") if isinstance(function, Mapping) else ""


def _openai_form(call: Mapping[str, Any], link: _Call) -> JsonObject:
    given = call.get("function")
    function = dict(given) if isinstance(given, Mapping) else {}
    function.pop("index", None)  # Ollama's
    function |= {"name": link.name, "arguments": whole_arguments(function.get("arguments"))}
    return {**call, "id": link.id, "type": call.get("type") or "function", "function": function}


def _as_text(result: Message) -> Message:
    content = result.get("content")
    if isinstance(content, list):
        content = "\n".join(str(part.get("text") or "") for part in content if isinstance(part, Mapping))
    name = result.get("name")
    images = {"images": result["images"]} if result.get("images") else {}
    said = f"Tool result ({name}): {content}" if name else f"Tool result: {content}"
    return {"role": "user", "content": said, **images}
