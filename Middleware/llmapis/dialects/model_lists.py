"""Where a server tells which models it has, and how that list is read. Pure.

Source: the vendors' pages, and the captures `models`, `tags`, `api_v1_model` of tests/fixtures.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from Middleware.common.types import JsonObject

# --------------------------------------------------------------------------
# From the base address of an endpoint to the address of a call. Pure.


OLLAMA_PATHS = ("/api/chat", "/api/generate", "/api/embed", "/api/tags")
KOBOLDCPP_PATHS = ("/api/v1/generate", "/api/v1/model", "/api/extra/generate/stream", "/api/extra/abort")

_OPENAI_OF_OLLAMA = ("/v1/chat/completions", "/v1/completions", "/v1/embeddings")


def joined_url(base: str, path: str) -> str:
    """`base` with `path` (`/v1/chat/completions`) behind it; what `base` already ends in is not doubled.

    A base may end in the first steps, in all steps but the first, or in all of the path; a query stays at the
    end.
    """
    _, _, rest = path.strip("/").partition("/")
    place, steps, query = _parts(base)
    if f"{steps}/".endswith(f"/{rest}/"):
        return f"{place}{steps}{query}"
    return f"{place}{_without_end(steps, (path,))}{path}{query}"


def ollama_url(base: str, path: str) -> str:
    """The address of an Ollama route. A base that ends in another route is cut back, also in the one of its
    OpenAI face."""
    place, steps, query = _parts(base)
    return f"{place}{_without_end(steps, (*OLLAMA_PATHS, *_OPENAI_OF_OLLAMA))}{path}{query}"


def koboldcpp_url(base: str, path: str) -> str:
    """The address of a KoboldCpp route; the routes of streams and of whole answers differ."""
    place, steps, query = _parts(base)
    return f"{place}{_without_end(steps, KOBOLDCPP_PATHS)}{path}{query}"


def root_url(base: str, path: str) -> str:
    """`path` beside the OpenAI face (`/v1`) of a server."""
    place, steps, query = _parts(base)
    return f"{place}{_without_end(steps, _OPENAI_OF_OLLAMA)}{path}{query}"


def ends_in_openai_route(base: str) -> bool:
    """Whether a base leads to an OpenAI face (`/v1`, or a route below it)."""
    _, steps, _ = _parts(base)
    return _without_end(steps, _OPENAI_OF_OLLAMA) != steps


def _parts(base: str) -> tuple[str, str, str]:
    """`(scheme and host, path without a slash at its end, "?query" or "")`."""
    address, mark, query = base.partition("?")
    scheme, colon, rest = address.partition("://")
    host, slash, steps = (rest if colon else scheme).partition("/")
    place = f"{scheme}://{host}" if colon else host
    return place, f"{slash}{steps}".rstrip("/"), f"{mark}{query}"


def _without_end(steps: str, paths: tuple[str, ...]) -> str:
    """`steps` without the longest beginning of one of `paths` that they end in."""
    ends = (beginning for path in paths for beginning in _beginnings(path) if steps.endswith(beginning))
    return steps.removesuffix(max(ends, key=len, default=""))


def _beginnings(path: str) -> list[str]:
    """`/api`, `/api/chat` for `/api/chat`."""
    steps = path.strip("/").split("/")
    return ["/" + "/".join(steps[:count]) for count in range(1, len(steps) + 1)]


# --------------------------------------------------------------------------

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
