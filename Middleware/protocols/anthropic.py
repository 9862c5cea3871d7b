"""The Anthropic Messages protocol: messages, the model list in its form.

Source: spec more-fronts.md 2.5 to 2.9.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from json.encoder import encode_basestring
from typing import Any

from Middleware.common.instance_global_variables import launch_facts
from Middleware.common.types import JsonObject
from Middleware.protocols.base import (
    EVENT_STREAM,
    PROTOCOLS,
    AnswerFacts,
    ClientProtocol,
    ErrorReply,
    Framer,
    WholeAnswer,
    WireFormat,
    is_under,
    lost_part,
    sse,
)
from Middleware.protocols.patterns import MARK, halves
from Middleware.services.answers import (
    ToolCallCollector,
    arguments_object,
    cache_numbers,
    client_finish_reason,
    compact_json,
    usage_numbers,
    whole_openai_calls,
)

_VERSION_HEADER = "HTTP_ANTHROPIC_VERSION"
_SHARED_PATHS = ("/v1/models", "/models", "/v1/files", "/v1/organizations")
"""Paths that other protocols have too: those who send the version header mean this one."""

_STOP_REASONS = {
    "stop": "end_turn",
    "length": "max_tokens",
    "tool_calls": "tool_use",
    "content_filter": "refusal",
}
_ERROR_TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    405: "invalid_request_error",
    413: "request_too_large",
    415: "invalid_request_error",
    429: "rate_limit_error",
    503: "overloaded_error",
    504: "timeout_error",
}
_TOO_LONG = "prompt is too long: "
"""Agents look for these words, and compact their history."""


def _event(kind: str, **data: Any) -> str:
    """One event of the stream; `type` is the first key of its data."""
    return f"event: {kind}\n{sse(compact_json({'type': kind, **data}))}"


_PING = _event("ping")
_TEXT_BLOCK: JsonObject = {"type": "text", "text": ""}
_THINKING_BLOCK: JsonObject = {"type": "thinking", "thinking": "", "signature": ""}


def error_object(reply: ErrorReply) -> JsonObject:
    """The body of an error, and the data of the event that ends a stream that failed (2.7)."""
    said = _TOO_LONG + reply.message if reply.code == "context_length_exceeded" else reply.message
    kind = _ERROR_TYPES.get(reply.status, "api_error")
    return {"type": "error", "error": {"type": kind, "message": said}, "request_id": reply.request_id}


def _signature(facts: AnswerFacts) -> str:
    """Never empty: clients drop thinking blocks without one. Never checked when it comes back."""
    return f"hr-{facts.request_id}"


def _usage(usage: JsonObject | None, text: str) -> JsonObject:
    """The numbers of an answer (2.5). What was held or written to be held is no part of `input_tokens`."""
    told, cache = usage_numbers(usage, text), cache_numbers(usage)
    return {
        "input_tokens": max(0, told["prompt_tokens"] - sum(cache.values())),
        "cache_creation_input_tokens": cache.get("cache_write_tokens", 0),
        "cache_read_input_tokens": cache.get("cached_tokens", 0),
        "output_tokens": told["completion_tokens"],
    }


def _message(
    facts: AnswerFacts, content: list[JsonObject], stop_reason: str | None, usage: JsonObject
) -> JsonObject:
    return {
        "id": f"msg_{facts.request_id}",
        "type": "message",
        "role": "assistant",
        "model": facts.model,
        "content": content,
        "stop_reason": stop_reason,
        "stop_sequence": None,
        "usage": usage,
    }


def whole_message(answer: WholeAnswer, facts: AnswerFacts) -> JsonObject:
    """A whole answer (2.5). Its content is never empty: clients read the first block's text."""
    content: list[JsonObject] = []
    if answer.thinking:
        content.append({**_THINKING_BLOCK, "thinking": answer.thinking, "signature": _signature(facts)})
    uses = [use for call in answer.tool_calls if (use := _tool_use(call)) is not None]
    if answer.text or not uses:
        content.append({**_TEXT_BLOCK, "text": answer.text})
    content += uses
    usage = _usage(answer.usage, answer.thinking + answer.text)
    reason = client_finish_reason(answer.finish_reason, bool(uses))
    return _message(facts, content, _STOP_REASONS[reason], usage)


def _tool_use(call: JsonObject) -> JsonObject | None:
    """The block of a whole call; None when its arguments are no object."""
    function = call["function"]
    given = arguments_object(function["arguments"])
    made = {"type": "tool_use", "id": call["id"], "name": function["name"]}
    return None if given is None else {**made, "input": given}


