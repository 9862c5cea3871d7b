"""What a model can do is what its nodes can (frontend-api.md 10.1)."""

from __future__ import annotations

import pytest

from Middleware.config.users import load_user
from Middleware.workflows.checks.model_walk import capabilities, capabilities_of_endpoint

LLM = {"type": "Standard", "endpointName": "small-model", "prompt": "x"}
LOOK = {"type": "ImageProcessor", "endpointName": "small-model"}
SEE = LLM | {"acceptImages": True}
CALL = LLM | {"allowTools": True}
CHILD = {"type": "CustomWorkflow", "workflowName": "Child"}
DEFAULT = "Workflows/_shared/{}/_DefaultWorkflow.json"


def of(checked, picked=None):
    snapshot = checked.tree.snapshot()
    return capabilities(snapshot, load_user(snapshot, "ana"), picked)


@pytest.mark.parametrize(
    ("nodes", "more"),
    [
        ([LLM], []),
        ([SEE], ["vision"]),
        ([LOOK, LLM], ["vision"]),
        ([CALL], ["tools"]),
        ([LLM | {"allowTools": False, "acceptImages": False}], []),
        ([LLM, CALL | {"acceptImages": True}], ["tools", "vision"]),
    ],
    ids=["text", "pictures", "described", "tools", "neither", "both"],
)
def test_of_its_own_nodes(checked, nodes, more):
    """Text is always there."""
    checked.put("Workflows/ana/Main.json", nodes)
    assert of(checked) == ["completion", *more]


def test_of_the_workflows_that_they_run(checked):
    """A nested one counts, too."""
    checked.put("Workflows/ana/Main.json", [CHILD])
    checked.put("Workflows/ana/Child.json", [SEE])
    assert of(checked) == ["completion", "vision"]


def test_of_what_a_user_may_be_routed_to(checked):
    """Any category may be the one."""
    checked.change(
        "Users/ana.json", customWorkflowOverride=False, routingConfig="r", categorizationWorkflow="Main"
    )
    checked.put(
        "Routing/r.json",
        {"A": {"description": "a", "workflow": "Child"}, "B": {"description": "b", "workflow": "Main"}},
    )
    checked.put("Workflows/ana/_DefaultWorkflow.json", [LLM])
    checked.put("Workflows/ana/Child.json", [CALL])
    assert of(checked) == ["completion", "tools"]


def test_a_picked_workflow_is_a_model_of_its_own(checked):
    """Neither has what only the other has."""
    checked.change("Users/ana.json", allowSharedWorkflows=True)
    checked.put("Workflows/ana/Main.json", [CALL])
    checked.put("Workflows/_shared/seer/_DefaultWorkflow.json", [SEE])
    assert of(checked) == ["completion", "tools"]
    assert of(checked, "seer") == ["completion", "vision"]


def test_a_model_whose_files_are_broken(checked):
    """It can be asked all the same: the answer to a chat will name the fault."""
    checked.put("Workflows/ana/Main.json", "[")
    assert of(checked) == ["completion"]


def test_an_endpoint_as_a_plain_model(checked):
    """All that a client sends reaches a backend that takes messages; others get a text."""
    checked.put("ApiTypes/Flat.json", {"type": "koboldCppGenerate", "presetType": "T"})
    checked.put("Endpoints/lan/flat.json", {"endpoint": "http://h", "apiTypeConfigFileName": "Flat"})
    snapshot = checked.tree.snapshot()
    found = [
        capabilities_of_endpoint(snapshot, load_user(snapshot, "ana"), name)
        for name in ("small-model", "flat", "none")
    ]
    assert found == [["completion", "tools", "vision"], ["completion"], ["completion"]]
