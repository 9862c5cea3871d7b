"""What each cleaning rule took from an answer: the rules run again, one after the other, over the whole text.

Pure. What is computed here is compared with what the run did; where the two differ nothing is claimed.
Source: spec console.md 8.5.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from Middleware.cleaning import ResponseCleaner
from Middleware.cleaning.stage import RULES, Chain, Findings, Inputs, reasoning_output

LAST_OF_THOUGHTS = 199
"""The highest order of a rule that takes thoughts."""


class Step(NamedTuple):
    """A rule that changed the text, and the text behind it."""

    rule: str
    order: int
    text: str


def steps(raw: object, cleaned: object, cleaning: tuple[Any, ...] | None) -> dict[str, Any]:
    """`{"agrees": bool, "steps": [{"rule", "order", "text"}]}`.

    `raw`, `cleaned`: the texts before and after, as they were kept. `cleaning`: what they were cleaned by
    (endpoint, node, user, opening), None: nothing cleaned. A text that was not kept whole, and one that
    comes out otherwise than in the run, gives no steps and does not agree.
    """
    found = cleaning_steps(raw, cleaned, cleaning)
    shown = [step._asdict() for step in found or ()]
    return {"agrees": found is not None, "steps": shown}


def cleaning_steps(raw: object, cleaned: object, cleaning: tuple[Any, ...] | None) -> list[Step] | None:
    """The steps that lead from the one text to the other; None when they are not those of the run."""
    if not isinstance(raw, str) or not isinstance(cleaned, str):
        return None
    if cleaning is None:
        return [] if raw == cleaned else None
    for inputs in _ways(cleaning, may_be_empty=not cleaned):
        found = list(_steps(raw, inputs))
        if (found[-1].text if found else raw) == cleaned:
            return found
    return None


def _ways(cleaning: tuple[Any, ...], *, may_be_empty: bool) -> Iterator[Inputs]:
    """How a text may have been cleaned: with the thoughts routed as the files say, or dropped, as in a node
    that does not answer and for a client that wants none."""
    endpoint, node, user, opening = (*cleaning, *(None,) * 4)[:4]
    endpoint, node, user = endpoint or {}, node or {}, user or {}
    routed = reasoning_output(endpoint, node) != "drop"
    for live in (True, False) if routed else (False,):
        yield _inputs(endpoint, node, user, opening, Findings(live=live, may_be_empty=may_be_empty))


def _inputs(
    endpoint: Mapping[str, Any],
    node: Mapping[str, Any],
    user: Mapping[str, Any],
    opening: Any,
    kept: Findings,
) -> Inputs:
    return Inputs(endpoint, node, user, opening if isinstance(opening, str) else None, kept)


def _steps(text: str, inputs: Inputs) -> Iterator[Step]:
    for order in sorted(RULES):
        if order not in ResponseCleaner.ORDERS:
            continue
        rule = RULES[order]
        stage = rule(inputs)
        if stage is None:
            continue
        chain = Chain([stage])
        behind = chain.feed(text) + chain.finish()
        if behind != text:
            text = behind
            yield Step(rule.name, order, text)
