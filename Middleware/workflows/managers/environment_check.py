"""Environment variables that config files name and that are not set here."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from Middleware.common.errors import ConfigError
from Middleware.config.environment import ENV_REFERENCE
from Middleware.config.loader import ConfigSnapshot
from Middleware.config.validation import Finding, json_pointer

_FOLDERS = ("Endpoints/", "MCPServers/")
_OBJECTS = ("extraHeaders", "headers", "env")


def environment_findings(snapshot: ConfigSnapshot, files: Iterable[str], level: str) -> Iterator[Finding]:
    """A finding for each variable that a readable endpoint or MCP server file names in vain."""
    for file in files:
        if not file.startswith(_FOLDERS):
            continue
        try:
            document = snapshot.read(file)
        except ConfigError:
            continue
        for pointer, name in _names(document):
            if name not in os.environ:
                yield Finding(file, pointer, level, f"environment variable {name!r} is not set")


def _names(document: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """(pointer, variable) of `apiKeyEnv` (an `apiKey` goes before it) and of each `${ENV:NAME}`."""
    variable = document.get("apiKeyEnv")
    if isinstance(variable, str) and variable and not document.get("apiKey"):
        yield "/apiKeyEnv", variable
    texts: dict[str, object] = {"/url": document.get("url")}
    for key in _OBJECTS:
        inner = document.get(key)
        if isinstance(inner, Mapping):
            texts |= {json_pointer([key, name]): value for name, value in inner.items()}
    for pointer, text in texts.items():
        if isinstance(text, str):
            yield from ((pointer, match[1]) for match in ENV_REFERENCE.finditer(text))
