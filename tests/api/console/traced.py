"""Traces as a run leaves them, for tests of what is read from them. Times count from the arrival, at 100."""

from __future__ import annotations

from Middleware.services.node_trace import CallTrace, NodeTrace
from Middleware.services.run_trace import Observers, RunTrace

ARRIVED = 100.0
FILE = "Workflows/mira/Reviewers.json"
TIMES = ("begun", "first_text", "answered", "ended", "sent", "first", "thought")


def _at(values):
    """Times count from the arrival; None is "not yet"."""
    return {k: (0.0 if v is None else ARRIVED + v) if k in TIMES else v for k, v in values.items()}


def run_of(*nodes, **facts):
    facts = {"wall": 1_760_000_000.0, "user": "mira", "state": "done", **facts}
    made = RunTrace("r1", "/v1/chat/completions", Observers(), arrived=ARRIVED)
    for name, value in _at({"begun": 0.0, **facts}).items():
        setattr(made, name, value)
    made.nodes = list(nodes)
    return made


def node_of(number, title="", *calls, **facts):
    facts = _at({"state": "done", "begun": 0.0, **facts})
    made = NodeTrace(facts.pop("workflow", FILE), number, facts.pop("type", "Standard"), title)
    for name, value in facts.items():
        setattr(made, name, value)
    made.calls = list(calls)
    return made


def call_of(endpoint="Big", **facts):
    facts = {
        "begun": 0.0,
        "kind": "model",
        "backend": "openAIChatCompletion",
        "model": "big-32b",
        **_at(facts),
    }
    made = CallTrace(facts.pop("kind"), endpoint, facts.pop("backend"), facts.pop("model"))
    for name, value in facts.items():
        setattr(made, name, value)
    return made
