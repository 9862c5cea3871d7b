"""The same answer comes out streamed and whole, by every route, from every kind of backend."""

from __future__ import annotations

import itertools

import pytest

from tests.e2e.answers import ROUTES
from tests.e2e.fake_backend import Reply

pytestmark = pytest.mark.e2e

BACKENDS = {
    "openai": "Open-AI-API",
    "openai-text": "OpenAI-Compatible-Completions",
    "ollama": "OllamaApiChat",
    "ollama-text": "OllamaApiGenerate",
    "kobold": "KoboldCpp",
}
CLEANING = {
    "removeThinking": True,
    "startThinkTag": "<think>",
    "endThinkTag": "</think>",
    "trimBeginningAndEndLineBreaks": True,
    "removeCustomTextFromResponseStartEndpointWide": True,
    "responseStartTextToRemoveEndpointWide": ["Librarian:"],
}
ANSWERS = {
    "plain": (["Hel", "lo, wor", "ld"], "Hello, world"),
    "thoughts": (["<th", "ink>hm, {x}", "</thi", "nk>\n\nLib", "rarian: The", " answer\n"], "The answer"),
    "unicode": (["Grü", "ße ", "🦉", "漢", "字"], "Grüße 🦉漢字"),
    "braces": (['{"a": ', '"{{b}}"', "}"], '{"a": "{{b}}"}'),
}


@pytest.fixture(scope="module")
def server(launch):
    users = {
        user: {"endpoints": {"Model": {"apiTypeConfigFileName": api_type, **CLEANING}}}
        for user, api_type in BACKENDS.items()
    }
    users["muse"] = {"endpoints": {"Model": {"reasoningParser": "mistral", "reasoningOutput": "inline"}}}
    return launch(users, "--concurrency", "0")


@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize("user", BACKENDS)
def test_every_route_and_backend(user, route, server, backend):
    """Four answers, streamed and whole."""
    for kind, stream in itertools.product(ANSWERS, (True, False)):
        chunks, expected = ANSWERS[kind]
        mark = f"{user}-{route}-{kind}"
        backend.on(mark, Reply(chunks))
        status, body = server.post(
            ROUTES[route].path, ROUTES[route].ask(user, f"say {mark} please", stream=stream)
        )
        assert (status, ROUTES[route].text(body, stream=stream)) == (200, expected), (kind, stream)


@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
def test_thoughts_behind_text_stand_in_it_where_they_came(stream, server, backend):
    """Those that a parser took out of it."""
    mark = f"musing {stream}"
    backend.on(mark, Reply(["A [TH", "INK]t", "[/THINK]B"]))
    route = ROUTES["openai-chat"]
    status, body = server.post(route.path, route.ask("muse", mark, stream=stream))
    assert (status, route.text(body, stream=stream)) == (200, "A <think>\nt\n</think>\n\nB")


@pytest.mark.parametrize("user", BACKENDS)
def test_the_backend_is_spoken_to_in_its_dialect(user, server, backend):
    """Every call that such a user made."""
    server.post("/v1/chat/completions", ROUTES["openai-chat"].ask(user, f"dialect of {user}", stream=False))
    assert {call.dialect for call in backend.calls(f"dialect of {user}")} == {user}
