"""What one call takes and costs, counted as its answer goes by: of an endpoint with a price, or for a key.

What a backend does not report is estimated: the prompt, and what came of the answer. Holds the answer's texts
until the call ends; a call that nobody counts has no meter. Source: spec operate.md 5, keys.md 4.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from operator import itemgetter
from typing import Any, NamedTuple

from Middleware.common.costs import Cost
from Middleware.common.types import Batch, Chunk, JsonObject, TextBatch
from Middleware.config.prices import Price
from Middleware.llmapis.dialects.event_mapping import count_of
from Middleware.llmapis.llm_text import LlmText
from Middleware.services.answers import full_usage
from Middleware.utilities.text_utils import estimate_tokens

BROKEN_OFF = ("cancelled", "closed", "dropped")
"""How calls end that somebody ends: what had come of them is paid for."""
_COUNTS = ("prompt_tokens", "completion_tokens")


class CallUse(NamedTuple):
    """What a call took, in tokens. `cost`: None: its endpoint has no price."""

    prompt: int
    completion: int
    cost: Cost | None = None

    def plus(self, other: CallUse) -> CallUse:
        """Both, of one endpoint."""
        cost = self.cost or other.cost
        if self.cost is not None and other.cost is not None:
            both = self.cost.millionths + other.cost.millionths
            cost = Cost(self.cost.currency, both, self.cost.about or other.cost.about)
        return CallUse(self.prompt + other.prompt, self.completion + other.completion, cost)


_token_of: Callable[[Chunk], str] = itemgetter("token")


class CallMeter:
    """One call. `price`: None: only its tokens count. `prompt_tokens()`: an estimate of its prompt.
    `generates`: False: the backend writes nothing. `sent`: its body has left for the backend."""

    def __init__(
        self, price: Price | None, prompt_tokens: Callable[[], int], *, generates: bool = True
    ) -> None:
        self._price, self._prompt_tokens, self._generates = price, prompt_tokens, generates
        self._texts: list[str] = []
        self._thoughts: list[str] = []
        self._settled: CallUse | None = None
        self._lost: CallUse | None = None
        self.sent = False

    def note_batch(self, batch: Batch, *, only_text: bool = False) -> None:
        """Part of a stream. Its finishing dict is told what the call cost. `only_text`: it is known that its
        dicts say nothing else, as nearly all do: then it takes a third of the time.
        """
        if isinstance(batch, TextBatch):
            self._texts.append(batch.text)
            return
        self._texts.extend(map(_token_of, batch))
        if only_text:
            return
        for chunk in batch:
            if thinking := chunk.get("thinking"):
                self._thoughts.append(thinking)
            if chunk["finish_reason"] is not None and "error" not in chunk:
                told: Mapping[str, Any] | None = chunk.get("usage")
                cost = self.settle(self._told_of_all(told) if "truncated" in chunk else told).cost
                if cost is not None:
                    chunk["cost"] = cost

    def note_answer(self, answer: LlmText | JsonObject) -> None:
        """A whole answer. It is told what the call cost."""
        facts = answer if isinstance(answer, dict) else vars(answer)
        text = answer.get("content") if isinstance(answer, dict) else str(answer)
        self._thoughts, self._texts = [facts.get("thinking") or ""], [text or ""]
        cost = self.settle(facts.get("usage")).cost
        if cost is not None:
            facts["cost"] = cost

    def note_lost_answer(self, usage: Mapping[str, Any] | None) -> None:
        """What came was no good, and is asked for once more: it is paid for, too."""
        self._lost = self._use_of(usage)
        self._texts, self._thoughts, self._settled = [], [], None

    def settle(self, usage: Mapping[str, Any] | None) -> CallUse:
        """The answer is complete, and this is what the backend reports of it."""
        self._settled = self._use_of(usage)
        return self._settled

    def use_at_end(self, usage: Mapping[str, Any] | None, outcome: str) -> CallUse | None:
        """What all of the call took, now that it ended so; None: it failed before anything came."""
        last = self._settled
        has_come = usage or any(self._texts) or self._thoughts
        if last is None and (has_come or (self.sent and outcome in BROKEN_OFF)):
            last = self._use_of(self._told_of_all(usage))
        if last is None or self._lost is None:
            return last or self._lost
        return last.plus(self._lost)

    def _told_of_all(self, usage: Mapping[str, Any] | None) -> Mapping[str, Any]:
        """Of an answer that has no end: a backend that tells its numbers as it goes, or at the start, has
        told of what came up to there.
        """
        told = dict(usage or {})
        came = estimate_tokens("".join([*self._thoughts, *self._texts]))
        if (count_of(told.get("completion_tokens")) or 0) < came:
            told.pop("completion_tokens", None)
        return told

    def _use_of(self, usage: Mapping[str, Any] | None) -> CallUse:
        """Of these numbers, with estimates in place of those that are missing."""
        told = dict(usage or {})
        if not self._generates:
            told.setdefault("completion_tokens", 0)
        full = full_usage(told, lambda: "".join([*self._thoughts, *self._texts]), self._prompt_tokens)
        prompt, completion = max(0, full["prompt_tokens"]), max(0, full["completion_tokens"])
        if self._price is None:
            return CallUse(prompt, completion)
        is_estimated = any(count_of(told.get(name)) is None for name in _COUNTS)
        return CallUse(prompt, completion, self._price.cost_of(full, about=is_estimated))
