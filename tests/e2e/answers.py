"""The generation routes as one table: how to ask, and how to read what came back."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from tests.e2e.fake_backend import sse_objects


@dataclass(frozen=True)
class Route:
    """A route of the server. `sse`: its streams are Server-Sent Events, else lines of JSON.

    `whole`: the text of a whole answer; `piece`: the text of one unit of a stream. `failed`: claims that a unit
    tells a failure; `model`: the model that a unit or a whole answer names, or None.
    """

    path: str
    sse: bool
    body: Callable[[str], dict[str, Any]]
    whole: Callable[[Any], str]
    piece: Callable[[Any], str]
    failed: Callable[[Any], bool] = lambda unit: "error" in unit
    model: Callable[[Any], str | None] = lambda unit: unit.get("model")

    def ask(self, model: str, text: str, *, stream: bool) -> dict[str, Any]:
        return {"model": model, "stream": stream, **self.body(text)}

    def units(self, body: bytes) -> list[Any]:
        """The objects of a stream."""
        if self.sse:
            return list(sse_objects(body))
        return [json.loads(line) for line in body.decode().splitlines() if line.strip()]

    def text(self, body: bytes, *, stream: bool) -> str:
        """The answer's text."""
        return "".join(map(self.piece, self.units(body))) if stream else self.whole(json.loads(body))


def _messages(text: str) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": text}]}


def _prompt(text: str) -> dict[str, Any]:
    return {"prompt": text}


def _delta(unit: Any) -> str:
    return _first(unit, lambda choice: choice["delta"].get("content"))


def _first(unit: Any, text: Callable[[Any], str | None]) -> str:
    choices: Iterable[Any] = unit.get("choices", ())
    return "".join(text(choice) or "" for choice in choices)


def _response_text(body: Any) -> str:
    parts = [part for item in body["output"] if item["type"] == "message" for part in item["content"]]
    return "".join(part["text"] for part in parts)


ROUTES = {
    "openai-chat": Route(
        "/v1/chat/completions", True, _messages, lambda body: body["choices"][0]["message"]["content"], _delta
    ),
    "openai-completions": Route(
        "/v1/completions",
        True,
        _prompt,
        lambda body: body["choices"][0]["text"],
        lambda unit: _first(unit, lambda choice: choice["text"]),
    ),
    "ollama-chat": Route(
        "/api/chat",
        False,
        _messages,
        lambda body: body["message"]["content"],
        lambda unit: unit.get("message", {}).get("content") or "",
    ),
    "ollama-generate": Route(
        "/api/generate",
        False,
        _prompt,
        lambda body: body["response"],
        lambda unit: unit.get("response") or "",
    ),
    "responses": Route(
        "/v1/responses",
        True,
        lambda text: {"input": text},
        _response_text,
        lambda unit: unit["delta"] if unit["type"] == "response.output_text.delta" else "",
        lambda unit: unit["type"] == "response.failed",
        lambda unit: unit.get("response", unit).get("model"),
    ),
    "anthropic": Route(
        "/v1/messages",
        True,
        _messages,
        lambda body: "".join(block["text"] for block in body["content"] if block["type"] == "text"),
        lambda unit: unit.get("delta", {}).get("text") or "",
        model=lambda unit: unit.get("message", unit).get("model"),
    ),
    "llamacpp": Route(
        "/completion",
        True,
        _prompt,
        lambda body: body["content"],
        lambda unit: unit.get("content") or "",
    ),
}
