"""The table of protocols and its faces (frontend-api.md 1)."""

from __future__ import annotations

import json

import pytest

from Middleware.common.request_context import RequestContext, entered
from Middleware.protocols.registry import (
    WIRE_FORMATS,
    AnswerFacts,
    WholeAnswer,
    WireFormats,
    build_response_json,
    ndjson_format,
    sse_format,
)

CALL = {"id": "c", "type": "function", "function": {"name": "t", "arguments": "{}"}}


def chunk(token, finish=None):
    return {"token": token, "finish_reason": finish}


def in_request(api_type):
    return entered(RequestContext("R", "mira", api_type))


@pytest.mark.parametrize("api_type", sorted(WIRE_FORMATS))
def test_every_protocol_is_complete(api_type):
    """It frames a stream and its end, a whole answer, one chunk and an error; each holds what it is told."""
    wire, facts = WIRE_FORMATS[api_type], AnswerFacts("R", "mira", created=1760000000)
    framer = wire.framer(facts)
    units = [*framer.units([chunk("hello")]), *framer.units([chunk("", "stop")]), *framer.end()]
    assert "hello" in "".join(units) and all(unit.endswith("\n") for unit in units)
    assert wire.frame("{}").endswith("\n") and "{}" in wire.frame("{}")
    assert "hello" in json.dumps(wire.whole(WholeAnswer("hello"), facts))
    assert "hello" in json.dumps(wire.chunk("hello", None, facts, None))
    assert "broken" in json.dumps(wire.error("broken", "server_error", None, None))
    assert "/" in wire.mimetype and wire.pause_s >= 0


def test_a_name_is_taken_once():
    """A second front end cannot replace the first unseen."""
    table = WireFormats(WIRE_FORMATS)
    with pytest.raises(ValueError, match="registered twice"):
        table.add("ollamaapichat", WIRE_FORMATS["ollamaapichat"])
    table.add("new", WIRE_FORMATS["ollamaapichat"])
    assert "new" in table


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
        first = json.loads(build_response_json("hé", additional_fields={"extra": 1}))
        last = json.loads(build_response_json("", "stop", request_id="Q"))
    assert read(first) == "hé" and first["extra"] == 1 and first["model"] == "mira"
    assert "R" in (first.get("id") or first["request_id"])
    reason = last["done_reason"] if "done" in last else last["choices"][0]["finish_reason"]
    assert reason == "stop" and "Q" in (last.get("id") or last["request_id"])


@pytest.mark.parametrize("api_type", ["openaichatcompletion", "ollamaapichat"])
def test_build_response_json_carries_tool_calls(api_type):
    """In the shape of the protocol."""
    with in_request(api_type):
        made = json.loads(build_response_json("", tool_calls=[CALL]))
    place = made["message"] if "message" in made else made["choices"][0]["delta"]
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


def test_errors_have_the_shape_of_the_protocol():
    """An object for OpenAI, a text for Ollama."""
    assert WIRE_FORMATS["openaicompletion"].error("M", "T", None, None)["error"]["message"] == "M"
    assert WIRE_FORMATS["ollamagenerate"].error("M", "T", None, None) == {"error": "M"}
