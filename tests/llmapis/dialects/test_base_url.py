"""Addresses are joined without doubling anything, in whatever form people write the base."""

from __future__ import annotations

import pytest

from Middleware.llmapis.dialects.model_lists import (
    ends_in_openai_route,
    joined_url,
    koboldcpp_url,
    ollama_url,
)


@pytest.mark.parametrize(
    ("base", "path", "url"),
    [
        ("http://h", "/v1/messages", "http://h/v1/messages"),
        ("http://h/", "/v1/messages", "http://h/v1/messages"),
        ("http://h/x/v1", "/v1/messages", "http://h/x/v1/messages"),
        ("http://h/x/v1/messages", "/v1/messages", "http://h/x/v1/messages"),
        ("http://h/x/messages", "/v1/messages", "http://h/x/messages"),
        ("http://h/v1/chat", "/v1/chat/completions", "http://h/v1/chat/completions"),
        ("http://h/v1/chat/completions/", "/v1/chat/completions", "http://h/v1/chat/completions"),
        ("http://h/v1/?k=/v1", "/v1/completions", "http://h/v1/completions?k=/v1"),
        ("http://h/v12", "/v1/completions", "http://h/v12/v1/completions"),
        ("http://v1", "/v1/completions", "http://v1/v1/completions"),
        ("h:1", "/v1/completions", "h:1/v1/completions"),
    ],
)
def test_joined_url(base, path, url):
    """Version, first steps, last steps, or all of the path; a query stays behind, a host is no step."""
    assert joined_url(base, path) == url


OLLAMA_BASES = [
    "http://h/x",
    "http://h/x/",
    "http://h/x/api",
    "http://h/x/api/",
    "http://h/x/api/chat",
    "http://h/x/api/generate",
    "http://h/x/api/embed",
    "http://h/x/v1",
    "http://h/x/v1/chat/completions",
]


@pytest.mark.parametrize("base", OLLAMA_BASES)
@pytest.mark.parametrize("path", ["/api/chat", "/api/generate", "/api/embed", "/api/tags"])
def test_ollama_url(base, path):
    """Every route is found from every form of the base, the one for OpenAI clients included."""
    assert ollama_url(base, path) == f"http://h/x{path}"


def test_a_host_that_is_called_like_a_step():
    """Is a host (the name of a container, say)."""
    assert ollama_url("http://api", "/api/chat") == "http://api/api/chat"


def test_a_query_stays_behind():
    """Also where something was cut."""
    assert ollama_url("http://h/api?k=1", "/api/chat") == "http://h/api/chat?k=1"


KOBOLD_BASES = [
    "http://h",
    "http://h/api",
    "http://h/api/v1",
    "http://h/api/extra",
    "http://h/api/v1/generate",
]


@pytest.mark.parametrize("base", KOBOLD_BASES)
@pytest.mark.parametrize("path", ["/api/v1/generate", "/api/extra/generate/stream", "/api/extra/abort"])
def test_koboldcpp_url(base, path):
    """The routes of streams, whole answers and the abort call, whichever of them the base names."""
    assert koboldcpp_url(base, path) == f"http://h{path}"


@pytest.mark.parametrize(
    ("base", "claimed"),
    [
        ("http://h/v1", True),
        ("http://h/v1/chat/completions", True),
        ("http://h/api", False),
        ("http://v1", False),
    ],
)
def test_ends_in_openai_route(base, claimed):
    """What the check of an Ollama endpoint warns of."""
    assert ends_in_openai_route(base) is claimed
