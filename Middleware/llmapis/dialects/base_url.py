"""From the base address of an endpoint to the address of a call. Pure.

People write the base in every form that their server's pages show: bare, with the version, with the whole
path. What the base says already is not said twice. Source: spec backends.md 1.
"""

from __future__ import annotations

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
