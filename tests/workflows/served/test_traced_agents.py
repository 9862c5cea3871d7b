"""What is told of an agent's steps and tools to whoever observes its run: agents.md 6."""

from __future__ import annotations

import json
from typing import Any

import pytest

from Middleware.api.console.stood_out import stood_out
from Middleware.api.wsgi.metrics import Metrics
from tests.workflows.agents.conftest import Bench, asks, call
from tests.workflows.served.conftest import Recorder, observe


class Traced:
    """An agent behind a door, and those who observe its run."""

    def __init__(self, house: Any, served: Any) -> None:
        self.house, self.served = house, served
        self.bench = Bench(house, stream=False)
        self.recorder = observe(served, Recorder())
        self.metrics = observe(served, Metrics())

    def ask(self, *replies: Any, **fields: Any) -> None:
        self.house.model.replies = list(replies)
        self.house.workflow("Main", {**self.bench.node, "title": "Librarian", **fields})
        self.served.save_user()
        assert self.served.text() == "ok"


@pytest.fixture
def traced(house, served):
    return Traced(house, served)


def calls_of(node):
    return [(one.kind, one.backend if one.tool is not None else "", one.outcome) for one in node.calls]


class TestTheTrace:
    def test_steps_and_tools_in_their_order(self, traced):
        """Each tool with its arguments and its result; the nodes of a workflow hang below."""
        traced.ask(asks(call(path="a"), call("rm", "c2")), "ok")
        agent, child = traced.recorder.run.nodes
        assert [kind for kind, _, _ in calls_of(agent)] == ["tool", "workflow"]
        refused, read = agent.calls
        assert (refused.tool, refused.outcome) == ("", "refused")
        assert (read.tool, read.backend, read.outcome) == ("read_file", "read_file", "done")
        assert json.loads(read.body) == {"tool": "read_file", "arguments": '{"path": "a"}'}
        assert read.raw == "text of a"
        assert read.begun <= read.ended
        assert (child.parent, child.label, child.depth) == (agent, "read_file", 1)
        assert agent.steps == 2

    def test_a_private_run_keeps_no_text(self, traced):
        """Names and times alone."""
        traced.recorder.keeps_text = False
        traced.house.workflow("Read", {"type": "Standard", "endpointName": "nowhere", "prompt": "x"})
        traced.ask(asks(call(path="secret")), "ok")
        [read] = traced.recorder.run.nodes[0].calls
        assert (read.raw, read.body, read.outcome) == (None, b"", "failed")

    def test_what_stood_out(self, traced):
        """The limit, and the tool that failed."""
        traced.house.workflow("Read", {"type": "Standard", "endpointName": "nowhere", "prompt": "x"})
        traced.ask(asks(call(path="a")), "ok", maxSteps=1)
        told = {one["rule"]: one["text"] for one in stood_out(traced.recorder.run, 1e9)}
        assert told["limit_reached"] == "Librarian stopped calling tools: maxSteps (1)."
        assert told["tool_failed"].startswith("The tool read_file failed in Librarian: ")

    def test_numbers(self, traced):
        """By tool and outcome; a name that a model made up is no label."""
        traced.ask(asks(call(path="a"), call("made-up", "c2"), call(call_id="c3", path=1)), "ok")
        _, body = traced.metrics.exposition()
        shown = body.decode()
        assert 'headrace_tool_calls_total{outcome="ok",tool="read_file"} 1.0' in shown
        assert 'headrace_tool_calls_total{outcome="refused",tool="other"} 1.0' in shown
        assert 'headrace_tool_calls_total{outcome="refused",tool="read_file"} 1.0' in shown
        assert "headrace_agent_steps_sum 2.0" in shown
        assert "made-up" not in shown
