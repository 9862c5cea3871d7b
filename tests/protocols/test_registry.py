"""The table of protocols and its faces (frontend-api.md 1)."""

from __future__ import annotations

import json

import pytest

from Middleware.common.request_context import RequestContext, entered
from Middleware.protocols.registry import (
    WIRE_FORMATS,
    build_response_json,
    ndjson_format,
    sse_format,
)

CALL = {"id": "c", "type": "function", "function": {"name": "t", "arguments": "{}"}}


def in_request(api_type):
    return entered(RequestContext("R", "mira", api_type))


def test_the_types_of_the_seed_are_there():
    """Users' scripts and front ends name them."""
    assert {"openaichatcompletion", "openaicompletion", "ollamaapichat", "ollamagenerate"} <= set(
        WIRE_FORMATS
    )


@pytest.mark.parametrize(
    ("output_format", "expected"),
    [
        ("ollamaapichat", "x\n"),
        ("ollamagenerate", "x\n"),
        ("openaichatcompletion", "data: x\n\n"),
        ("openaicompletion", "data: x\n\n"),
        ("openai", "data: x\n\n"),
    ],
)
def test_sse_format(output_format, expected):
    """Lines for Ollama, events for everything else."""
    assert sse_format("x", output_format) == expected


def test_ndjson_format():
    """One line."""
    assert ndjson_format("{}") == "{}\n"


@pytest.mark.parametrize(
    ("api_type", "read"),
    [
        ("openaichatcompletion", lambda chunk: chunk["choices"][0]["delta"]["content"]),
        ("openaicompletion", lambda chunk: chunk["choices"][0]["text"]),
        ("ollamaapichat", lambda chunk: chunk["message"]["content"]),
        ("ollamagenerate", lambda chunk: chunk["response"]),
    ],
)
def test_build_response_json_follows_the_request(api_type, read):
    """The chunk is in the current request's protocol and carries its id."""
    with in_request(api_type):
        chunk = json.loads(build_response_json("hé", additional_fields={"extra": 1}))
        last = json.loads(build_response_json("", "stop", request_id="Q"))
    assert read(chunk) == "hé" and chunk["extra"] == 1 and chunk["model"] == "mira"
    assert "R" in (chunk.get("id") or chunk["request_id"])
    reason = last["done_reason"] if "done" in last else last["choices"][0]["finish_reason"]
    assert reason == "stop" and "Q" in (last.get("id") or last["request_id"])


@pytest.mark.parametrize("api_type", ["openaichatcompletion", "ollamaapichat"])
def test_build_response_json_carries_tool_calls(api_type):
    """In the shape of the protocol."""
    with in_request(api_type):
        chunk = json.loads(build_response_json("", tool_calls=[CALL]))
    place = chunk["message"] if "message" in chunk else chunk["choices"][0]["delta"]
    assert place["tool_calls"][0]["function"]["name"] == "t"


@pytest.mark.parametrize("context", [None, "openai", "other"])
def test_build_response_json_needs_a_protocol(context):
    """Outside a request, and for a type that has no wire format, there is no chunk."""
    if context is None:
        with pytest.raises(ValueError, match="has no chunks"):
            build_response_json("x")
    else:
        with in_request(context), pytest.raises(ValueError, match="has no chunks"):
            build_response_json("x")
