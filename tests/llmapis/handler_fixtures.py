"""A handler for a type, with the shipped API type; streams and whole bodies are fed to it without a network."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import Middleware.llmapis.handlers.impl  # noqa: F401  (registers every backend)
from Middleware.config.endpoints import EndpointConfig
from Middleware.llmapis.handlers.backends import backend
from Middleware.llmapis.handlers.base.base_llm_api_handler import HandlerSettings

ROOT = Path(__file__).resolve().parents[2]
API_TYPES = ROOT / "Public" / "Configs" / "ApiTypes"
SHIPPED = {
    "openAIChatCompletion": "Open-AI-API",
    "openAIV1Completion": "OpenAI-Compatible-Completions",
    "ollamaApiChat": "OllamaApiChat",
    "ollamaApiGenerate": "OllamaApiGenerate",
    "koboldCppGenerate": "KoboldCpp",
    "claudeMessages": "Claude",
    "builtInDemo": "BuiltInDemo",
}


@pytest.fixture
def make_handler():
    """`make(type_or_api_type_file, endpoint={}, **settings)`."""

    def make(name, endpoint=None, api_type=None, **settings):
        file = SHIPPED.get(name, name)
        if api_type is None:
            api_type = json.loads((API_TYPES / f"{file}.json").read_text())
        raw = {"endpoint": "http://h:1", **(endpoint or {})}
        config = EndpointConfig(name="E", raw=raw, api_type_name=file, api_type=api_type)
        return backend(api_type["type"])(
            HandlerSettings(
                endpoint=config,
                api_key=config.api_key,
                headers=config.extra_headers,
                **{"stream": True, "max_tokens": 100, **settings},
            )
        )

    return make


@pytest.fixture
def read_stream():
    """`read(handler, reads, content_type)` -> the dicts of a stream that came in these reads."""

    def read(handler, reads, content_type=""):
        reader = handler.new_stream(content_type)
        return [chunk for data in reads for chunk in reader.feed(data)] + reader.finish()

    return read


@pytest.fixture
def joined():
    """`joined(chunks)` -> what a stream says in the end, in the shape of `whole`."""

    def join(chunks):
        calls = {}
        for chunk in chunks:
            for delta in chunk.get("tool_calls", ()):
                made = calls.setdefault(delta["index"], {"id": None, "name": "", "arguments": ""})
                made["id"] = delta.get("id") or made["id"]
                made["name"] += delta["function"].get("name", "")
                made["arguments"] += delta["function"].get("arguments", "")
        return {
            "text": "".join(chunk["token"] for chunk in chunks),
            "thinking": "".join(chunk.get("thinking", "") for chunk in chunks),
            "calls": [_known(call) for _, call in sorted(calls.items())],
            "finish_reason": chunks[-1]["finish_reason"] if chunks else None,
            "usage": chunks[-1].get("usage") if chunks else None,
        }

    return join


@pytest.fixture
def whole():
    """`whole(answer)` -> the same facts of a whole answer."""

    def facts(answer):
        if isinstance(answer, dict):
            calls = [
                {"id": call["id"], **{key: call["function"][key] for key in ("name", "arguments")}}
                for call in answer["tool_calls"]
            ]
            told = answer
        else:
            calls, told = [], vars(answer)
        return {
            "text": answer["content"] if isinstance(answer, dict) else str(answer),
            "thinking": told.get("thinking", ""),
            "calls": [_known(call) for call in calls],
            "finish_reason": told["finish_reason"],
            "usage": told.get("usage"),
        }

    return facts


def _known(call):
    """Arguments are compared as values: white space inside the JSON is each server's own."""
    return {**call, "arguments": json.loads(call["arguments"])}
