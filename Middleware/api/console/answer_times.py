"""The times of a run as its answer has them: queue, other nodes, first word, thinking, saying, after. Pure.

Source: spec console.md 6.2.
"""

from __future__ import annotations

from Middleware.services.run_trace import NodeTrace, RunTrace


class AnswerTimes:
    """Parts of a run, in seconds. `now`: of `time.monotonic()`; a part that is not over ends now.

    `answering`: the node that answers, None before one has begun. `thoughts`: what it thought. `first_s`:
    from arrival to the first text, None before it. `think_s`: 0 where no thought came before the text.
    `took_s`: from arrival to the end.
    """

    def __init__(self, run: RunTrace, now: float) -> None:
        end = run.ended or now
        self.answering = answering_node(run)
        self.took_s = end - run.arrived
        self.queue_s = (run.begun or end) - run.arrived
        begun = self.answering.begun if self.answering is not None else end
        self.other_s = max(begun - run.begun, 0.0) if run.begun else 0.0
        self.first_s = run.first_text - run.arrived if run.first_text else None
        self.thoughts = _thoughts(self.answering)
        self.think_s = self._think(run, end)

    def _think(self, run: RunTrace, end: float) -> float:
        """From the first thing that the backend sent to the first text, if there was a thought between them.
        Without a text to the answer's end."""
        calls = list(self.answering.calls) if self.answering is not None else []
        call = next((call for call in reversed(calls) if call.first), None)
        text = run.first_text or run.answered
        if call is None or not call.thought or (text and call.thought > text):
            return 0.0
        return max((text or end) - call.first, 0.0)


def answering_node(run: RunTrace) -> NodeTrace | None:
    """The innermost node that answers the client. A parent whose child answers began before it."""
    return next((node for node in reversed(list(run.nodes)) if node.answers), None)


def _thoughts(node: NodeTrace | None) -> list[str]:
    if node is None:
        return []
    return list(node.thoughts) or [thought for call in list(node.calls) for thought in call.thoughts]
