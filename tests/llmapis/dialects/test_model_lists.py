"""The lists of models of real servers, and where they are asked for."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from Middleware.llmapis.dialects.model_lists import koboldcpp_model, ollama_models, openai_models

CAPTURES = Path(__file__).resolve().parents[2] / "fixtures" / "captures"


def captured(name):
    return json.loads((CAPTURES / f"{name}.txt").read_text("utf-8"))


@pytest.mark.parametrize(
    ("route", "url"),
    [
        ("http://h/v1/chat/completions", "http://h/v1/models"),
        ("http://h/v1/completions", "http://h/v1/models"),
        ("http://h/v1/embeddings", "http://h/v1/models"),
        ("http://h/v1beta/openai/chat/completions", "http://h/v1beta/openai/models"),
        ("http://h/v1/chat/completions?api-version=1", "http://h/v1/models?api-version=1"),
    ],
)
def test_an_openai_list_stands_beside_the_route(route, url):
    """A query stays."""
    assert openai_models(route).url == url


@pytest.mark.parametrize(
    ("models", "url", "names"),
    [
        (openai_models("http://h/v1/completions"), "http://h/v1/models", "llamacpp/models"),
        (ollama_models("http://h"), "http://h/api/tags", "ollama/tags"),
        (koboldcpp_model("http://h"), "http://h/api/v1/model", "koboldcpp/api_v1_model"),
    ],
    ids=["llama.cpp", "Ollama", "KoboldCpp"],
)
def test_lists_of_real_servers(models, url, names):
    """Each names the one model that it had."""
    found = models.names(captured(names))
    assert models.url == url
    assert any("smollm2" in name.lower() for name in found)


def test_an_alias_is_a_name():
    """Each name once."""
    body = {"data": [{"id": "a", "aliases": ["a", "b"]}, {"id": "c", "aliases": None}]}
    assert openai_models("").names(body) == ["a", "b", "c"]


def test_the_tag_latest_may_be_left_out():
    """Any other tag may not."""
    body = {"models": [{"name": "big:latest"}, {"name": "small:1b"}]}
    assert ollama_models("").names(body) == ["big:latest", "small:1b", "big"]


@pytest.mark.parametrize("body", [{}, {"data": [{}], "models": [{}]}, {"data": 5, "models": 5}])
@pytest.mark.parametrize("models", [openai_models(""), ollama_models(""), koboldcpp_model("")])
def test_another_body_is_refused(models, body):
    """By an error that the caller knows."""
    with pytest.raises((LookupError, TypeError)):
        models.names(body)
