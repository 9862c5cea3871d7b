"""Secrets in the files of a pack: `${ENV:NAME}` is in their place where it is replaced when the file is used,
elsewhere `***`. Pure. Source: spec workbench.md 17.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import chain, count
from typing import Any

from Middleware.common.secrets import MASK, mask_text
from Middleware.config.endpoints import ENV_REFERENCE
from Middleware.config.json_positions import parse
from Middleware.utilities.config_masks import stand_in_for_secrets
from Middleware.utilities.config_text import like_old, text_of
from Middleware.workflows.checks.pack_names import FETCH_TYPE
from Middleware.workflows.checks.workflow_check import node_places
from Middleware.workflows.handlers.node_types import known_type

_SERVERS, _WORKFLOWS = "MCPServers/", "Workflows/"
_OF_SERVER = re.compile(r"/(?:url|headers/[^/]+|env/[^/]+|args/\d+)")
"""Places of an MCP server's file in which `${ENV:NAME}` is replaced."""
_HEADERS = "/headers/"
_SCHEME = re.compile(r"(?:Bearer|Basic|Token|Digest|ApiKey) +", re.IGNORECASE)
_NO_LETTER = re.compile(r"[^A-Za-z0-9]+")


def without_secrets(file: str, raw: bytes, taken: dict[str, object]) -> tuple[bytes, list[str]]:
    """The bytes of a config file without its secrets, and the JSON pointers of those that are `***`.

    `taken`: the variables of the pack so far, each with the value that it stands for; new ones are added.
    """
    places = _Places(file, raw, taken)
    text = text_of(raw)
    made = stand_in_for_secrets(text, places.stand_in)
    return (raw if made == text else like_old(made, raw)), places.masked


class _Places:
    """The places of one file. `masked`: pointers of secrets for which there is no variable."""

    def __init__(self, file: str, raw: bytes, taken: dict[str, object]) -> None:
        self._file, self._fetches = file, tuple(_fetch_headers(file, raw))
        self._taken = taken
        self.masked: list[str] = []

    def stand_in(self, pointer: str, value: Any, shown: str) -> str | None:
        """What is written in the place of a secret; None: it is none, or it is in a variable already."""
        if isinstance(value, str) and _is_in_variable(value):
            return None
        if not self._takes_variables(pointer):
            self.masked.append(pointer)
            return shown
        scheme = _SCHEME.match(value) if isinstance(value, str) and shown == MASK else None
        variable = "${ENV:" + self._variable(pointer, value) + "}"
        return (scheme[0] if scheme else "") + shown.replace(MASK, variable)

    def _takes_variables(self, pointer: str) -> bool:
        if self._file.startswith(_SERVERS):
            return _OF_SERVER.fullmatch(pointer) is not None
        return pointer.startswith(self._fetches) if self._fetches else False

    def _variable(self, pointer: str, value: object) -> str:
        """The name of a variable for one value: that of an `env` entry, else server and key, such as
        `FILES_AUTHORIZATION`.
        """
        *_, holder, key = pointer.split("/")
        stem = self._file.rpartition("/")[2].removesuffix(".json")
        long = _upper_name(stem, holder if holder == "args" else "", key)
        names = chain([key] if holder == "env" else [], [long], (f"{long}_{number}" for number in count(2)))
        return next(name for name in names if self._taken.setdefault(name, value) == value)


def _upper_name(*words: str) -> str:
    """`FILES_X_API_KEY` of `files`, `X-Api-Key`."""
    return "_".join(_NO_LETTER.sub("_", word).strip("_").upper() for word in words if word)


def _is_in_variable(value: str) -> bool:
    """Whether a value has its secret from the environment, and holds no other."""
    if not ENV_REFERENCE.search(value):
        return False
    return mask_text(ENV_REFERENCE.sub("", value), is_prose=False) is None


def _fetch_headers(file: str, raw: bytes) -> Iterator[str]:
    """How pointers of headers begin in which `${ENV:NAME}` is replaced: those of WebFetch."""
    if file.startswith(_WORKFLOWS):
        for place in node_places(file, parse(raw, file)):
            if known_type(place.config.get("type")) == FETCH_TYPE:
                yield place.pointer + _HEADERS
