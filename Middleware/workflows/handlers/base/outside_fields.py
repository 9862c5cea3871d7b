"""Fields that the nodes share which leave the process: time-outs, caps, guards, `onError`, secrets of the
environment.

What is wrong in them is a ConfigError, whatever `onError` says. Source: spec tools.md 1.4, 2 and 11.1.
"""

from __future__ import annotations

import json
import math
import re
import secrets
from collections.abc import Callable, Mapping
from typing import Any

from Middleware.common.errors import ConfigError
from Middleware.common.types import NodeConfig
from Middleware.config.endpoints import ENV_REFERENCE, from_environment
from Middleware.utilities.model_json import is_json
from Middleware.utilities.network_security_utils import AddressPolicy
from Middleware.workflows.models.execution_context import ExecutionContext
from Middleware.workflows.models.node_keys import MAX_SECONDS, Keys, NodeKey, one_of
from Middleware.workflows.variables.format_text import Found, Origin, fill_pieces, join_pieces

_VARIABLE = re.compile(r"[A-Za-z_]\w*")
_EXPRESSION = re.compile(r"\{\{[^{}]*\}\}")


def _read_seconds(value: Any) -> float:
    """A number above 0, or a text that reads as one."""
    number = math.nan
    if isinstance(value, str | int | float) and not isinstance(value, bool):
        try:
            number = float(value)
        except (ValueError, OverflowError):
            number = math.nan
    if not 0 < number <= MAX_SECONDS:
        raise ValueError("a number of seconds above 0")
    return number


def _read_bytes(value: Any) -> int:
    try:
        if isinstance(value, bool) or not isinstance(value, str | int | float):
            raise ValueError
        return max(0, int(value))
    except (ValueError, OverflowError):
        raise ValueError("a whole number of bytes") from None


def _read_flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise ValueError("true or false")
    return value


def _read_hosts(value: Any) -> list[str] | tuple[str, ...]:
    if not isinstance(value, list | tuple) or not all(isinstance(entry, str) for entry in value):
        raise ValueError("a list of host names")
    return value


def choice(*words: str) -> NodeKey:
    """The kind of key that holds one of these words; the first is the default."""

    def read(value: Any) -> str:
        if value not in words:
            raise ValueError(f"one of {', '.join(words)}")
        return str(value)

    return one_of(*words).but(default=words[0], offered=True, read=read)


SECONDS = NodeKey(must={"type": ["number", "string"], "exclusiveMinimum": 0}, read=_read_seconds)
STRICT_FLAG = NodeKey(must={"type": "boolean"}, default=False, offered=True, read=_read_flag)
"""JSON true or false only: `"false"` would count as true elsewhere."""
KEYS: Keys = {
    "blockPrivateAddresses": STRICT_FLAG(
        "Only public addresses can be reached. The connection goes to the address that was checked."
    ),
    "allowedHosts": NodeKey(must={"type": ["array", "null"], "minItems": 1, "items": {"type": "string"}})(
        "The hosts that can be reached: `host`, `host:port`, `.example.org`. Takes variables.",
        read=_read_hosts,
    ),
    "onError": choice("raise", "return")(
        "With `return`, the failure becomes the output, and the run continues. Default: {default}."
    ),
    "maxResponseBytes": NodeKey(must={"type": ["number", "string"]})(
        "The largest answer, in bytes. 0 means no limit. Default: {default}.",
        default=10 * 1024 * 1024,
        read=_read_bytes,
    ),
}
"""What WebFetch and CurlCommand share."""


def byte_cap(context: ExecutionContext) -> int | None:
    """`maxResponseBytes`: None for 0 and less, which mean no cap."""
    return context.value("maxResponseBytes") or None


def returns_errors(context: ExecutionContext) -> bool:
    """Whether a failed call is the node's output (`"onError": "return"`)."""
    return bool(context.value("onError") == "return")


def filled_or_none(context: ExecutionContext, name: str) -> str | None:
    """A filled text; None when it is absent or comes out empty."""
    return context.fill(context.value(name)).strip() or None


