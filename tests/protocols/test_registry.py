"""The table of protocols and its faces (frontend-api.md 1)."""

from __future__ import annotations

import json

import pytest

from Middleware.common.request_context import RequestContext, enter_request
from Middleware.protocols.registry import (
    PROTOCOLS,
    WIRE_FORMATS,
    AnswerFacts,
    ErrorReply,
    WholeAnswer,
    build_response_json,
    ndjson_format,
    sse_format,
)

CALL = {"id": "c", "type": "function", "function": {"name": "t", "arguments": "{}"}}


def chunk(token, finish=None):
    return {"token": token, "finish_reason": finish}


def in_request(api_type):
    return enter_request(RequestContext("R", "mira", api_type))


def test_the_types_of_the_seed_are_there():
    """Users' scripts and front ends name them."""
    assert {"openaichatcompletion", "openaicompletion", "ollamaapichat", "ollamagenerate"} <= set(
        WIRE_FORMATS
    )


EXTRA, V1 = "/api/extra", "/api/v1"
LLAMA = ("/slots", "/infill", "/embedding", "/detokenize", "/apply-template", "/lora-adapters")
PATHS = {  # name -> its roots; below them what is not served
    "openai": (("/v1", "/chat/completions", "/completions", "/models"), ("/v1/audio", "/v1/images", "/v1/files")),
    "ollama": (
        ("/api",),
        ("/api/pull", "/api/push", "/api/create", "/api/copy", "/api/delete", "/api/blobs"),
    ),
    "anthropic": (
        ("/v1/messages", "/messages", "/v1/complete"),
        ("/v1/messages/batches", "/messages/batches", "/v1/complete", "/v1/organizations"),
    ),
    "responses": (("/v1/responses", "/responses"), ("/v1/responses/compact", "/responses/compact")),
    "koboldcpp": (
        (V1, "/api/latest", EXTRA),
        (
            *(f"{EXTRA}/{name}" for name in ("data", "embeddings", "last_logprobs", "multiplayer", "preloadstory")),
            *(f"{EXTRA}/{name}" for name in ("shape", "speakers_list", "transcribe", "tts", "websearch")),
            *(f"{V1}/{name}" for name in ("config/soft_prompt", "config/soft_prompts_list", "world_info")),
        ),
    ),
    "llamacpp": (("/completion", "/props", "/tokenize", *LLAMA), LLAMA),
    "mcp": (("/mcp",), ()),
    "console": ((), ()),
}  # fmt: skip


def test_the_paths_of_each_protocol():
    """By its roots a failure has the shape that its clients read; what is not served is said to be so."""
    assert {one.name: (one.roots, one.unsupported) for one in PROTOCOLS if one.name in PATHS} == PATHS


def test_the_ids_of_each_protocol():
    """A client that sends one of these as a cancellation is understood."""
    prefixes = {one.name: one.id_prefixes for one in PROTOCOLS if one.name in PATHS and one.id_prefixes}
    assert prefixes == {
        "openai": ("chatcmpl-", "cmpl-"),
        "ollama": ("gen-",),
        "anthropic": ("msg_",),
        "responses": ("resp_",),
    }


def test_the_headers_of_each_protocol():
    """Anthropic's clients show the id of a request that failed; the others look at no header of their own."""
    headers = {one.name: one.answer_headers("R") for one in PROTOCOLS if one.name in PATHS}
    assert {name: of_one for name, of_one in headers.items() if of_one} == {"anthropic": {"request-id": "R"}}


EVENTS, LINES = "text/event-stream; charset=utf-8", "application/x-ndjson"
FORMATS = {  # API type -> how people call it, media type of its stream, which progress it can show
    "openaichatcompletion": ("OpenAI chat", EVENTS, ("reasoning", "status")),
    "openaicompletion": ("OpenAI text", EVENTS, ()),
    "ollamaapichat": ("Ollama chat", LINES, ("reasoning",)),
    "ollamagenerate": ("Ollama generate", LINES, ("reasoning",)),
    "anthropicmessages": ("Anthropic", EVENTS, ("reasoning",)),
    "openairesponses": ("Responses", EVENTS, ("reasoning",)),
    "koboldgenerate": ("KoboldCpp", EVENTS, ()),
    "llamacppcompletion": ("llama.cpp", EVENTS, ()),
    "mcptool": ("MCP", EVENTS, ()),
    "console": ("console", EVENTS, ()),
}


@pytest.mark.parametrize(("api_type", "facts"), FORMATS.items(), ids=FORMATS)
def test_the_streams_of_each_api_type(api_type, facts):
    wire = WIRE_FORMATS[api_type]
    assert (wire.front, wire.mimetype, wire.shows_progress) == facts


def test_who_sends_messages_and_who_is_kept_going():
    """Clients of the others send a prompt; an answer to these may end in the call that keeps an agent going."""
    kept_going = {name for name in FORMATS if WIRE_FORMATS[name].gets_liveness_call}
    assert kept_going == {"openaichatcompletion", "ollamaapichat", "anthropicmessages", "openairesponses"}
    assert {name for name in FORMATS if WIRE_FORMATS[name].is_chat} == kept_going | {"console"}


@pytest.mark.parametrize("api_type", sorted(WIRE_FORMATS))
def test_every_protocol_is_complete(api_type):
    """It frames a stream and its end, a whole answer, one chunk and an error; each holds what it is told."""
    wire, facts = WIRE_FORMATS[api_type], AnswerFacts("R", "mira", created=1760000000)
    framer = wire.framer(facts)
    units = [*framer.units([chunk("hello")]), *framer.units([chunk("", "stop")]), *framer.end()]
    assert "hello" in "".join(units) and all(unit.endswith("\n") for unit in units)
    assert wire.frame("{}").endswith("\n") and "{}" in wire.frame("{}")
    assert "hello" in json.dumps(wire.whole(WholeAnswer("hello"), facts))
    assert wire.chunk is None or "hello" in json.dumps(wire.chunk("hello", None, facts, None))
    assert "/" in wire.mimetype and wire.pause_s >= 0 and wire.front


@pytest.mark.parametrize("protocol", list(PROTOCOLS), ids=lambda protocol: protocol.name)
def test_every_protocol_tells_errors(protocol):
    """As a body, and in the middle of each of its streams."""
    reply = ErrorReply(502, "broken", request_id="R")
    assert "broken" in json.dumps(protocol.error_body(reply))
    for wire in protocol.formats.values():
        assert "broken" in "".join(wire.framer(AnswerFacts("R", "mira")).error(reply))


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


def test_who_asks_for_a_chunk_that_there_is_not_is_told_what_there_is():
    with in_request("mcptool"), pytest.raises(ValueError, match="has no chunks") as caught:
        build_response_json("x")
    told, _, known = str(caught.value).partition(" Known: ")
    assert told == "API type 'mcptool' has no chunks."
    chat = ["openaichatcompletion", "openaicompletion", "ollamaapichat", "ollamagenerate"]
    assert set(chat) <= set(known.split(", ")) and "mcptool" not in known


@pytest.mark.parametrize("context", [None, "openai", "other"])
def test_build_response_json_needs_a_protocol(context):
    """Outside a request, and for a type that has no wire format, there is no chunk."""
    if context is None:
        with pytest.raises(ValueError, match="has no chunks"):
            build_response_json("x")
    else:
        with in_request(context), pytest.raises(ValueError, match="has no chunks"):
            build_response_json("x")