class AnthropicFramer(Framer):
    """Events of one message: blocks one after the other, each begun, filled and stopped.

    While the block of a call is open, fragments of other calls wait: each of these goes out as a block of its
    own when the open one stops.
    """

    def __init__(self, facts: AnswerFacts) -> None:
        super().__init__(facts)
        self._index = 0
        self._open = ""
        """Kind of the open block, number `_index`; empty: none is open."""
        self._head = self._tail = ""
        self._answers = self._called = self._lost = False
        """Whether text or a call, and whether a call, has begun; whether a part of a call was lost."""
        self._streamed: Any = None
        """Key of the call whose block is open."""
        self._waiting: dict[Any, list[JsonObject]] = {}
        self._seen: set[Any] = set()

    def _opening(self, *, with_text: bool) -> list[str]:
        if self.started:
            return []
        self.started = True
        estimate = {"prompt_tokens": self.facts.prompt_estimate}
        message = _message(self.facts, [], None, _usage(estimate, ""))
        return [_event("message_start", message=message)]

    def heartbeat(self) -> str:
        return "".join([*self._opening(with_text=False), _PING])

    def text_unit(self, text: str) -> str:
        begun = "" if self._open == "text" else self._begin(_TEXT_BLOCK)
        return f"{begun}{self._head}{encode_basestring(text)}{self._tail}"

    def thinking_unit(self, thinking: str) -> str:
        begun = "" if self._open == "thinking" else self._begin(_THINKING_BLOCK)
        return f"{begun}{self._head}{encode_basestring(thinking)}{self._tail}"

    def _begin(self, block: JsonObject) -> str:
        """The events that stop what is open and begin a block."""
        events = self._close()
        kind = self._open = block["type"]
        self._answers = self._answers or kind != "thinking"
        if kind != "tool_use":
            self._head, self._tail = halves(self._delta(f"{kind}_delta", **{kind: MARK}))
        return events + _event("content_block_start", index=self._index, content_block=block)

    def _delta(self, kind: str, **more: str) -> str:
        return _event("content_block_delta", index=self._index, delta={"type": kind, **more})

    def _close(self, reason: str | None = None) -> str:
        """The events that stop the open block; the calls that waited for it follow. `reason`: of the end."""
        events = [self._stop()]
        waiting, self._waiting = self._waiting, {}
        for fragments in () if self.is_cut_off else waiting.values():
            collector = ToolCallCollector()
            collector.add(fragments)
            for call in collector.complete(reason):
                events += [self._call(call), self._stop()]
        return "".join(events)

    def _stop(self) -> str:
        if not self._open:
            return ""
        sign = self._open == "thinking"
        signed = self._delta("signature_delta", signature=_signature(self.facts)) if sign else ""
        stopped = _event("content_block_stop", index=self._index)
        self._index, self._open = self._index + 1, ""
        return signed + stopped

    def _tool_call_units(self, calls: list[JsonObject]) -> list[str]:
        self._called = True
        events = "".join([self._fragment(call) for call in calls if isinstance(call, dict)])
        return [*self._opening(with_text=False), events] if events else []

    def _fragment(self, call: JsonObject) -> str:
        """The events of one fragment; none while it has to wait."""
        key = call.get("index")
        if key is None:
            key = ("given", len(self._seen))
        if self._open == "tool_use" and key == self._streamed:
            return self._arguments(call)
        if key in self._seen and key not in self._waiting:
            late = _arguments_of(call).strip()
            self._lost = self._lost or late not in ("", "{}")  # a block without a delta says `{}`, too
            return ""
        self._seen.add(key)
        if self._open == "tool_use":
            self._waiting.setdefault(key, []).append(call)
            return ""
        self._streamed = key
        return self._call(call)

    def _call(self, call: JsonObject) -> str:
        """The block of a call, begun, with the arguments that are known."""
        whole = whole_openai_calls([call])[0]
        block = {"type": "tool_use", "id": whole["id"], "name": whole["function"]["name"], "input": {}}
        return self._begin(block) + self._arguments(call)

    def _arguments(self, call: JsonObject) -> str:
        text = _arguments_of(call)
        return self._delta("input_json_delta", partial_json=text) if text else ""

    def finish_units(self, finish_reason: str) -> list[str]:
        if self._lost and not self.is_cut_off:
            return self.error(lost_part(self.facts.request_id))
        events = self._close(finish_reason)
        if not self._answers:
            events += self._begin(_TEXT_BLOCK) + self._stop()
        return [*self._opening(with_text=True), events + self._message_delta(finish_reason)]

    def _message_delta(self, finish_reason: str) -> str:
        reason = _STOP_REASONS[client_finish_reason(finish_reason, self._called and not self.is_cut_off)]
        return _event(
            "message_delta",
            delta={"stop_reason": reason, "stop_sequence": None},
            usage=_usage(self._usage, self._written_text()),
            **self.facts.usage_beside(),
        )

    def end(self) -> list[str]:
        return [] if self._lost and not self.is_cut_off else [_event("message_stop")]

    def error(self, reply: ErrorReply) -> list[str]:
        return [f"event: error\n{sse(compact_json(error_object(reply)))}"]


def _arguments_of(call: JsonObject) -> str:
    """The argument text of a call or a fragment; empty when it has none."""
    function = call.get("function")
    given = function.get("arguments") if isinstance(function, dict) else None
    return "" if given is None else given if isinstance(given, str) else compact_json(given)


def _model(model_id: str) -> JsonObject:
    """One entry of the model list. `created_at` is the start of the process: clients cache on it."""
    started = datetime.fromtimestamp(launch_facts().started_at, UTC)
    created = started.strftime("%Y-%m-%dT%H:%M:%SZ")
    return {"type": "model", "id": model_id, "display_name": model_id, "created_at": created}


def _model_list(ids: list[str]) -> JsonObject:
    """Always one page."""
    first, last = (ids[0], ids[-1]) if ids else (None, None)
    return {"data": [_model(one) for one in ids], "has_more": False, "first_id": first, "last_id": last}


def _claims(path: str, headers: Mapping[str, str]) -> bool:
    return _VERSION_HEADER in headers and is_under(path, _SHARED_PATHS)


PROTOCOL = PROTOCOLS.add(
    ClientProtocol(
        "anthropic",
        error_object,
        {
            "anthropicmessages": WireFormat(
                AnthropicFramer,
                whole_message,
                sse,
                EVENT_STREAM,
                is_chat=True,
                gets_liveness_call=True,
                shows_progress=("reasoning",),
                front="Anthropic",
            )
        },
        roots=("/v1/messages", "/messages", "/v1/complete"),
        claims=_claims,
        id_prefixes=("msg_",),
        unsupported=("/v1/messages/batches", "/messages/batches", "/v1/complete", "/v1/organizations"),
        answer_headers=lambda request_id: {"request-id": request_id},
        model_list=_model_list,
        model_entry=_model,
    )
)