def address_policy(context: ExecutionContext) -> AddressPolicy:
    """What the node may reach; the user's `outboundPolicy` can tighten it, never loosen it."""
    block = context.value("blockPrivateAddresses")
    strict = context.user.outbound_policy == "block-private"
    return AddressPolicy(block or strict, _allowed_hosts(context))


def check_proxy(context: ExecutionContext, proxy: str, policy: AddressPolicy) -> None:
    """Under `blockPrivateAddresses`: refuses socks5h, and tells once of any other proxy."""
    if not policy.block_private:
        return
    if proxy.lower().startswith("socks5h:"):
        raise wrong("proxy", "no socks5h proxy beside 'blockPrivateAddresses'")
    if context.snapshot.is_new(f"{context.place}: a proxy beside a guard"):
        context.warn("the proxy resolves names itself, so the checked address cannot be held to")


def _allowed_hosts(context: ExecutionContext) -> tuple[str, ...] | None:
    value = context.value("allowedHosts")
    if value is None:
        return None
    hosts = tuple(host for entry in value if (host := context.fill(entry).strip().lower()))
    if not hosts:
        raise wrong("allowedHosts", "at least one host name")
    return hosts


def is_guarded(config: NodeConfig) -> bool:
    """Whether the node itself sets a guard, for validation."""
    return config.get("blockPrivateAddresses") is True or config.get("allowedHosts") is not None


def fill_with_secrets(context: ExecutionContext, text: str, pointer: str) -> str:
    """`text` filled, each `${ENV:NAME}` of the authored text replaced by that environment variable.

    A mark that nobody can guess stands in for each while variables are filled: inserted values are never
    searched, and a secret is never searched for variables.
    """
    values: dict[str, str] = {}

    def mark(name: str) -> str:
        token = f"env{secrets.token_hex(16)}"
        values[token] = from_environment(name, file=context.workflow_file.file, pointer=pointer)
        return token

    filled = context.fill(ENV_REFERENCE.sub(lambda match: mark(match[1]), text))
    for token, value in values.items():
        filled = filled.replace(token, value)
    return filled


def wrong(field: str, allowed: str) -> ConfigError:
    """What is told of a field that cannot be used; its value may be a secret and is not shown."""
    return ConfigError(f"'{field}' must be {allowed}")


def as_text(value: Any) -> str:
    """A text as it is, any other value as JSON writes it: `true`, `null`, `1.5`. Source: tools.md 3.1."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=dict)


def fill_values(value: Any, fill: Callable[[str], str]) -> Any:
    """A JSON value with the variables of its texts filled; keys and other values stay as they are."""
    if isinstance(value, str):
        return fill(value)
    if isinstance(value, Mapping):
        return {name: fill_values(item, fill) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [fill_values(item, fill) for item in value]
    return value


def filled_text(value: Any, fill: Callable[[str], str]) -> str:
    """A JSON value as a text, its variables filled before it is written: no quote or line end that is filled
    in breaks an object or a list.
    """
    return as_text(fill_values(value, fill))


def quoted_variable_note(text: Any, *, is_jinja: bool) -> str:
    """What `--validate` says of a text that is JSON but for variables, of which one stands between quotes: a
    quote or a line end in its value makes it no JSON. Empty for any other text. Source: tools.md 3.1.
    """
    if not isinstance(text, str) or not text.lstrip().startswith(("{", "[")):
        return ""
    with_word, with_text = (_with_stand_in(text, word, is_jinja=is_jinja) for word in ("0", '"x"'))
    if with_word == with_text or not is_json(with_word) or is_json(with_text):
        return ""
    return "a quote or a line end in a variable between quotes breaks this JSON; write it as an object"


class _StandIn:
    """Gives every variable the same text."""

    def __init__(self, word: str) -> None:
        self._found = Found(word, live=False, origin=Origin.RUN)

    def find(self, name: str) -> Found | None:
        return self._found if _VARIABLE.fullmatch(name) else None


def _with_stand_in(text: str, word: str, *, is_jinja: bool) -> str:
    if is_jinja:  # a template is never rendered for a check
        return _EXPRESSION.sub(lambda found: "0" if "tojson" in found[0] else word, text)
    return join_pieces(fill_pieces(text, _StandIn(word)).pieces)
