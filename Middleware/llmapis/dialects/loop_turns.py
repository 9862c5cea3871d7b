"""What came beside the text of a model's turn and goes back with that turn in an agent's loop.

A loop's turns are messages with one more key, `beside`: the thoughts of the turn, in the fields they came in.
Turns of a conversation never have it. Knows no loop. Source: spec agents.md 3.4, backends.md 10 and 12.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from Middleware.common.types import JsonObject, Message, Messages
from Middleware.config.endpoints import EndpointConfig

BESIDE = "beside"
TEXT_FIELDS = ("reasoning_content", "reasoning", "thinking")
LIST_FIELD = "reasoning_details"
THOUGHT_FIELDS = (*TEXT_FIELDS, LIST_FIELD)
"""Fields of a message that hold thoughts (`thinking`: Ollama's)."""

_PIECES = frozenset(("text", "summary", "data"))
"""What of a part of `reasoning_details` comes in pieces."""


class ThoughtFields:
    """The thoughts of one answer, field by field, as they come."""

    def __init__(self) -> None:
        self._texts: dict[str, list[str]] = {}
        self._parts: list[JsonObject] = []

    def note(self, message: Mapping[str, Any]) -> None:
        """A delta, or a whole message."""
        for name in TEXT_FIELDS:
            value = message.get(name)
            if isinstance(value, str) and value:
                self._texts.setdefault(name, []).append(value)
        parts = message.get(LIST_FIELD)
        for part in parts if isinstance(parts, list) else ():
            if isinstance(part, Mapping):
                self._add_part(part)

    def _add_part(self, part: Mapping[str, Any]) -> None:
        """A part of `reasoning_details`: a piece of one that has begun, or another one."""
        last = self._parts[-1] if self._parts else None
        if last is None or part.get("index") is None or not _same_part(last, part):
            self._parts.append(dict(part))
            return
        for key, value in part.items():
            if key in _PIECES and isinstance(value, str) and isinstance(last.get(key), str):
                last[key] += value
            elif value is not None:
                last[key] = value

    def fields(self) -> JsonObject:
        """`{field: thoughts}`; empty: the model thought nothing that a field held."""
        fields: JsonObject = {name: "".join(pieces) for name, pieces in self._texts.items()}
        if self._parts:
            fields[LIST_FIELD] = self._parts
        return fields


def _same_part(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    return all(one.get(key) == other.get(key) for key in ("index", "type"))


def thoughts_beside(message: Mapping[str, Any]) -> JsonObject | None:
    """The thoughts of a whole message, as `ThoughtFields.fields`; None: there are none."""
    found = ThoughtFields()
    found.note(message)
    return found.fields() or None


def wire_turns(turns: Sequence[Message], wire_keys: Iterable[str], endpoint: EndpointConfig) -> Messages:
    """The turns of a loop as they are sent: with the thoughts of each. Once one turn has a field, all of the
    model's have it, empty where it thought nothing. `endpoint`: one that refuses thoughts gets none.
    """
    fields: JsonObject = {}
    if not refusing_thoughts.holds(endpoint):
        fields = {name: [] if name == LIST_FIELD else "" for turn in turns for name in turn.get(BESIDE) or ()}
    kept = frozenset(wire_keys)
    sent: Messages = []
    for turn in turns:
        message = {key: value for key, value in turn.items() if key in kept}
        if fields and turn["role"] == "assistant":
            message.update(fields)
            message.update(turn.get(BESIDE) or {})
        sent.append(message)
    return sent


MOST_MARKS = 1000
"""More, and all is learnt anew: clients can send ever other things."""


class MarkedEndpoints:
    """Endpoints of which one thing was learnt, by address and model, until the process ends. Thread-safe.

    What may be the fault of what one client sent is learnt of that alone (`sent`: what it is known by).
    """

    def __init__(self) -> None:
        self._known: set[tuple[str, str, str]] = set()
        self._guard = threading.Lock()

    def mark(self, endpoint: EndpointConfig, sent: str = "") -> bool:
        """True the first time."""
        mark = (endpoint.url, endpoint.model, sent)
        with self._guard:
            if mark in self._known:
                return False
            if len(self._known) >= MOST_MARKS:
                self._known.clear()
            self._known.add(mark)
            return True

    def holds(self, endpoint: EndpointConfig, sent: str = "") -> bool:
        return any((endpoint.url, endpoint.model, of) in self._known for of in ("", sent))

    def forget_all(self) -> None:
        """As in a new process."""
        with self._guard:
            self._known.clear()


refusing_thoughts = MarkedEndpoints()
"""Those that have refused a turn with thoughts, and taken it without."""


def without_thoughts(payload: JsonObject, refused: str) -> JsonObject | None:
    """What to send to an endpoint that refuses a field with thoughts; None when it refuses something else.
    `refused`: the server's words.
    """
    messages = payload.get("messages")
    if not isinstance(messages, list):
        return None
    sent = {name for message in messages for name in THOUGHT_FIELDS if name in message}
    if not any(re.search(rf"\b{name}\b", refused) for name in sent):
        return None
    bare = [{key: value for key, value in m.items() if key not in THOUGHT_FIELDS} for m in messages]
    return {**payload, "messages": bare}
