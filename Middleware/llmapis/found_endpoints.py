"""Endpoint files for model servers that were found: what stands in one.

Shared by `--setup` and the console's Find servers; writes nothing. Source: spec workbench.md 6, 7.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from urllib.parse import urlsplit

from Middleware.common.types import JsonObject

CONTAINER_MARK = Path("/.dockerenv")
HOST_OF_CONTAINER = "host.docker.internal"
KEY_VARIABLE = "MODEL_API_KEY"
CONTEXT = 8192
"""Tokens. What a server on one's own machine has at least, mostly; services say no limit here."""
_VARIABLE = re.compile(r"[A-Z_][A-Z0-9_]*")
_CLEANING: Mapping[str, object] = {
    "removeThinking": True,
    "thinkTagNames": ["think", "thinking", "thought", "reasoning", "reflection"],
    "removeCustomTextFromResponseStartEndpointWide": True,
    "responseStartTextToRemoveEndpointWide": ["Assistant:"],
    "trimBeginningAndEndLineBreaks": True,
}
_FLAT_PROMPT: Mapping[str, object] = {
    "promptTemplate": "chatml",
    "addGenerationPrompt": True,
    "strictPromptTemplate": True,
}
"""What KoboldCpp, which takes one text, needs."""


def endpoint_document(url: str, api_type: str, model: str, key: JsonObject | None = None) -> JsonObject:
    """The document of an endpoint file, in the order of the examples. `key`: `apiKeyEnv` or `apiKey`; None:
    the server wants none."""
    document: JsonObject = {
        "endpoint": url,
        "apiTypeConfigFileName": api_type,
        "modelNameToSendToAPI": model,
        **({"maxContextTokenSize": CONTEXT} if key is None else key),
        "wilmerContextEstimationLevel": "measured",
    }
    if api_type == "KoboldCpp":
        document |= _FLAT_PROMPT
    return {**document, **_CLEANING}


def likely_model(models: Sequence[str]) -> str:
    """The first that does not look like one for embeddings; "": there is none."""
    return next((name for name in models if "embed" not in name.lower()), models[0] if models else "")


def is_variable_name(name: str) -> bool:
    """Whether this is how the variable of a key is called; keys themselves look otherwise."""
    return bool(_VARIABLE.fullmatch(name))


def key_variable_of(url: str) -> str:
    """`OPENAI_API_KEY` for https://api.openai.com."""
    labels = (urlsplit(url).hostname or "").split(".")
    word = re.sub(r"\W", "_", labels[-2]).upper() if len(labels) > 1 and not labels[-1].isdecimal() else ""
    return f"{word}_API_KEY" if is_variable_name(word) else KEY_VARIABLE
