"""What an endpoint's tokens cost (`pricePerMillionTokens`). Source: spec operate.md 5."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from Middleware.common.costs import Cost
from Middleware.config.keys import NUMBER, TEXT, object_of

DEFAULT_CURRENCY = "USD"

MOST = 1_000_000_000
"""More is a slip of the keyboard, and its sums would leave the range of numbers."""

PRICE_KEYS = {
    "input": NUMBER("Price of the tokens of prompts.", required=True, minimum=0, maximum=MOST),
    "output": NUMBER("Price of the tokens of answers.", required=True, minimum=0, maximum=MOST),
    "cached": NUMBER(
        "Price of prompt tokens that the server still held; absent: `input`.", minimum=0, maximum=MOST
    ),
    "cacheWrite": NUMBER(
        "Price of prompt tokens that the server keeps for the next prompt; absent: `input`.",
        minimum=0,
        maximum=MOST,
    ),
    "currency": TEXT(
        "Currency of these prices.",
        default=DEFAULT_CURRENCY,
        pattern=r"^\S{1,16}$",
        allowed="a word without blanks, such as USD",
    ),
}
PRICE = object_of(PRICE_KEYS)


@dataclass(frozen=True, slots=True)
class Price:
    """Of one million tokens of each kind, exactly as written."""

    input: Fraction
    output: Fraction
    cached: Fraction
    cache_write: Fraction
    currency: str = DEFAULT_CURRENCY

    @classmethod
    def of(cls, found: Any) -> Price | None:
        """As `pricePerMillionTokens` says; None for what is no price."""
        if not isinstance(found, Mapping):
            return None
        parts = {name: _amount(found.get(name)) for name in ("input", "output", "cached", "cacheWrite")}
        sent, said = parts["input"], parts["output"]
        if sent is None or said is None:
            return None
        held, written = parts["cached"], parts["cacheWrite"]
        return cls(
            sent,
            said,
            sent if held is None else held,
            sent if written is None else written,
            str(PRICE_KEYS["currency"].value_in(found, "currency")),
        )

    def cost_of(self, usage: Mapping[str, Any], *, about: bool = False) -> Cost:
        """Of one call: `prompt_tokens` (the held and the written ones among them), `completion_tokens`,
        `cached_tokens`, `cache_write_tokens`; what is missing is 0. Rounded to whole millionths. `about`: the
        numbers are estimates.
        """
        prompt = _count(usage, "prompt_tokens")
        held = min(_count(usage, "cached_tokens"), prompt)
        written = min(_count(usage, "cache_write_tokens"), prompt - held)
        spent = (
            (prompt - held - written) * self.input
            + held * self.cached
            + written * self.cache_write
            + _count(usage, "completion_tokens") * self.output
        )
        return Cost(self.currency, int(spent + Fraction(1, 2)), about)


def _amount(found: Any) -> Fraction | None:
    """The number as people wrote it: 0.1 is a tenth."""
    if isinstance(found, bool) or not isinstance(found, int | float) or not 0 <= found <= MOST:
        return None
    return Fraction(str(found))


def _count(usage: Mapping[str, Any], name: str) -> int:
    count = usage.get(name)
    return max(0, count) if isinstance(count, int) and not isinstance(count, bool) else 0
