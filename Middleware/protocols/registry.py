"""The table of client protocols, filled: importing this module loads every protocol of the package.

`build_response_json` and `sse_format` are the faces for code that knows only the current request. Source:
spec frontend-api.md 1, 10 and 11.
"""

from __future__ import annotations

import sys
from typing import Any

from Middleware.common.registry import load_all
from Middleware.common.request_context import current_request
from Middleware.common.types import JsonObject
from Middleware.protocols.base import (
    PROTOCOLS,
    WIRE_FORMATS,
    AnswerCollector,
    AnswerFacts,
    ClientProtocol,
    ErrorReply,
    Framer,
    WholeAnswer,
    WireFormat,
    encode_unit,
    ndjson,
    sse,
)
from Middleware.services.answers import compact_json

__all__ = [
    "PROTOCOLS",
    "WIRE_FORMATS",
    "AnswerCollector",
    "AnswerFacts",
    "ClientProtocol",
    "ErrorReply",
    "Framer",
    "WholeAnswer",
    "WireFormat",
    "build_response_json",
    "encode_unit",
    "ndjson_format",
    "sse_format",
]

load_all(sys.modules[__package__])


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
    if wire_format is None or wire_format.chunk is None:
        known = ", ".join(name for name, one in WIRE_FORMATS.items() if one.chunk)
        raise ValueError(f"API type {api_type!r} has no chunks. Known: {known}")
    chunk = wire_format.chunk(token, finish_reason, AnswerFacts.current(request_id), tool_calls)
    return compact_json({**chunk, **(additional_fields or {})})


def sse_format(data: str, output_format: str) -> str:
    r"""`<data>\n` for the two Ollama types, `data: <data>\n\n` for every other."""
    wire_format = WIRE_FORMATS.get(output_format)
    return wire_format.frame(data) if wire_format else sse(data)


def ndjson_format(data: str) -> str:
    r"""`<data>\n`."""
    return ndjson(data)
