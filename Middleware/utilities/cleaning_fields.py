"""The keys of the cleaning rules as fields of config files and of nodes.

Importing this module hands those of endpoint and user files to their check; whoever opens a config tree
imports it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import lru_cache, partial
from typing import Any

import Middleware.cleaning  # noqa: F401  (loads the rules)
from Middleware.cleaning.keys import CleaningKey
from Middleware.cleaning.stage import RULES, Place, StatedRule, keys_of
from Middleware.config.file_schemas import hand_in

Fields = Mapping[str, Mapping[str, Any]]
Rules = tuple[StatedRule, ...]


def rules_now() -> Rules:
    """The rules that there are: what is made of their keys may be kept as long as this stays the same."""
    return tuple(RULES.values())


def file_fields(place: Place) -> Fields:
    """Name -> JSON Schema of the keys in the files of a place. One object while the rules are the same."""
    return _file_fields(place, rules_now())


@lru_cache(maxsize=8)
def _file_fields(place: Place, rules: Rules) -> Fields:
    return {name: _field(key) for name, key in keys_of(place).items()}


def _field(key: CleaningKey) -> dict[str, Any]:
    return {
        **key.shape,
        "description": key.description,
        **({} if key.default is None else {"default": key.default}),
        **({} if key.strict else {"x-level": "warning"}),
    }


def node_fields(*, strict: bool) -> dict[str, Any]:
    """Name -> JSON Schema of the keys in nodes: those that must be right (`strict`), or those that should."""
    return {name: dict(key.shape) for name, key in keys_of("node").items() if key.strict is strict}


def node_descriptions(*, of_models: bool) -> dict[str, str]:
    """Name -> sentence of the keys in nodes: those that only mean something with a model, or the others."""
    return {name: _sentence(key) for name, key in keys_of("node").items() if key.of_models is of_models}


def _sentence(key: CleaningKey) -> str:
    """`Texts to remove. Default: false.`; an empty default goes without saying."""
    said = key.default is not None and key.default not in ("", [])
    return f"{key.description} Default: {json.dumps(key.default)}." if said else key.description


hand_in("endpoint", partial(file_fields, "endpoint"))
hand_in("user", partial(file_fields, "user"))
