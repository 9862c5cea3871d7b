"""Where a server tells which models it has, and how that list is read. Pure.

Source: the vendors' pages, and the captures `models`, `tags`, `api_v1_model` of tests/fixtures.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from Middleware.common.types import JsonObject
from Middleware.llmapis.dialects.base_url import koboldcpp_url, ollama_url

_OPENAI_ROUTE = re.compile(r"/(?:chat/completions|completions|embeddings)(?=\?|$)")
_LATEST = ":latest"


@dataclass(frozen=True, slots=True)
class ModelList:
    """`url`: what to GET. `names(body)`: the names that `model` may hold. Raises LookupError, TypeError for
    another body."""

    url: str
    names: Callable[[JsonObject], list[str]]


def openai_models(route: str) -> ModelList:
    """Of an OpenAI server: `models` beside the route that is called (`.../v1/chat/completions`). llama.cpp
    gives aliases as well."""
    return ModelList(_OPENAI_ROUTE.sub("/models", route), _openai_names)


def ollama_models(base: str) -> ModelList:
    """Of an Ollama server. A name with the tag `latest` may be called without it."""
    return ModelList(ollama_url(base, "/api/tags"), _ollama_names)


def koboldcpp_model(base: str) -> ModelList:
    """Of a KoboldCpp server: the one model that it has loaded."""
    return ModelList(koboldcpp_url(base, "/api/v1/model"), lambda body: [str(body["result"])])


def _openai_names(body: JsonObject) -> list[str]:
    names = [str(name) for entry in body["data"] for name in (entry["id"], *(entry.get("aliases") or ()))]
    return list(dict.fromkeys(names))


def _ollama_names(body: JsonObject) -> list[str]:
    names = [str(entry["name"]) for entry in body["models"]]
    return names + [name.removesuffix(_LATEST) for name in names if name.endswith(_LATEST)]
