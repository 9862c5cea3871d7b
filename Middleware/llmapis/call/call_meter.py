"""What one call to a priced endpoint costs, counted as its answer goes by.

What a backend does not report is estimated: the prompt, and what came of the answer. Holds the answer's texts
until the call ends; a call of an endpoint without a price has no meter. Source: spec operate.md 5.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from Middleware.common.costs import Cost
from Middleware.common.types import Batch, JsonObject
from Middleware.config.prices import Price
from Middleware.llmapis.dialects.event_mapping import count_of
from Middleware.llmapis.llm_text import LlmText
from Middleware.services.answers import full_usage

BROKEN_OFF = ("cancelled", "closed", "dropped")
"""How calls end that somebody ends: what had come of them is paid for."""
_COUNTS = ("prompt_tokens", "completion_tokens")


class CallMeter:
    """One call. `prompt_tokens()`: an estimate of its prompt. `generates`: False: the backend writes nothing.
    `sent`: its body has left for the backend."""

    def __init__(self, price: Price, prompt_tokens: Callable[[], int], *, generates: bool = True) -> None:
        self._price, self._prompt_tokens, self._generates = price, prompt_tokens, generates
        self._texts: list[str] = []
        self._thoughts: list[str] = []
        self._settled: Cost | None = None
        self._lost: Cost | None = None
        self.sent = False

    def note_batch(self, batch: Batch) -> None:
        """Part of a stream. Its finishing dict is told what the call cost."""
        for chunk in batch:
            if chunk["token"]:
                self._texts.append(chunk["token"])
            if thinking := chunk.get("thinking"):
                self._thoughts.append(thinking)
            if chunk["finish_reason"] is not None and "error" not in chunk:
                chunk["cost"] = self.settle(chunk.get("usage"))

    def note_answer(self, answer: LlmText | JsonObject) -> None:
        """A whole answer. It is told what the call cost."""
        facts = answer if isinstance(answer, dict) else vars(answer)
        text = answer.get("content") if isinstance(answer, dict) else str(answer)
        self._thoughts, self._texts = [facts.get("thinking") or ""], [text or ""]
        facts["cost"] = self.settle(facts.get("usage"))

    def note_lost_answer(self, usage: Mapping[str, Any] | None) -> None:
        """What came was no good, and is asked for once more: it is paid for, too."""
        self._lost = self._cost_of(usage)
        self._texts, self._thoughts, self._settled = [], [], None

    def settle(self, usage: Mapping[str, Any] | None) -> Cost:
        """The answer is complete, and this is what the backend reports of it."""
        self._settled = self._cost_of(usage)
        return self._settled

    def cost_at_end(self, usage: Mapping[str, Any] | None, outcome: str) -> Cost | None:
        """What all of the call cost, now that it ended so; None: it failed before anything came."""
        last = self._settled
        has_come = usage or self._texts or self._thoughts
        if last is None and (has_come or (self.sent and outcome in BROKEN_OFF)):
            last = self._cost_of(usage)
        if last is None or self._lost is None:
            return last or self._lost
        both = last.millionths + self._lost.millionths
        return Cost(last.currency, both, last.about or self._lost.about)

    def _cost_of(self, usage: Mapping[str, Any] | None) -> Cost:
        """Of these numbers, with estimates in place of those that are missing."""
        told = dict(usage or {})
        if not self._generates:
            told.setdefault("completion_tokens", 0)
        is_estimated = any(count_of(told.get(name)) is None for name in _COUNTS)
        full = full_usage(told, lambda: "".join([*self._thoughts, *self._texts]), self._prompt_tokens)
        return self._price.cost_of(full, about=is_estimated)
