"""How much of a run's texts is kept when it has ended: long ones lose their middle, what is too much goes.

Works on a trace in place, once. What was left out keeps its length. Source: spec console.md 4 and 16.2.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from Middleware.services.run_trace import CallTrace, NodeTrace, RunTrace, kept_body

HEAD_CHARS = 49_152
TAIL_CHARS = 16_384
TEXT_LIMIT = HEAD_CHARS + TAIL_CHARS
RUN_LIMIT = 2 << 20
OTHER_OUTPUT = 1 << 10
"""So much counts an output that is no text."""


@dataclass(frozen=True, slots=True)
class Cut:
    """A text that is not there whole: `left_out` characters stood between `head` and `tail`."""

    head: str
    tail: str
    left_out: int

    def __len__(self) -> int:
        """Of the whole text."""
        return self.kept_bytes + self.left_out

    @property
    def kept_bytes(self) -> int:
        return len(self.head) + len(self.tail)


def cut_middle(text: str) -> str | Cut:
    """A text as it is kept: itself, or its first three quarters and its last quarter of the limit."""
    left_out = len(text) - TEXT_LIMIT
    return Cut(text[:HEAD_CHARS], text[-TAIL_CHARS:], left_out) if left_out > 0 else text


def keep_within(run: RunTrace, most: int = RUN_LIMIT) -> int:
    """Bring the texts of a run that has ended to their limits. Gives how much they count together."""
    budget = _Budget(most)
    run.asked, run.asked_left_out = budget.body(run.asked, run.asked_left_out)
    for node in run.nodes:
        for call in node.calls:
            call.body, call.body_left_out = budget.body(call.body, call.body_left_out)
            call.raw, call.cleaned = budget.text(call.raw), budget.text(call.cleaned)
            call.thoughts = [budget.text(thought) for thought in call.thoughts]
        node.output = budget.text(node.output)
        node.thoughts = [budget.text(thought) for thought in node.thoughts]
    return budget.kept


def forget_texts(run: RunTrace) -> None:
    """Texts go, their lengths stay."""
    run.keeps_text = False
    run.asked, run.asked_left_out = b"", len(run.asked) + run.asked_left_out
    for node in run.nodes:
        for call in node.calls:
            _forget_call(call)
        _forget_node(node)


def _forget_call(call: CallTrace) -> None:
    call.body, call.body_left_out = b"", len(call.body) + call.body_left_out
    call.headers = call.cleaning = None
    call.raw, call.cleaned = _drop_texts(call.raw), _drop_texts(call.cleaned)
    call.thoughts = [_drop_texts(thought) for thought in call.thoughts]


def _forget_node(node: NodeTrace) -> None:
    node.output = _drop_texts(node.output)
    node.thoughts = [_drop_texts(thought) for thought in node.thoughts]


def _drop_texts(value: Any) -> Any:
    return Cut("", "", len(value)) if isinstance(value, str | Cut) else None


class _Budget:
    """What one run may keep. A text that stands in several places counts once."""

    def __init__(self, most: int) -> None:
        self.kept, self._most = 0, most
        self._known: dict[int, tuple[Any, Any]] = {}

    def text(self, value: Any) -> Any:
        """A text as it is kept; any other output is itself."""
        if value is None or isinstance(value, Cut):
            return value
        if id(value) not in self._known:
            self._known[id(value)] = (value, self._fit_value(value))
        return self._known[id(value)][1]

    def body(self, body: bytes, left_out: int) -> tuple[bytes, int]:
        kept, more = kept_body(body)
        if not self._fits(len(kept)):
            return b"", len(body) + left_out
        return kept, left_out + more

    def _fit_value(self, value: Any) -> Any:
        if not isinstance(value, str):
            return value if self._fits(OTHER_OUTPUT) else None
        made = cut_middle(value if type(value) is str else str.__str__(value))
        return (
            made
            if self._fits(made.kept_bytes if isinstance(made, Cut) else len(made))
            else _drop_texts(value)
        )

    def _fits(self, size: int) -> bool:
        fits = self.kept + size <= self._most
        self.kept += size if fits else 0
        return fits
