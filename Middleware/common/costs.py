"""What calls cost: whole millionths of a currency, as sums of money are not counted in floats. Pure.

Currencies are never added. Source: spec operate.md 5.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from decimal import Decimal
from typing import NamedTuple

MILLION = 1_000_000


class Cost(NamedTuple):
    """A sum of one currency. `about`: tokens in it were estimated."""

    currency: str
    millionths: int
    about: bool = False


def add_costs(costs: Iterable[Cost]) -> tuple[Cost, ...]:
    """One sum for each currency, by name."""
    sums: dict[str, Cost] = {}
    for cost in costs:
        before = sums.get(cost.currency, Cost(cost.currency, 0))
        both = before.millionths + cost.millionths
        sums[cost.currency] = Cost(cost.currency, both, before.about or cost.about)
    return tuple(sums[name] for name in sorted(sums))


def amounts_of(costs: Iterable[Cost]) -> dict[str, float]:
    """`{"USD": 0.0123}`, as clients are told it."""
    return {cost.currency: cost.millionths / MILLION for cost in costs}


def cost_text(costs: Iterable[Cost]) -> str:
    """`0.0123 USD`, `about 0.50 EUR and 0.0123 USD`; empty: nothing has a price."""
    costs = tuple(costs)
    about = "about " if any(cost.about for cost in costs) else ""
    said = " and ".join(f"{decimal_text(cost.millionths)} {cost.currency}" for cost in costs)
    return f"{about}{said}" if costs else ""


def decimal_text(millionths: int) -> str:
    """The amount, exactly, with at least two decimals."""
    whole, _, rest = f"{Decimal(millionths).scaleb(-6):.6f}".partition(".")
    return f"{whole}.{rest.rstrip('0').ljust(2, '0')}"


def costs_json(costs: Iterable[Cost]) -> Mapping[str, object] | None:
    """`{"amounts": {"USD": 0.0123}, "about": false}`; None: nothing has a price."""
    costs = tuple(costs)
    return {"amounts": amounts_of(costs), "about": any(cost.about for cost in costs)} if costs else None


class CostSum:
    """What the calls of one request have cost so far, and, where that is counted, how many tokens they took.
    Calls that run at the same time may add.

    Work that goes on when the request has ended says so (`begin_late_work`): when it is over, the sum is
    final.
    """

    __slots__ = ("_costs", "_guard", "_late", "_when_final", "completion", "prompt")

    def __init__(self) -> None:
        self.prompt = self.completion = 0
        self._costs: tuple[Cost, ...] = ()
        self._late = 0
        self._when_final: list[Callable[[], object]] = []
        self._guard = threading.Lock()

    def add(self, cost: Cost | None) -> None:
        """None: a call without a price."""
        if cost is not None:
            with self._guard:
                self._costs = add_costs((*self._costs, cost))

    def add_tokens(self, prompt: int, completion: int) -> None:
        with self._guard:
            self.prompt += prompt
            self.completion += completion

    def costs(self) -> tuple[Cost, ...]:
        """One sum for each currency."""
        return self._costs

    def begin_late_work(self) -> None:
        """Something begins that may add when the request has ended; `end_late_work` ends it."""
        with self._guard:
            self._late += 1

    def end_late_work(self) -> None:
        """It is over, in the thread that did it."""
        with self._guard:
            self._late -= 1
            ready = [] if self._late else self._when_final
            self._when_final = self._when_final if self._late else []
        for act in ready:
            act()

    def when_final(self, act: Callable[[], object]) -> None:
        """The request has ended. Calls `act` once nothing is added any more: now, or in the thread that adds
        last."""
        with self._guard:
            is_final = not self._late
            if not is_final:
                self._when_final.append(act)
        if is_final:
            act()
