"""The KoboldCpp protocol: one text in, one text out, whole or as named events.

Neither thoughts nor tool calls have a place in it. Source: spec more-fronts.md 4.3, 4.4 and 4.6.
"""

from __future__ import annotations

from json.encoder import encode_basestring

from Middleware.common.types import JsonObject
from Middleware.protocols.base import (
    EVENT_STREAM,
    PROTOCOLS,
    AnswerFacts,
    ClientProtocol,
    ErrorReply,
    TextFramer,
    WholeAnswer,
    WireFormat,
    sse,
)
from Middleware.services.answers import compact_json, usage_numbers

_TYPES = {
    400: "bad_input",
    401: "unauthorized",
    404: "not_found",
    429: "too_many_requests",
    503: "service_unavailable",
}


def message_event(data: str) -> str:
    return f"event: message\n{sse(data)}"


def error_object(reply: ErrorReply) -> JsonObject:
    """The body of an error (4.6)."""
    return {"detail": {"msg": reply.message, "type": _TYPES.get(reply.status, "server_error")}}


def _reason(finish_reason: str) -> str:
    return "length" if finish_reason == "length" else "stop"


class KoboldFramer(TextFramer):
    """`{"token", "finish_reason"}` in events of the name `message`; no end mark."""

    def text_unit(self, text: str) -> str:
        return message_event(f'{{"token":{encode_basestring(text)},"finish_reason":null}}')

    def finish_units(self, finish_reason: str) -> list[str]:
        return [message_event(compact_json({"token": "", "finish_reason": _reason(finish_reason)}))]

    def error(self, reply: ErrorReply) -> list[str]:
        body = error_object(reply)
        shown = {"message": reply.message, "type": body["detail"]["type"]}  # what SillyTavern reads
        return [f"event: error\n{sse(compact_json({**body, 'error': shown}))}"]


def whole_body(answer: WholeAnswer, facts: AnswerFacts) -> JsonObject:
    """The JSON of a whole answer (4.3)."""
    usage = usage_numbers(answer.usage, answer.text + answer.thinking)
    result = {
        "text": answer.text,
        "finish_reason": _reason(answer.finish_reason),
        "prompt_tokens": usage["prompt_tokens"],
        "completion_tokens": usage["completion_tokens"],
    }
    return {"results": [result]}


PROTOCOL = PROTOCOLS.add(
    ClientProtocol(
        "koboldcpp",
        error_object,
        {"koboldgenerate": WireFormat(KoboldFramer, whole_body, sse, EVENT_STREAM, front="KoboldCpp")},
        roots=("/api/v1", "/api/latest", "/api/extra"),
        unsupported=(
            "/api/extra/data",
            "/api/extra/embeddings",
            "/api/extra/last_logprobs",
            "/api/extra/multiplayer",
            "/api/extra/preloadstory",
            "/api/extra/shape",
            "/api/extra/speakers_list",
            "/api/extra/transcribe",
            "/api/extra/tts",
            "/api/extra/websearch",
            "/api/v1/config/soft_prompt",
            "/api/v1/config/soft_prompts_list",
            "/api/v1/world_info",
        ),
    )
)
