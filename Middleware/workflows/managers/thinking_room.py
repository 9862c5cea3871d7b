"""Nodes whose answers are too short for a model that thinks: its thoughts use the tokens up.

Says nothing of a model that was not seen to think, or whose preset turns thinking off.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from Middleware.common.errors import ConfigError
from Middleware.config.endpoints import load_endpoint, load_samplers
from Middleware.config.loader import ConfigSnapshot
from Middleware.config.positions import place_findings
from Middleware.config.users import UserSettings
from Middleware.config.validation import WARNING, Finding
from Middleware.llmapis.sampler_translation import deep_merge, thinking_is_off, translate
from Middleware.workflows.managers.known_text import known_text
from Middleware.workflows.managers.user_walk import ModelUse, UserWalk

ENOUGH = 1000
"""Tokens. Thoughts about a short question are mostly shorter; every example has twice as many."""


def short_of_tokens(
    snapshot: ConfigSnapshot, user: UserSettings, walk: UserWalk, thinking: Collection[str]
) -> Iterator[Finding]:
    """A warning for each use of a model in `thinking` (names of endpoints) that has fewer than `ENOUGH`."""
    found: dict[str, list[Finding]] = {}
    for use in walk.model_uses():
        name = known_text(use.endpoint, use.variables)
        limit = _limit(use)
        if (
            name is not None
            and name in thinking
            and limit < ENOUGH
            and not _is_off(snapshot, user, name, use)
        ):
            pointer = f"{use.pointer}/{use.limit_key}" if use.limit_key in use.holder else use.pointer
            message = (
                f"{limit} tokens are few for endpoint {name!r}, whose model thinks: its thoughts may use "
                f"them up, and the answer is empty. Give `{use.limit_key}` at least {ENOUGH}"
            )
            found.setdefault(use.file, []).append(Finding(use.file, pointer, WARNING, message))
    for file, findings in found.items():
        yield from place_findings(findings, snapshot.text(file))


def _limit(use: ModelUse) -> int:
    """As written, or the default; a limit that only a run knows counts as enough."""
    written = use.holder.get(use.limit_key, use.default_limit)
    text = known_text(written, use.variables) if isinstance(written, str) else written
    try:
        return int(text) if text is not None else ENOUGH
    except (TypeError, ValueError):
        return use.default_limit


def _is_off(snapshot: ConfigSnapshot, user: UserSettings, name: str, use: ModelUse) -> bool:
    """Whether the preset of this use tells the model not to think."""
    preset = known_text(use.preset, use.variables)
    try:
        endpoint = load_endpoint(snapshot, user, name)
        samplers = load_samplers(snapshot, user, endpoint, preset)
    except ConfigError:
        return False
    native: Mapping[str, Any] = samplers.block
    if samplers.canonical:
        native = translate(native, endpoint.api_type)
    return thinking_is_off(deep_merge(native, samplers.append or {}), endpoint.api_type)
