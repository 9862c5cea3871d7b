"""What model servers have loaded at this moment, as they say it themselves.

Asks for facts, never for an answer, and loads nothing. Only servers on this machine or its private networks
are asked: services on public hosts have nothing to say of it. Source: spec operate.md 5.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath, PureWindowsPath
from typing import Any

from Middleware.common.errors import BackendError, ConfigError
from Middleware.common.types import JsonObject
from Middleware.config.endpoints import EndpointConfig
from Middleware.llmapis.call.call_arguments import HandlerSettings
from Middleware.llmapis.dialects.model_lists import koboldcpp_url, ollama_url, root_url
from Middleware.llmapis.egress import place_of
from Middleware.llmapis.handlers.backends import BACKENDS
from Middleware.llmapis.handlers.base.base_llm_api_handler import LlmApiHandler
from Middleware.llmapis.handlers.json_get import get_json
from Middleware.services.loaded_models import Loaded

LIMIT_S = 2.0
"""So long a server has for one answer."""
MOST_MODELS = 50


# --------------------------------------------------------------------------
# How each program says it. Pure; raises LookupError, TypeError, AttributeError for another body.


@dataclass(frozen=True, slots=True)
class _Server:
    """`url_of(base)`: what to GET. `models(body)`: the names. `slots_url_of(base)`: where slots are told."""

    name: str
    url_of: Callable[[str], str]
    models: Callable[[Any], Iterable[str]]
    slots_url_of: Callable[[str], str] | None = None


def _of_ollama(body: JsonObject) -> list[str]:
    return [str(entry["name"]) for entry in body["models"]]


def _of_llamacpp(body: JsonObject) -> list[str]:
    """One that sleeps has given its memory back."""
    path = str(body["model_path"])
    name = str(body.get("model_alias") or "") or PurePosixPath(PureWindowsPath(path).as_posix()).stem
    return [name] if name and not body.get("is_sleeping") else []


def _of_llamaswap(body: JsonObject) -> list[str]:
    running = [entry for entry in body["running"] if entry.get("state", "ready") == "ready"]
    return [str(entry["model"]) for entry in running]


def _of_koboldcpp(body: JsonObject) -> list[str]:
    name = str(body["result"]).removeprefix("koboldcpp/")
    return [] if name in ("", "inactive", "None") else [name]


_OLLAMA = _Server("Ollama", lambda base: ollama_url(base, "/api/ps"), _of_ollama)
_KOBOLDCPP = _Server("KoboldCpp", lambda base: koboldcpp_url(base, "/api/v1/model"), _of_koboldcpp)
_LLAMACPP = _Server(
    "llama.cpp",
    lambda base: root_url(base, "/props"),
    _of_llamacpp,
    lambda base: root_url(base, "/slots"),
)
_LLAMASWAP = _Server("llama-swap", lambda base: root_url(base, "/running"), _of_llamaswap)
_BEHIND_OPENAI = (_LLAMASWAP, _LLAMACPP, _OLLAMA, _KOBOLDCPP)
"""Programs that speak OpenAI's API; llama-swap first: it may hand on what it does not know."""

_SERVERS: Mapping[str, Sequence[_Server]] = {
    **dict.fromkeys(("ollamaApiChat", "ollamaApiChatImageSpecific", "ollamaApiGenerate"), (_OLLAMA,)),
    "ollamaEmbeddings": (_OLLAMA,),
    **dict.fromkeys(("koboldCppGenerate", "koboldCppGenerateImageSpecific"), (_KOBOLDCPP,)),
    **dict.fromkeys(("openAIChatCompletion", "openAIApiChatImageSpecific"), _BEHIND_OPENAI),
    **dict.fromkeys(("openAIV1Completion", "openAIEmbeddings"), _BEHIND_OPENAI),
}
"""Type of an endpoint -> the programs that may be behind it."""


# --------------------------------------------------------------------------
# One server asked.


def ask_server(endpoint: EndpointConfig, url: str) -> Loaded | None:
    """What is loaded at one of the endpoint's addresses; None: nobody there says it. Raises nothing."""
    servers = _SERVERS.get(endpoint.type, ())
    if not servers or not url or place_of(url).where == "remote":
        return None
    try:
        handler = BACKENDS[endpoint.type](
            HandlerSettings(endpoint, endpoint.api_key, headers=endpoint.extra_headers)
        )
        for server in servers:
            body = _ask(handler, server.url_of(url))
            try:
                models = tuple(server.models(body))[:MOST_MODELS]
            except (LookupError, TypeError, AttributeError):
                continue
            return Loaded(server.name, models, _slots(handler, server, url))
    except (BackendError, ConfigError):
        return None
    return None


def _ask(handler: LlmApiHandler, url: str) -> Any:
    """The answer there, as `get_json`."""
    return get_json(handler, url, connect_timeout_s=LIMIT_S, limit_s=LIMIT_S)


def _slots(handler: LlmApiHandler, server: _Server, url: str) -> tuple[int, int] | None:
    if server.slots_url_of is None:
        return None
    try:
        slots = _ask(handler, server.slots_url_of(url))
        return sum(bool(slot["is_processing"]) for slot in slots), len(slots)
    except (BackendError, LookupError, TypeError):
        return None
