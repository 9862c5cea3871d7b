"""Samplers and the other values of a preset: from canonical names to one API's. Pure; reads no file.

Source: spec backends.md 4. The canonical names are llama.cpp's.
"""

from __future__ import annotations

import copy
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from Middleware.config.endpoints import API_TYPE_KEYS, THINKING_KEYS
from Middleware.config.samplers import SAMPLER_KEYS

logger = logging.getLogger(__name__)

CANONICAL_SAMPLERS = frozenset(SAMPLER_KEYS) - {"thinkingMode", "chat_template_kwargs"}

NULL_ON_THE_WIRE = "__wilmer_null__"
"""A preset value that is sent as a real null."""

UNTOUCHED_OBJECTS = frozenset(("json_schema", "grammar"))

_OFF = frozenset(("off", "false", "no", "0", "none", "disabled"))
_LEVELS = frozenset(("low", "medium", "high"))


def deep_merge(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """`over` on top of `base`: objects on both sides merge, all else is replaced. A new dict."""
    merged = {key: copy.deepcopy(value) for key, value in base.items()}
    for key, value in over.items():
        below = merged.get(key)
        if isinstance(below, dict) and isinstance(value, Mapping):
            merged[key] = deep_merge(below, value)
        else:
            merged[key] = copy.deepcopy(value)
    return merged


def translate(
    block: Mapping[str, Any], apitype: Mapping[str, Any], *, of: str = "presetSamplers"
) -> dict[str, Any]:
    """Canonical samplers -> native fields of the API type, in the block's order. Losses are warned of, as
    such of `of`.
    """
    names: Mapping[str, str] = API_TYPE_KEYS["samplerFieldMap"].value_in(apitype, "samplerFieldMap")
    label = apitype.get("nameForDisplayOnly") or apitype.get("type") or "API type"
    native: dict[str, Any] = {}
    for key, value in block.items():
        if key in ("thinkingMode", "chat_template_kwargs"):
            continue
        if key in names:
            native[names[key]] = copy.deepcopy(value)
        elif key in CANONICAL_SAMPLERS:
            logger.warning(
                "%s: '%s' was dropped, because this API type does not support it (%s)", of, key, label
            )
        else:
            logger.warning(
                "%s: '%s' was dropped, because it is unknown and probably a typo (%s)", of, key, label
            )
    if "thinkingMode" in block:
        native = deep_merge(native, resolve_thinking(block["thinkingMode"], apitype))
    raw = block.get("chat_template_kwargs")
    if raw is None:
        return native
    if not API_TYPE_KEYS["supportsChatTemplateKwargs"].value_in(apitype, "supportsChatTemplateKwargs"):
        logger.warning("%s: chat_template_kwargs was dropped, because %s does not support it", of, label)
        return native
    return deep_merge(native, {"chat_template_kwargs": raw})


def resolve_thinking(mode: Any, apitype: Mapping[str, Any]) -> dict[str, Any]:
    """The payload fragment for a `thinkingMode`; `{}`: nothing to send (unsupported: warns)."""
    wanted = str(mode).strip().lower()
    rule = apitype.get("thinking")
    rule = rule if isinstance(rule, Mapping) else {}
    field = rule.get("field")
    values = _THINKING_VALUES.get(str(rule.get("mode") or "unsupported"))
    if values is None or not isinstance(field, str) or not field:
        logger.warning("thinkingMode '%s' was dropped, because this API type does not support it", wanted)
        return {}
    value = values.of(wanted)
    if value is None:
        return {}
    if THINKING_KEYS["location"].value_in(rule, "location") == "chat_template_kwargs":
        return {"chat_template_kwargs": {field: value}}
    return {field: value}


def thinking_is_off(native: Mapping[str, Any], apitype: Mapping[str, Any]) -> bool:
    """Whether native fields tell the backend not to think."""
    rule = apitype.get("thinking")
    if not isinstance(rule, Mapping) or rule.get("mode") not in _THINKING_VALUES or not rule.get("field"):
        return False
    off = resolve_thinking("off", apitype)
    return bool(off) and deep_merge(native, off) == native


@dataclass(frozen=True, slots=True)
class _ThinkingValues:
    """What one `thinking.mode` sends. `off` None: nothing; `level` None: the level itself, as text."""

    off: bool | None
    level: bool | None
    on: bool | str

    def of(self, wanted: str) -> bool | str | None:
        if wanted in _OFF:
            return self.off
        if wanted in _LEVELS:
            return wanted if self.level is None else self.level
        return self.on


_THINKING_VALUES = {
    "bool": _ThinkingValues(off=False, level=True, on=True),
    "effort": _ThinkingValues(off=None, level=None, on="medium"),
    "boolOrEffort": _ThinkingValues(off=False, level=None, on=True),
}


def apply_structural_fields(
    gen: Mapping[str, Any],
    apitype: Mapping[str, Any],
    *,
    stream: bool,
    context_size: int | None,
    max_tokens: int | None,
) -> dict[str, Any]:
    """`gen` with the stream flag, the context size and the answer limit, each under the API type's own name.

    A name that is `""`, null or absent is off. A null in `gen` under the size or limit key
    switches it off; the stream flag always overwrites. `context_size` None: the preset's value stays.
    """
    fields = dict(gen)
    if name := apitype.get("streamPropertyName"):
        fields[name] = stream
    name = apitype.get("truncateLengthPropertyName")
    if name and context_size is not None and not _switched_off(fields, name):
        fields[name] = context_size
    name = apitype.get("maxNewTokensPropertyName")
    if not name:
        logger.warning(
            "API type %s has no maxNewTokensPropertyName, so no limit for the answer is sent",
            apitype.get("nameForDisplayOnly") or apitype.get("type"),
        )
    elif max_tokens is not None and not _switched_off(fields, name):
        fields[name] = max_tokens
    return fields


def _switched_off(fields: Mapping[str, Any], name: str) -> bool:
    return name in fields and fields[name] is None


def stop_texts_listed(gen: dict[str, Any], name: str, takes_blank: bool) -> dict[str, Any]:
    """`gen` with its stop texts under `name` as a list, one text too. Without those that are empty or, unless
    the API takes them, blank; none left: no key. `name` empty: nothing is changed.
    """
    value = gen.get(name)
    if not isinstance(value, (str, list)):
        return gen
    texts = [value] if isinstance(value, str) else value
    kept = [text for text in texts if not isinstance(text, str) or (text if takes_blank else text.strip())]
    if kept:
        return {**gen, name: kept}
    return {key: other for key, other in gen.items() if key != name}


def normalize_gen_input(gen: Mapping[str, Any]) -> dict[str, Any]:
    """For the wire: nulls and empty objects left out, `"__wilmer_null__"` a real null. A new dict."""
    kept: dict[str, Any] = {}
    for key, value in gen.items():
        if value is None:
            continue
        if value == NULL_ON_THE_WIRE:
            kept[key] = None
        elif isinstance(value, Mapping) and key not in UNTOUCHED_OBJECTS:
            if inner := normalize_gen_input(value):
                kept[key] = inner
        else:
            kept[key] = value
    return kept
