"""What a node takes over of the client's own parameters: its `clientParameters`, checked. Pure.

A wish is looked at only where a node takes it; what nobody takes may be anything. Source: spec more-fronts.md
13.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from Middleware.common.errors import ClientRequestError
from Middleware.common.request_context import Wish
from Middleware.common.types import JsonObject, NodeConfig
from Middleware.llmapis.dialects.message_building import ANY_OBJECT

_CANONICAL = {"repetition_penalty": "repeat_penalty"}
"""Wish -> canonical sampler, where the names differ (backends.md 4)."""


class _Wrong(ValueError):
    """What the value must be, as the end of a sentence."""


@dataclass(frozen=True, slots=True)
class _Number:
    least: float = -math.inf
    most: float = math.inf
    whole: bool = False

    def __call__(self, value: Any) -> int | float:
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise _Wrong("must be a number")
        if isinstance(value, float) and not math.isfinite(value):
            raise _Wrong("must be a number")
        if self.whole and value != int(value):
            raise _Wrong("must be a whole number")
        if not self.least <= value <= self.most:
            bounds = f"{self.least} or more" if self.most == math.inf else f"from {self.least} to {self.most}"
            raise _Wrong(f"must be {bounds}")
        return int(value) if self.whole else value


def _stops(value: Any) -> list[str] | None:
    texts = [value] if isinstance(value, str) else value
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        raise _Wrong("must be a string or a list of strings")
    return [text for text in texts if text] or None


def _biases(value: Any) -> JsonObject:
    if not isinstance(value, dict):
        raise _Wrong("must be an object of token ids and numbers")
    number = _Number(-100, 100)
    for bias in value.values():
        number(bias)
    return value


def _flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise _Wrong("must be true or false")
    return value


def _schema(value: Any) -> JsonObject | None:
    """The schema of a `response_format`; None: any text will do."""
    kind = value.get("type") if isinstance(value, dict) else None
    if kind == "text":
        return None
    if kind == "json_object":
        return ANY_OBJECT
    if kind == "json_schema":
        holder = value.get("json_schema", value)
        schema = holder.get("schema") if isinstance(holder, dict) else None
        if isinstance(schema, dict) and schema:
            return schema
    raise _Wrong("must ask for a JSON object or contain a JSON schema")


_CHECKS: Mapping[str, Callable[[Any], Any]] = {
    "max_tokens": _Number(1, whole=True),
    "stop": _stops,
    "temperature": _Number(0),
    "top_p": _Number(0, 1),
    "top_k": _Number(-1, whole=True),
    "min_p": _Number(0, 1),
    "seed": _Number(whole=True),
    "presence_penalty": _Number(-2, 2),
    "frequency_penalty": _Number(-2, 2),
    "repetition_penalty": _Number(0),
    "logit_bias": _biases,
    "response_format": _schema,
    "parallel_tool_calls": _flag,
}
_NO_SAMPLERS = ("max_tokens", "response_format", "parallel_tool_calls")


def take_wishes(node: NodeConfig, wishes: Mapping[str, Wish]) -> JsonObject:
    """What one node takes: checked values by name; `response_format` is a schema here. The node's own
    `structuredOutputFile` wins.

    Raises ClientRequestError for a value that cannot be.
    """
    names = node.get("clientParameters") if wishes else None
    taken: JsonObject = {}
    for name in names if isinstance(names, list) else ():
        if name not in wishes or name not in _CHECKS:
            continue
        if name == "response_format" and node.get("structuredOutputFile"):
            continue
        value = _checked_wish(name, wishes[name])
        if value is not None:
            taken[name] = value
    return taken


def token_limit(taken: JsonObject, limit: int) -> int:
    """The node's limit in tokens, or the client's if that is less."""
    wished: int = taken.get("max_tokens", limit)
    return min(limit, wished)


def wished_samplers(taken: JsonObject) -> JsonObject:
    """Those of what a node takes, under their canonical names."""
    return {_CANONICAL.get(name, name): value for name, value in taken.items() if name not in _NO_SAMPLERS}


def _checked_wish(name: str, wish: Wish) -> Any:
    try:
        return _CHECKS[name](wish.value)
    except _Wrong as wrong:
        raise ClientRequestError(f"{wish.field} {wrong}", param=wish.field) from wrong


def refuse_wrong(nodes: Iterable[NodeConfig], wishes: Mapping[str, Wish]) -> None:
    """Raise ClientRequestError if one of these nodes takes a wish that cannot be: before any of them runs."""
    if wishes:
        for node in nodes:
            take_wishes(node, wishes)


def unused_fields(wishes: Mapping[str, Wish], taken: Iterable[str]) -> list[str]:
    """The client's fields that no node took, in the order in which they were read."""
    used = frozenset(taken)
    return [wish.field for name, wish in wishes.items() if name not in used]
