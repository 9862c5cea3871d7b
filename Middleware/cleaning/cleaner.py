"""What the model said, turned into what the user sees: all rules in one incremental engine.

The whole text is `feed(text) + finish()`; a stream is the same calls with smaller texts, and gives the
same. Pure: it reads dicts, does no I/O, never logs (see `warnings`) and never raises on any text.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

import Middleware.cleaning.rules  # noqa: F401  (fills RULES)
from Middleware.cleaning.stage import RULES, Chain, Findings, Inputs, reasoning_output


class ResponseCleaner:
    """Cleans one answer. `user_config=None` means both speaker flags off. Source: spec cleaning.md."""

    ORDERS: ClassVar[range] = range(1000)
    """The rules that run, by order."""

    def __init__(
        self,
        endpoint_config: Mapping[str, Any] | None,
        workflow_node_config: Mapping[str, Any] | None,
        *,
        user_config: Mapping[str, Any] | None = None,
        generation_prompt: str | None = None,
    ) -> None:
        endpoint, node = endpoint_config or {}, workflow_node_config or {}
        self.reasoning = reasoning_output(endpoint, node)
        self._findings = Findings(live=self.reasoning != "drop")
        inputs = Inputs(endpoint, node, user_config or {}, generation_prompt, self._findings)
        built = (RULES[order](inputs) for order in sorted(RULES) if order in self.ORDERS)
        self._chain = Chain(stage for stage in built if stage is not None)
        self.configuration_warnings = tuple(self._findings.warnings)

    @property
    def passes_through(self) -> bool:
        """All is decided: every later text comes out as it is."""
        return not self._chain.stages

    @property
    def completed_thoughts(self) -> list[str]:
        """The removed thoughts in order, without tags, one for each closed block so far."""
        return self._findings.completed

    @property
    def has_thought(self) -> bool:
        """Whether a thought has begun. After `finish`: that one was taken out of the text."""
        return bool(self._findings.completed or self._findings.open)

    @property
    def unclosed_thought(self) -> str:
        """After `finish`: the block that never closed and went out as reasoning, or `""`."""
        return self._findings.unclosed

    @property
    def warnings(self) -> list[str]:
        """What the caller should log with the endpoint's name.

        `configuration_warnings` are those of them that say the same of every answer.
        """
        return self._findings.warnings

    def feed(self, text: str | None) -> str:
        """The text that is decided now."""
        if not text:
            return ""
        if not self._chain.stages:
            return text
        return self._chain.feed(text)

    def finish(self, *, may_be_empty: bool = False) -> str:
        """The rest of the text, once, at its end.

        `may_be_empty`: an answer without text stays empty (it is a tool call or a failure), also in a group
        chat.
        """
        self._findings.may_be_empty = may_be_empty
        return self._chain.finish()

    def take_thoughts(self) -> str:
        """The thought text since the last call, also of a block that is still open.

        Always `""` unless `reasoningOutput` is `field` or `inline`.
        """
        taken = "".join(self._findings.fresh)
        self._findings.fresh.clear()
        return taken

    def feed_in_order(self, text: str) -> Iterator[tuple[str, str]]:
        """`feed` and `take_thoughts` in pairs `(thought, text)`: everything in the order in which it came."""
        for piece in self._pieces(text):
            cleaned = self.feed(piece)
            yield self.take_thoughts(), cleaned

    def _pieces(self, text: str) -> Iterator[str]:
        position = 0
        cut_after = self._findings.cut_after
        if cut_after is not None:
            for match in cut_after.finditer(text):
                yield text[position : match.end()]
                position = match.end()
        if position < len(text):
            yield text[position:]
