"""How much of a prompt its server had been sent before: the numbers of a trace, as the page shows them. Pure.

Private runs have them, too. Source: spec prompt-reuse.md 3.2.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from Middleware.api.console.run_sums import count_of
from Middleware.common.types import JsonObject
from Middleware.services.held_prompts import PromptPlace
from Middleware.services.node_trace import CallTrace
from Middleware.services.run_trace import RunTrace

CHARS_OF_TOKEN = 4
"""Where nobody counted."""
LONG_PROMPT_TOKENS = 2000
AGAIN_SHARE = 0.5


class PromptTokens(NamedTuple):
    """`tokens`: of the prompt. `held`: those that the server had, None: nothing is known. The flags: that
    these are estimates."""

    tokens: int
    is_about: bool
    held: int | None
    held_is_about: bool

    @property
    def new(self) -> int:
        """Those that had to be read."""
        return self.tokens - (self.held or 0)

    @property
    def new_is_about(self) -> bool:
        return self.is_about or self.held_is_about


def prompt_tokens(call: CallTrace) -> PromptTokens | None:
    """As the backend counted; else as the characters say. None: no call of a model, or nothing was sent."""
    counted = count_of(call.usage, "prompt_tokens")
    tokens = counted or -(-call.prompt_chars // CHARS_OF_TOKEN)
    if call.kind != "model" or not tokens:
        return None
    cached = count_of(call.usage, "cached_tokens")
    if counted and cached is not None:
        return PromptTokens(tokens, False, min(cached, tokens), False)
    shared = tokens * call.shared_chars // call.prompt_chars if call.compared and call.prompt_chars else None
    return PromptTokens(tokens, not counted, shared, shared is not None)


def read_again_size(call: CallTrace) -> PromptTokens | None:
    """Of a long prompt that shares less than half of what it could with the best one before; None: it was
    not read again. What a backend counted as held was not read."""
    size = prompt_tokens(call)
    if size is None or size.tokens <= LONG_PROMPT_TOKENS or not call.expected_chars:
        return None
    expected = size.tokens * call.expected_chars / (call.prompt_chars or 1)
    is_again = call.shared_chars < AGAIN_SHARE * call.expected_chars
    return size if is_again and (size.held or 0) < AGAIN_SHARE * expected else None


def held_share(calls: Iterable[CallTrace]) -> float | None:
    """How much of their prompts the servers had, from 0 to 1; None: of none it is known. A call that failed
    is none of them."""
    counted = (prompt_tokens(call) for call in calls if not call.error)
    sizes = [size for size in counted if size is not None and size.held is not None]
    tokens = sum(size.tokens for size in sizes)
    return round(sum(size.held or 0 for size in sizes) / tokens, 3) if tokens else None


def run_share(run: RunTrace) -> float | None:
    """That of all calls of a run."""
    return held_share(call for node in list(run.nodes) for call in list(node.calls))


def prompt_json(call: CallTrace) -> JsonObject | None:
    """`{"tokens", "about", "held", "held_about", "compared", "leaves": {"message", "character", "where"}}`;
    None for what is no call of a model. `message` counts from 1, tools are 0; `where`: in words."""
    size = prompt_tokens(call)
    if size is None:
        return None
    leaves = call.leaves
    place = leaves and {
        "message": leaves.message,
        "character": leaves.character,
        "where": place_words(leaves),
    }
    return {
        "tokens": size.tokens,
        "about": size.is_about,
        "held": size.held,
        "held_about": size.held_is_about,
        "compared": call.compared,
        "leaves": place,
    }


def place_words(place: PromptPlace) -> str:
    """`in the system prompt`, `in message 5 (user)`."""
    if place.role == "tools":
        return "in the tools"
    if place.role == "prompt":
        return "in the prompt"
    if place.role in ("system", "developer") and place.message == 1:
        return "in the system prompt"
    return f"in message {place.message}" + (f" ({place.role})" if place.role else "")
