"""Thin faces of `Middleware.cleaning`, and the log lines that the engine itself never writes.

No rule stands here: every function builds a `ResponseCleaner`, feeds it and logs what it warns of.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from functools import lru_cache, partial
from typing import Any

import Middleware.cleaning  # noqa: F401  (loads the rules)
from Middleware.cleaning import ResponseCleaner, strip_inline_xml_tags
from Middleware.cleaning.stage import RULES, CleaningKey, Place, StatedRule, keys_of
from Middleware.common.request_context import current_request
from Middleware.config.keys import Key
from Middleware.config.users import load_user
from Middleware.config.validation import hand_in

__all__ = [
    "StreamingThinkRemover",
    "log_findings",
    "post_process_llm_output",
    "remove_thinking_from_text",
    "routed_node",
    "strip_inline_xml_tags",
    "user_of_request",
]

logger = logging.getLogger(__name__)

Config = Mapping[str, Any]


def post_process_llm_output(
    text: str | None,
    endpoint_config: Config,
    workflow_node_config: Config,
    *,
    user_config: Config | None = None,
    generation_prompt: str | None = None,
) -> str:
    """All rules on a whole text.

    `user_config=None`: the user of the request being served; outside one no speaker flags.

    Raises ConfigMissing or ConfigError when that user's file cannot be read.
    """
    node = routed_node(workflow_node_config)
    user = user_of_request() if user_config is None else user_config
    cleaner = ResponseCleaner(endpoint_config, node, user_config=user, generation_prompt=generation_prompt)
    cleaned = cleaner.feed(text) + cleaner.finish()
    log_findings(cleaner, endpoint_name(node), cleaned)
    return cleaned


def remove_thinking_from_text(text: str | None, endpoint_config: Config) -> str:
    """The thinking rules alone on a whole text."""
    remover = StreamingThinkRemover(endpoint_config)
    return remover.process_delta(text) + remover.finalize()


class _ThinkingRules(ResponseCleaner):
    ORDERS = range(100, 200)


class StreamingThinkRemover:
    """The thinking rules alone on a stream.

    `finalize` is called once, at the end, and gives what was held.
    """

    def __init__(self, endpoint_config: Config) -> None:
        self._cleaner = _ThinkingRules(endpoint_config, None)

    def process_delta(self, delta: str | None) -> str:
        return self._cleaner.feed(delta)

    def finalize(self) -> str:
        rest = self._cleaner.finish()
        log_warnings(self._cleaner, "")
        return rest


def user_of_request() -> Config:
    """The user file of the request being served; empty outside one."""
    request = current_request()
    if request is None or request.snapshot is None:
        return {}
    return load_user(request.snapshot, request.user).raw


def routed_node(workflow_node_config: Config | None) -> Config:
    """The node, with `reasoningOutput` `drop` while the request being served wants no thoughts."""
    node = workflow_node_config or {}
    request = current_request()
    if request is not None and request.suppress_reasoning:
        return {**node, "reasoningOutput": "drop"}
    return node


def endpoint_name(workflow_node_config: Config) -> str:
    """The name that log lines use; `""` for a node without an endpoint."""
    return str(workflow_node_config.get("endpointName") or "")


def log_findings(
    cleaner: ResponseCleaner, endpoint: str, text: str, *, thoughts_beside: bool = False
) -> None:
    """Log what the cleaner warns of, and an answer of which nothing but thoughts is left.

    `text`: the cleaned answer. `thoughts_beside`: the backend sent thoughts in a field of their own.
    """
    log_warnings(cleaner, endpoint)
    if text or not (cleaner.completed_thoughts or thoughts_beside):
        return
    rule = "removeThinking" if cleaner.completed_thoughts else "reasoning in a field of its own"
    logger.warning(
        "endpoint '%s': the answer is empty after cleaning, because all of it was thinking (rule: %s)",
        endpoint,
        rule,
    )


def log_warnings(cleaner: ResponseCleaner, endpoint: str) -> None:
    for warning in cleaner.warnings:
        if warning in cleaner.configuration_warnings:
            _warn_once(endpoint, warning)
        else:
            logger.warning("endpoint '%s': %s", endpoint, warning)


@lru_cache(maxsize=1024)
def _warn_once(endpoint: str, warning: str) -> None:
    """A fault of the configuration is the same for every answer: said once is enough."""
    logger.warning("endpoint '%s': %s", endpoint, warning)


# --------------------------------------------------------------------------
# The keys of the cleaning rules, as all other keys are stated.


Fields = Mapping[str, Mapping[str, Any]]
Rules = tuple[StatedRule, ...]


def rules_now() -> Rules:
    """The rules that there are: what is made of their keys may be kept as long as this stays the same."""
    return tuple(RULES.values())


def _as_key(key: CleaningKey) -> Key:
    """`cleaning` imports nothing of ours, so its keys are values of its own."""
    must, should = (key.shape, {}) if key.strict else ({}, key.shape)
    return Key(key.description, must=must, should=should, default=key.default)


def file_fields(place: Place) -> Fields:
    """Name -> JSON Schema of the keys in the files of a place. One object while the rules are the same."""
    return _file_fields(place, rules_now())


@lru_cache(maxsize=8)
def _file_fields(place: Place, rules: Rules) -> Fields:
    return {name: _as_key(key).schema() for name, key in keys_of(place).items()}


def node_fields(*, strict: bool) -> dict[str, Any]:
    """Name -> JSON Schema of the keys in nodes: those that must be right (`strict`), or those that should."""
    return {
        name: {"x-group": "answer", **key.shape}
        for name, key in keys_of("node").items()
        if key.strict is strict
    }


def node_descriptions(*, of_models: bool) -> dict[str, str]:
    """Name -> sentence of the keys in nodes: those that only mean something with a model, or the others."""
    return {name: _sentence(key) for name, key in keys_of("node").items() if key.of_models is of_models}


def _sentence(key: CleaningKey) -> str:
    """`Texts to remove. Default: false.`; an empty default goes without saying."""
    said = key.default is not None and key.default not in ("", [])
    return f"{key.description} Default: {json.dumps(key.default)}." if said else key.description


hand_in("endpoint", partial(file_fields, "endpoint"))
hand_in("user", partial(file_fields, "user"))
