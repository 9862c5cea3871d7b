"""The table of client protocols: how each frames a stream, a whole answer, an error.

A front end adds its own with `WIRE_FORMATS.add`. `build_response_json` and `sse_format` are the faces for
code that knows only the current request. Never looks at HTTP. Source: spec frontend-api.md 1, 10 and 11.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from Middleware.common.request_context import current_request
from Middleware.common.types import JsonObject
from Middleware.protocols.framing import (
    Framer,
    OllamaChatFramer,
    OllamaGenerateFramer,
    OpenAIChatFramer,
    OpenAITextFramer,
    encoded,
    error_object,
    ndjson,
    sse,
)
from Middleware.services.answers import AnswerCollector, AnswerFacts, WholeAnswer, compact_json, ollama_calls
from Middleware.services.response_builder_service import ResponseBuilderService

__all__ = [
    "WIRE_FORMATS",
    "AnswerCollector",
    "AnswerFacts",
    "Framer",
    "WholeAnswer",
    "WireFormat",
    "build_response_json",
    "encoded",
    "error_object",
    "ndjson_format",
    "sse_format",
]

_builder = ResponseBuilderService()


@dataclass(frozen=True, slots=True)
class WireFormat:
    """One protocol of one route.

    `framer(facts)`: frames a stream. `whole(answer, facts)`: the JSON body. `chunk(token, finish_reason,
    facts, tool_calls)`: one chunk as a dict. `frame(json)`: one unit. `error(message, type, param, code)`:
    the JSON body of a failure. `mimetype`: of the stream. `pause_s`: the least time between two writes.
    """

    framer: Callable[[AnswerFacts], Framer]
    whole: Callable[[WholeAnswer, AnswerFacts], JsonObject]
    chunk: Callable[[str, str | None, AnswerFacts, list[JsonObject] | None], JsonObject]
    frame: Callable[[str], str]
    error: Callable[[str, str, str | None, str | int | None], JsonObject]
    mimetype: str
    pause_s: float = 0.0


class WireFormats(dict[str, WireFormat]):
    """API type -> WireFormat."""

    def add(self, api_type: str, wire_format: WireFormat) -> None:
        """Raises ValueError for a name that is taken."""
        if api_type in self:
            raise ValueError(f"wire format {api_type!r} is registered twice")
        self[api_type] = wire_format


def _openai_chat_chunk(
    token: str, finish: str | None, facts: AnswerFacts, calls: list[JsonObject] | None
) -> JsonObject:
    delta: JsonObject = {"content": token} if token else {}
    if calls:
        delta["tool_calls"] = calls
    return _builder.build_openai_chat_completion_chunk(delta, finish, facts)


def _openai_text_chunk(
    token: str, finish: str | None, facts: AnswerFacts, calls: list[JsonObject] | None
) -> JsonObject:
    return _builder.build_openai_completion_chunk(token, finish, facts)


def _ollama_chat_chunk(
    token: str, finish: str | None, facts: AnswerFacts, calls: list[JsonObject] | None
) -> JsonObject:
    message: JsonObject = {"content": token, **({"tool_calls": ollama_calls(calls)} if calls else {})}
    return _ended(_builder.build_ollama_chat_chunk(message, facts), finish)


def _ollama_generate_chunk(
    token: str, finish: str | None, facts: AnswerFacts, calls: list[JsonObject] | None
) -> JsonObject:
    return _ended(_builder.build_ollama_generate_chunk(token, facts), finish)


def _ended(chunk: JsonObject, finish: str | None) -> JsonObject:
    return chunk if finish is None else {**chunk, "done": True, "done_reason": finish}


def _ollama_error(message: str, kind: str, param: str | None, code: str | int | None) -> JsonObject:
    return {"error": message}


_SSE = "text/event-stream; charset=utf-8"
_NDJSON = "application/x-ndjson"
OLLAMA_PAUSE_S = 0.005
"""Ollama clients read one write as one object: two writes back to back would reach them together (11.1)."""

WIRE_FORMATS = WireFormats()
WIRE_FORMATS.add(
    "openaichatcompletion",
    WireFormat(
        OpenAIChatFramer,
        _builder.build_openai_chat_completion_response,
        _openai_chat_chunk,
        sse,
        error_object,
        _SSE,
    ),
)
WIRE_FORMATS.add(
    "openaicompletion",
    WireFormat(
        OpenAITextFramer,
        _builder.build_openai_completion_response,
        _openai_text_chunk,
        sse,
        error_object,
        _SSE,
    ),
)
WIRE_FORMATS.add(
    "ollamaapichat",
    WireFormat(
        OllamaChatFramer,
        _builder.build_ollama_chat_response,
        _ollama_chat_chunk,
        ndjson,
        _ollama_error,
        _NDJSON,
        OLLAMA_PAUSE_S,
    ),
)
WIRE_FORMATS.add(
    "ollamagenerate",
    WireFormat(
        OllamaGenerateFramer,
        _builder.build_ollama_generate_response,
        _ollama_generate_chunk,
        ndjson,
        _ollama_error,
        _NDJSON,
        OLLAMA_PAUSE_S,
    ),
)


def build_response_json(
    token: str,
    finish_reason: str | None = None,
    additional_fields: dict[str, Any] | None = None,
    request_id: str | None = None,
    tool_calls: list[JsonObject] | None = None,
) -> str:
    """One chunk of the current request's stream as JSON. `additional_fields` are added at its top level.

    Raises ValueError when the current request's API type has no wire format.
    """
    request = current_request()
    api_type = request.api_type if request else "openai"
    wire_format = WIRE_FORMATS.get(api_type)
    if wire_format is None:
        raise ValueError(f"API type {api_type!r} has no chunks. Known: {', '.join(WIRE_FORMATS)}")
    chunk = wire_format.chunk(token, finish_reason, AnswerFacts.current(request_id), tool_calls)
    return compact_json({**chunk, **(additional_fields or {})})


def sse_format(data: str, output_format: str) -> str:
    r"""`<data>\n` for the two Ollama types, `data: <data>\n\n` for every other."""
    wire_format = WIRE_FORMATS.get(output_format)
    return wire_format.frame(data) if wire_format else sse(data)


def ndjson_format(data: str) -> str:
    r"""`<data>\n`."""
    return ndjson(data)
