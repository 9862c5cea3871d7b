"""The Responses protocol of OpenAI: how a response is streamed. What it holds stands in `response_object.py`.

A stream is a list of items; each item has events of its own and its place in the list. Every event has a
number. Source: spec more-fronts.md 3.6 and 3.9.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from json.encoder import encode_basestring
from typing import Any

from Middleware.common.types import JsonObject
from Middleware.protocols.base import (
    EVENT_STREAM,
    PROTOCOLS,
    AnswerFacts,
    ClientProtocol,
    ErrorReply,
    Framer,
    WireFormat,
    lost_part,
    sse,
)
from Middleware.protocols.openai import error_object
from Middleware.protocols.patterns import MARK, halves
from Middleware.protocols.response_object import (
    call_item,
    ending_of,
    message_item,
    reasoning_item,
    response_object,
    summary_part,
    text_part,
    usage_object,
    whole_response,
)
from Middleware.services.answers import client_finish_reason, compact_json

IN_PROGRESS_S = 15.0
"""So long no event need come before the first item: Codex counts events, not comments."""

_IN_PROGRESS = "response.in_progress"


class _Numbered:
    """Events of one stream, numbered from 0 without a gap."""

    def __init__(self) -> None:
        self._next = 0

    def event(self, kind: str, data: JsonObject) -> str:
        """One event. `data` is never empty."""
        return self.frame_event(kind, f"{compact_json(data)[1:]}\n\n")

    def frame_event(self, kind: str, rest: str) -> str:
        """The same from the text that follows the number."""
        number = self._next
        self._next += 1
        return f'event: {kind}\ndata: {{"type":"{kind}","sequence_number":{number},{rest}'


@dataclass(frozen=True, slots=True)
class _Speech:
    """Names of an item that is written piece by piece.

    `text`, `part`: beginnings of the names of their events; `place`: of the part within the item; `more`:
    what each event of the text has at its end; `made(id, status, parts)`: the item; `part_of`: its part.
    """

    prefix: str
    text: str
    part: str
    place: str
    more: JsonObject
    made: Callable[[str, str, list[JsonObject]], JsonObject]
    part_of: Callable[[str], JsonObject]


_TEXT = _Speech(
    "msg",
    "response.output_text",
    "response.content_part",
    "content_index",
    {"logprobs": []},
    message_item,
    text_part,
)
_THOUGHTS = _Speech(
    "rs",
    "response.reasoning_summary_text",
    "response.reasoning_summary_part",
    "summary_index",
    {},
    lambda item_id, _status, parts: reasoning_item(item_id, parts),
    summary_part,
)


class _OpenSpeech:
    """An item of text or thoughts that is being written. `index`: its place in the output."""

    def __init__(self, kind: _Speech, index: int, facts: AnswerFacts, events: _Numbered) -> None:
        self.kind, self.index, self._events = kind, index, events
        self._id = f"{kind.prefix}_{facts.request_id}_{index}"
        self._where = {"item_id": self._id, "output_index": index, kind.place: 0}
        self._texts: list[str] = []
        self._delta = f"{kind.text}.delta"
        pattern = compact_json({**self._where, "delta": MARK, **kind.more})[1:]
        self._head, self._tail = halves(f"{pattern}\n\n")

    def begin_events(self) -> str:
        item, part = self.kind.made(self._id, "in_progress", []), self.kind.part_of("")
        return self._events.event(
            "response.output_item.added", {"output_index": self.index, "item": item}
        ) + self._events.event(f"{self.kind.part}.added", {**self._where, "part": part})

    def delta(self, text: str) -> str:
        self._texts.append(text)
        return self._events.frame_event(self._delta, f"{self._head}{encode_basestring(text)}{self._tail}")

    def end_item(self, status: str) -> tuple[JsonObject, str]:
        """(the item, the events that end it)"""
        kind, text = self.kind, "".join(self._texts)
        part = kind.part_of(text)
        item = kind.made(self._id, status, [part])
        one = self._events.event
        events = [
            one(f"{kind.text}.done", {**self._where, "text": text, **kind.more}),
            one(f"{kind.part}.done", {**self._where, "part": part}),
            one("response.output_item.done", {"output_index": self.index, "item": item}),
        ]
        return item, "".join(events)


class _OpenCall:
    """A function call whose arguments are being written. `index`: its place in the output."""

    def __init__(self, index: int, call_id: str, facts: AnswerFacts, events: _Numbered) -> None:
        self.index, self._call_id, self._events = index, call_id, events
        self._id = f"fc_{facts.request_id}_{index}"
        self._where = {"item_id": self._id, "output_index": index}
        self._name = ""
        self._arguments: list[str] = []

    @property
    def has_arguments(self) -> bool:
        return bool(self._arguments)

    def begin_events(self, name: str) -> str:
        self._name = name
        item = call_item(self._id, "in_progress", self._call_id, {"name": name, "arguments": ""})
        return self._events.event("response.output_item.added", {"output_index": self.index, "item": item})

    def delta(self, name: str, arguments: Any) -> str:
        """A name overwrites, text is appended; what is no text goes as JSON."""
        self._name = name or self._name
        text = arguments if isinstance(arguments, str) else compact_json(arguments)
        if arguments is None or not text:
            return ""
        self._arguments.append(text)
        return self._events.event("response.function_call_arguments.delta", {**self._where, "delta": text})

    def end_item(self, status: str) -> tuple[JsonObject, str]:
        """(the item, the events that end it)"""
        function = {"name": self._name, "arguments": "".join(self._arguments)}
        item = call_item(self._id, status, self._call_id, function)
        events = self._events.event("response.function_call_arguments.done", {**self._where, **function})
        return item, events + self._events.event(
            "response.output_item.done", {"output_index": self.index, "item": item}
        )


class ResponsesFramer(Framer):
    """Text and thoughts are open one at a time, calls side by side; what follows of another kind ends them.

    The events that one batch gives are one unit.
    """

    def __init__(self, facts: AnswerFacts) -> None:
        super().__init__(facts)
        self._events = _Numbered()
        self._opened_at: float | None = None
        """Monotonic seconds of the last event before the first item; None: no event yet."""
        self._output: list[JsonObject | None] = []
        """The items that are done, each at its place; None while one is open."""
        self._speech: _OpenSpeech | None = None
        self._calls: dict[Any, _OpenCall] = {}
        self._called: set[Any] = set()
        """Marks of all calls, those that are done among them."""
        self._lost = False
        """Whether a piece of a call came when the call was done."""

    def text_unit(self, text: str) -> str:
        return self._frame_speech(_TEXT, text)

    def thinking_unit(self, thinking: str) -> str:
        return self._frame_speech(_THOUGHTS, thinking)

    def _frame_speech(self, kind: _Speech, text: str) -> str:
        speech = self._speech
        if speech is not None and speech.kind is kind:
            return speech.delta(text)
        opening = self._open_response() + self._close_items("completed")
        speech, begun = self._begin_speech(kind)
        return opening + begun + speech.delta(text)

    def _begin_speech(self, kind: _Speech) -> tuple[_OpenSpeech, str]:
        self._speech = speech = _OpenSpeech(kind, len(self._output), self.facts, self._events)
        self._output.append(None)
        return speech, speech.begin_events()

    def _tool_call_units(self, calls: list[JsonObject]) -> list[str]:
        opening = self._open_response() + self._closed_speech("completed")
        unit = opening + "".join(self._fragment(part) for part in calls if isinstance(part, dict))
        return [unit] if unit else []

    def _fragment(self, fragment: JsonObject) -> str:
        """A piece of a call, by its index; one without an index is a call of its own."""
        mark, begun = fragment.get("index"), ""
        mark = ("given", len(self._called)) if mark is None else mark
        function = fragment.get("function")
        function = function if isinstance(function, dict) else {}
        name = function.get("name") or ""
        if mark not in self._called:
            call_id = fragment.get("id") or f"call_{uuid.uuid4().hex[:24]}"
            self._calls[mark] = call = _OpenCall(len(self._output), call_id, self.facts, self._events)
            self._called.add(mark)
            self._output.append(None)
            begun = call.begin_events(name)
        if mark not in self._calls:
            self._lost = self._lost or bool(str(function.get("arguments") or "").strip())
            return ""
        return begun + self._calls[mark].delta(name, function.get("arguments"))

    def _closed_speech(self, status: str) -> str:
        if self._speech is None:
            return ""
        speech, self._speech = self._speech, None
        self._output[speech.index], events = speech.end_item(status)
        return events

    def _close_items(self, status: str, *, at_end: bool = False) -> str:
        """The events that end the open items; in the middle of an answer not calls that have no arguments
        yet."""
        events = [self._closed_speech(status)]
        for mark, call in list(self._calls.items()):
            if call.has_arguments or at_end:
                self._output[call.index], ended = call.end_item("incomplete" if self.is_cut_off else status)
                events.append(ended)
                del self._calls[mark]
        return "".join(events)

    def finish_units(self, finish_reason: str) -> list[str]:
        if self._lost and not self.is_cut_off:
            return self.error(lost_part(self.facts.request_id))
        status, ending = ending_of(client_finish_reason(finish_reason, bool(self._called)))
        events = [self._open_response()]
        if not (self._texts or self._called):  # clients read the first message of an answer
            events += [self._close_items("completed"), self._begin_speech(_TEXT)[1]]
        events.append(self._close_items(status, at_end=True))
        usage = usage_object(self.answer(finish_reason))
        response = response_object(self.facts, status, self._done_items(), {**ending, "usage": usage})
        if self.facts.done is not None:
            self.facts.done(response)
        told = {**response, **self.facts.usage_beside()}  # what nobody keeps stands in the event alone
        events.append(self._events.event(f"response.{status}", {"response": told}))
        return ["".join(events)]

    def _done_items(self) -> list[JsonObject]:
        return [item for item in self._output if item is not None]

    def heartbeat(self) -> str:
        """Opens the stream. Later a comment, or an event where clients wait for one.

        Never an event `in_progress` after an item was added: clients take its empty output as the state.
        """
        if self._opened_at is None:
            return self._open_response()
        now = time.monotonic()
        if self._output or now - self._opened_at < IN_PROGRESS_S:
            return ":\n\n"
        self._opened_at = now
        return self._events.event(_IN_PROGRESS, {"response": self._running()})

    def _open_response(self) -> str:
        """The events before all others, once."""
        if self._opened_at is not None:
            return ""
        self._opened_at = time.monotonic()
        response = {"response": self._running()}
        return self._events.event("response.created", response) + self._events.event(_IN_PROGRESS, response)

    def _running(self) -> JsonObject:
        return response_object(self.facts, "in_progress", [])

    def end(self) -> list[str]:
        """The last event is the end mark."""
        return []

    def error(self, reply: ErrorReply) -> list[str]:
        error = {"code": error_code(reply), "message": reply.message}
        response = response_object(self.facts, "failed", self._done_items(), {"error": error})
        return [self._open_response() + self._events.event("response.failed", {"response": response})]


def error_code(reply: ErrorReply) -> str:
    """The `code` of a response that failed. Codex repeats what is no `invalid_prompt`."""
    if reply.code == "context_length_exceeded":
        return "context_length_exceeded"
    return {429: "rate_limit_exceeded", 400: "invalid_prompt"}.get(reply.status, "server_error")


PROTOCOL = PROTOCOLS.add(
    ClientProtocol(
        "responses",
        error_object,
        {
            "openairesponses": WireFormat(
                ResponsesFramer,
                whole_response,
                sse,
                EVENT_STREAM,
                is_chat=True,
                gets_liveness_call=True,
                shows_progress=("reasoning",),
                front="Responses",
            )
        },
        roots=("/v1/responses", "/responses"),
        id_prefixes=("resp_",),
        unsupported=("/v1/responses/compact", "/responses/compact"),
    )
)
