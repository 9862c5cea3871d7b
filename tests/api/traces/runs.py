"""Runs as they are when they have ended, made without a server."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from Middleware.common.request_context import RequestContext
from Middleware.services.node_trace import CallTrace, NodeTrace
from Middleware.services.run_trace import Observers, RunTrace

ARRIVED, WALL = 1000.0, 1_700_000_000.0
NS = 1_000_000_000


class Watcher:
    """An observer that wants texts, so that a run keeps them."""

    def __init__(self, *, keeps_text: bool = True) -> None:
        self.keeps_text = keeps_text

    def note_change(self, run: RunTrace, what: str, node: NodeTrace | None) -> None:
        """Nothing."""


def a_run(observer: Any = None, *, privacy: bool = False, asked: bytes = b"", **facts: Any) -> RunTrace:
    """One of mira's, which arrived at `WALL`, as far as its first workflow."""
    observers = Observers()
    observers.observe(observer or Watcher())
    run = observers.begin("r1", "/v1/chat/completions")
    assert run is not None
    run.arrived, run.wall = ARRIVED, WALL
    run.begin()
    request = RequestContext("r1", "mira", "openaichatcompletion", privacy=privacy)
    run.name(request, front="OpenAI chat", stream=True, asked=asked)
    run.runs("Main", answers=True, discussion="trip3")
    for name, value in facts.items():
        setattr(run, name, value)
    return run


def a_node(run: RunTrace, number: int = 1, title: str = "Answer", **facts: Any) -> NodeTrace:
    """One that ended, a second after its begin."""
    begun = ARRIVED + number
    made = {"state": "done", "begun": begun, "ended": begun + 1, **facts}
    node = NodeTrace("Workflows/mira/Main.json", number, "Standard", title, **made)
    return run.node(node).node


def a_call(node: NodeTrace, kind: str = "model", **facts: Any) -> CallTrace:
    made: Mapping[str, Any] = {
        "outcome": "stop",
        "begun": node.begun + 0.25,
        "ended": node.begun + 0.75,
        "url": "http://127.0.0.1:8080/v1/chat/completions",
        **facts,
    }
    call = CallTrace(
        kind, made.get("endpoint", "Big"), made.get("backend", "openAIChatCompletion"), made.get("model", "m")
    )
    for name, value in made.items():
        setattr(call, name, value)
    node.calls.append(call)
    return call


def end(run: RunTrace, state: str = "done") -> RunTrace:
    """Ten seconds after its arrival."""
    run.ended, run.state = ARRIVED + 10, state
    run.tell("ended")
    return run
