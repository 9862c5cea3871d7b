"""The table of backends, keyed by the ApiType's `type`. A backend is one module of `handlers/impl` that
registers here.

Never imports a backend: `handlers/impl` loads its own modules.
"""

from __future__ import annotations

from Middleware.common.errors import ConfigError
from Middleware.common.registry import Registry
from Middleware.config import paths
from Middleware.config.endpoints import EndpointConfig
from Middleware.llmapis.handlers.base.base_llm_api_handler import LlmApiHandler

BACKENDS: Registry[type[LlmApiHandler]] = Registry("backend", LlmApiHandler)


class UnknownBackend(ConfigError, ValueError):
    """An ApiType's `type` that no backend has; a ValueError by backends.md 2."""


def backend(api_type: str, *, file: str = "") -> type[LlmApiHandler]:
    """The handler class for an ApiType's `type` (case counts), which stands in `file`.

    Raises UnknownBackend naming the types that exist.
    """
    found = BACKENDS.get(api_type)
    if found is None:
        raise UnknownBackend(
            f"Unsupported LLM type: {api_type}. Known: {', '.join(sorted(BACKENDS))}",
            file=file,
            pointer="/type" if file else "",
        )
    return found


def backend_of(endpoint: EndpointConfig) -> type[LlmApiHandler]:
    """The handler class of an endpoint. Raises UnknownBackend, which names the file of its API type."""
    return backend(endpoint.type, file=paths.api_type_file(endpoint.api_type_name))
