"""How many tokens a question has, for the routes that only count and for streams that tell it first. Pure.

Source: spec more-fronts.md 1.4, backends.md 13.4.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from Middleware.common.types import JsonObject, Messages
from Middleware.services.answers import compact_json
from Middleware.utilities.text_utils import estimate_json_tokens, estimate_message_tokens

PER_MESSAGE = 8
PER_IMAGE = 1600


def count_tokens(messages: Messages, tools: Iterable[JsonObject] | None = None) -> int:
    """The estimate of internal messages (a brace in their texts counts more) and of the tools beside them."""
    total = sum(_of_message(message) for message in messages)
    listed = list(tools or ())
    return total + (estimate_json_tokens(compact_json(listed)) if listed else 0)


def _of_message(message: Any) -> int:
    total = (
        estimate_message_tokens(message["content"])
        + PER_MESSAGE
        + PER_IMAGE * len(message.get("images") or ())
    )
    if calls := message.get("tool_calls"):
        total += estimate_json_tokens(compact_json(calls))
    return int(total)
