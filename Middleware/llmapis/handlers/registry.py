"""The table of backends, keyed by the ApiType's `type`. A backend is one module of `handlers/impl` that
registers here.

Never imports a backend: `handlers/impl` loads its own modules.
"""

from __future__ import annotations

from Middleware.common.registry import Registry
from Middleware.llmapis.handlers.base.base_llm_api_handler import LlmApiHandler

BACKENDS: Registry[type[LlmApiHandler]] = Registry("backend", LlmApiHandler)


def backend(api_type: str) -> type[LlmApiHandler]:
    """The handler class for an ApiType's `type` (case counts). Raises ValueError naming the types that
    exist."""
    found = BACKENDS.get(api_type)
    if found is None:
        raise ValueError(f"Unsupported LLM type: {api_type}. Known: {', '.join(sorted(BACKENDS))}")
    return found
