"""Which model a request will need first, as far as its files say (prompt-reuse.md 7.1)."""

from __future__ import annotations

import json

import pytest

from Middleware.config.loader import ConfigTree
from Middleware.config.users import load_user
from Middleware.workflows.checks.first_model import first_endpoint

SMALL, BIG = {"endpointName": "Small", "prompt": "x"}, {"endpointName": "Big", "prompt": "x"}
TEXT = {"type": "StaticResponse", "content": "x"}


class Tree:
    def __init__(self, root):
        self.root = root
        self.put("ApiTypes/Api", {"type": "openAIChatCompletion", "presetType": "T"})
        for name in ("Small", "Big"):
            self.put(f"Endpoints/{name}", {"endpoint": "http://127.0.0.1:1", "apiTypeConfigFileName": "Api"})
        self.user()

    def put(self, file, content):
        path = self.root / f"{file}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(content))

    def user(self, **settings):
        own = {"customWorkflowOverride": True, "customWorkflow": "Main", **settings}
        self.put("Users/ana", own)

    def flow(self, *nodes, name="ana/Main", **variables):
        self.put(f"Workflows/{name}", {**variables, "nodes": list(nodes)})

    def first(self, picked=None, **more):
        snapshot = ConfigTree(self.root).snapshot()
        found = first_endpoint(snapshot, load_user(snapshot, "ana"), picked, **more)
        return found and found.name


@pytest.fixture
def tree(tmp_path):
    return Tree(tmp_path)


def child(name, **more):
    return {"type": "CustomWorkflow", "workflowName": name, **more}


def test_a_plain_model_is_its_endpoint(tree):
    """Whatever the user's workflow needs, for tasks too; one without a file is nobody's."""
    tree.flow(BIG)
    for is_task in (False, True):
        assert tree.first(raw_endpoint="Small", is_task=is_task) == "Small"
    assert tree.first(raw_endpoint="None") is None


class TestNodes:
    def test_the_first_node_that_calls_a_model(self, tree):
        """Nodes that call none come before it."""
        tree.flow(TEXT, BIG, SMALL)
        assert tree.first() == "Big"

    def test_a_name_that_the_file_itself_fills(self, tree):
        tree.flow({**SMALL, "endpointName": "{writer}"}, writer="Big")
        assert tree.first() == "Big"

    def test_a_child_that_is_surely_run(self, tree):
        """Its first model; without one the search goes on behind it."""
        tree.flow(TEXT, name="ana/Texts")
        tree.flow(BIG, name="ana/Talk")
        tree.flow(child("Texts"), child("Talk"), SMALL)
        assert tree.first() == "Big"

    @pytest.mark.parametrize(
        "node",
        [
            {**SMALL, "endpointName": "{agent1Output}"},
            {"prompt": "x"},
            child("Nowhere"),
            child("Main"),
            {**SMALL, "endpointName": "Nowhere"},
            {
                "type": "ConditionalCustomWorkflow",
                "conditionalKey": "{agent1Output}",
                "conditionalWorkflows": {"default": "Main"},
            },
        ],
        ids=["placeholder", "none", "no-such-child", "circle", "no-such-endpoint", "branch"],
    )
    def test_what_only_a_run_knows(self, tree, node):
        """Also where a later node has a name that is known."""
        tree.flow(TEXT, node, BIG)
        assert tree.first() is None

    def test_a_workflow_without_models(self, tree):
        tree.flow(TEXT)
        assert tree.first() is None


class TestWorkflows:
    def test_the_user_has_a_default(self, tree):
        tree.user(customWorkflowOverride=False)
        tree.flow(BIG, name="ana/_DefaultWorkflow")
        assert tree.first() == "Big"

    def test_a_shared_one_was_picked(self, tree):
        tree.flow(BIG, name="_shared/talk/_DefaultWorkflow")
        tree.flow(SMALL)
        assert (tree.first(), tree.first("talk")) == ("Small", "Big")

    def test_a_front_end_asks_for_itself(self, tree):
        """Its own workflow, whatever was picked."""
        tree.user(openWebUITaskWorkflow="Titles")
        tree.flow(SMALL, name="ana/Titles")
        tree.flow(BIG)
        assert (tree.first(), tree.first(is_task=True)) == ("Big", "Small")

    def test_a_route_is_known_when_there_is_only_one(self, tree):
        tree.user(customWorkflowOverride=False, routingConfig="R", categorizationWorkflow="Choose")
        tree.flow(BIG)
        one = {"A": {"description": "a", "workflow": "Main"}}
        tree.put("Routing/R", one)
        assert tree.first() == "Big"
        tree.put("Routing/R", {**one, "B": {"description": "b", "workflow": "Main"}})
        assert tree.first() is None

    def test_faults_are_for_the_request_to_tell(self, tree):
        tree.user(customWorkflow="")
        assert tree.first() is None
        tree.user()
        assert tree.first() is None
        (tree.root / "Workflows" / "ana").mkdir(parents=True)
        (tree.root / "Workflows" / "ana" / "Main.json").write_text("[")
        assert tree.first() is None
