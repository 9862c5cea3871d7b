"""Nodes that are not run again: what they gave before stands in for them. Source: spec workbench.md 3."""

from __future__ import annotations

from typing import Any

import pytest

from Middleware.common.request_context import ClientQuestion
from Middleware.services.rerun import KeptNode, Rerun
from tests.workflows.conftest import collect


def say(content: str, **fields: Any) -> dict[str, Any]:
    return {"type": "StaticResponse", "content": content, **fields}


def ask(prompt: str = "p", **fields: Any) -> dict[str, Any]:
    return {"type": "Standard", "endpointName": "chat", "prompt": prompt, **fields}


@pytest.fixture
def again(house):
    """Runs nodes once more with what some of them gave. `files`: whose nodes were asked about."""
    files: list[str] = []

    def run(kept, *nodes, stream=False):
        house.workflow("Main", *nodes)
        manager = house.manager()
        manager.state.rerun = Rerun(lambda file, _: files.append(file) or kept)
        question = ClientQuestion([{"role": "user", "content": "hi"}], stream)
        return collect(manager.open_run("Main", question))

    run.files = files
    return run


both_ways = pytest.mark.parametrize("stream", [True, False], ids=["stream", "whole"])


@both_ways
def test_a_kept_node_asks_nobody(again, model, stream):
    """Later nodes find what it gave: its output, its thoughts, and its other values."""
    kept = {1: KeptNode("old", ("so", "be it"), {"Candidates": "c"})}
    answer = again(kept, ask(), say("{agent1Output}|{agent1Thinking}|{agent1Candidates}"), stream=stream)
    assert answer.text == "old|so\nbe it|c"
    assert model.calls == []


@both_ways
def test_a_kept_responder_gives_its_answer(again, model, house, stream):
    """And a node behind it finds that, too."""
    model.replies = ["new"]
    nodes = ask(returnToUser=True), ask("after {agent1Output}, {agent1Thinking}")
    assert again({1: KeptNode("old", ("hm",))}, *nodes, stream=stream).text == "old"
    [call] = model.calls
    assert "after old, hm" in str(call)


def test_a_node_that_is_not_kept_runs(again, model):
    model.replies = ["new"]
    assert again({1: KeptNode("old")}, ask(), ask("{agent1Output}")).text == "new"
    [call] = model.calls
    assert "old" in str(call)


def test_nodes_of_a_called_workflow_run(again, house):
    """Only those of the first one are asked about."""
    house.workflow("Child", say("of the child"))
    nodes = {"type": "CustomWorkflow", "workflowName": "Child"}, say("{agent1Output}")
    assert again({}, *nodes).text == "of the child"
    assert again.files == ["Workflows/ana/Main.json"]


@pytest.mark.parametrize(("number", "given"), [(1, "oldbc"), (2, "aoldc"), (3, "abold")])
def test_in_a_group_the_others_run(again, model, number, given):
    model.replies = [lambda call: call.conversation[-1]["content"]]
    group = [ask(name, parallelGroup="g") for name in "abc"]
    answer = again({number: KeptNode("old")}, *group, say("{agent1Output}{agent2Output}{agent3Output}"))
    assert answer.text == given
