"""CustomWorkflow and ConditionalCustomWorkflow: which child runs, with what."""

from __future__ import annotations

import pytest

from Middleware.common.errors import ConfigError
from Middleware.workflows.handlers.base.base_workflow_node_handler import ChildName
from Middleware.workflows.handlers.node_types import node_handler
from Middleware.workflows.models.execution_context import ChildCall

OVERRIDES = [
    ("none", {}, (None, None)),
    ("plain", {"systemPromptOverride": "s", "promptOverride": "p"}, ("s", "p")),
    (
        "first-node-wins",
        {
            "firstNodeSystemPromptOverride": "fs",
            "systemPromptOverride": "s",
            "firstNodePromptOverride": "fp",
            "promptOverride": "p",
        },
        ("fs", "fp"),
    ),
    ("null-key-counts-as-there", {"firstNodePromptOverride": None, "promptOverride": "p"}, (None, None)),
    ("empty-is-none", {"systemPromptOverride": "", "promptOverride": ""}, (None, None)),
    ("not-filled-here", {"promptOverride": "{worker} {agent1Input}"}, (None, "{worker} {agent1Input}")),
]


class TestCustomWorkflow:
    """One child, named literally."""

    def test_the_childs_value_is_the_output(self, bench):
        bench.engine.values = {"worker": "big"}
        output = bench("CustomWorkflow", workflowName="{worker}", scoped_variables=["{worker}", 7, None])
        assert output == "value of {worker}"
        assert bench.engine.children == [ChildCall("{worker}", inputs=("big", "7", "None"))]

    @pytest.mark.parametrize("scoped", [None, []], ids=repr)
    def test_no_inputs(self, bench, scoped):
        bench(
            "CustomWorkflow",
            workflowName="Child",
            scoped_variables=scoped,
            workflowUserFolderOverride="_common",
        )
        assert bench.engine.children == [ChildCall("Child", "_common")]

    @pytest.mark.parametrize(("fields", "given"), [o[1:] for o in OVERRIDES], ids=[o[0] for o in OVERRIDES])
    def test_overrides_are_handed_on(self, bench, fields, given):
        bench.engine.values["worker"] = "big"
        bench("CustomWorkflow", workflowName="Child", **fields)
        (call,) = bench.engine.children
        assert (call.system_prompt_override, call.prompt_override) == given

    @pytest.mark.parametrize("fields", [{}, {"workflowName": ""}, {"workflowName": None}], ids=repr)
    def test_without_a_name_it_is_an_error(self, bench, fields):
        with pytest.raises(ConfigError, match="workflowName"):
            bench("CustomWorkflow", **fields)
        assert bench.findings("CustomWorkflow", **fields)[0] != []

    @pytest.mark.parametrize(
        ("config", "children"),
        [
            (
                {
                    "workflowName": "A",
                    "workflowUserFolderOverride": "_common",
                    "scoped_variables": ["a", "b"],
                },
                [ChildName("/workflowName", "A", "_common", 2)],
            ),
            ({"workflowName": "A", "scoped_variables": None}, [ChildName("/workflowName", "A")]),
            ({}, []),
            ({"workflowName": 3}, []),
        ],
        ids=["whole", "bare", "none", "no-text"],
    )
    def test_its_child_is_known_before_it_runs(self, config, children):
        assert node_handler("CustomWorkflow").children(config) == children


BRANCHES = {
    "TRUE": "DoDigest",
    "Default": "Skip",
    "empty": "",
    "Twice": "First",
    "twice": "Second",
    " x ": "Blank",
}


class TestConditionalCustomWorkflow:
    """The branch that the key names."""

    @pytest.mark.parametrize(
        ("key", "child"),
        [
            ("TRUE", "DoDigest"),
            ("  true\n", "DoDigest"),
            ("{answer}", "DoDigest"),
            ("twice", "Second"),
            ("nothing like it", "Skip"),
            ("", "Skip"),
            (None, "Skip"),
            ("empty", "Skip"),
            (" x ", "Skip"),
            ("default", "Skip"),
        ],
        ids=[
            "exact",
            "blank-and-case",
            "filled",
            "later-wins",
            "no-branch",
            "empty",
            "null",
            "empty-name",
            "name-is-not-stripped",
            "default",
        ],
    )
    def test_the_branch(self, bench, key, child):
        bench.engine.values["answer"] = "True"
        assert (
            bench("ConditionalCustomWorkflow", conditionalKey=key, conditionalWorkflows=BRANCHES)
            == f"value of {child}"
        )

    @pytest.mark.parametrize(("content", "output"), [("{a}!", "A!"), ("", "")], ids=["text", "do-nothing"])
    def test_a_default_text_comes_before_the_default_branch(self, bench, content, output):
        bench.engine.values["a"] = "A"
        fields = {"conditionalWorkflows": BRANCHES, "UseDefaultContentInsteadOfWorkflow": content}
        assert bench("ConditionalCustomWorkflow", conditionalKey="other", **fields) == output
        assert bench("ConditionalCustomWorkflow", conditionalKey="true", **fields) == "value of DoDigest"
        assert [call.name for call in bench.engine.children] == ["DoDigest"]

    @pytest.mark.parametrize("branches", [None, {}, {"a": "A", "default": ""}], ids=repr)
    def test_no_branch_and_no_default_is_an_error(self, bench, branches):
        with pytest.raises(ConfigError, match="no branch fits"):
            bench("ConditionalCustomWorkflow", conditionalKey="x", conditionalWorkflows=branches)

    @pytest.mark.parametrize(
        ("key", "prompt"),
        [("True", "later"), ("other", None), ("default", "of default")],
        ids=["of-the-branch", "fallback-has-none", "default-by-name"],
    )
    def test_overrides_are_those_of_the_key(self, bench, key, prompt):
        bench(
            "ConditionalCustomWorkflow",
            conditionalKey=key,
            conditionalWorkflows=BRANCHES,
            promptOverride="of the node: not used",
            routeOverrides={
                "TRUE": {"promptOverride": "earlier"},
                "true": {"promptOverride": "later"},
                "Default": {"promptOverride": "of default"},
                "empty": None,
            },
            scoped_variables=["in"],
            workflowUserFolderOverride="_common",
        )
        (call,) = bench.engine.children
        assert (call.prompt_override, call.inputs, call.folder) == (prompt, ("in",), "_common")

    def test_all_branches_are_known_before_it_runs(self):
        config = {"conditionalWorkflows": {"a/b~": "A", "x": "", "y": None}, "scoped_variables": ["1"]}
        handler = node_handler("ConditionalCustomWorkflow")
        assert handler.children(config) == [ChildName("/conditionalWorkflows/a~1b~0", "A", None, 1)]
        assert handler.children({}) == []

    @pytest.mark.parametrize(
        ("fields", "advice"),
        [
            ({"conditionalWorkflows": {"a": "A", "dEfault": "B"}}, 0),
            ({"conditionalWorkflows": {"a": "A"}, "UseDefaultContentInsteadOfWorkflow": ""}, 0),
            ({"conditionalWorkflows": {"a": "A", "defaults": "B"}}, 1),
            ({"conditionalWorkflows": {}}, 1),
            ({}, 2),
        ],
        ids=["branch", "text", "near-miss", "none", "nothing"],
    )
    def test_a_fallback_is_advised(self, bench, fields, advice):
        must, should = bench.findings("ConditionalCustomWorkflow", conditionalKey="k", **fields)
        assert (must, len(should)) == ([], advice)


@pytest.mark.parametrize(
    ("kind", "fields", "place"),
    [
        ("CustomWorkflow", {"workflowName": 5}, "/workflowName"),
        ("CustomWorkflow", {"workflowName": ["Child"]}, "/workflowName"),
        ("ConditionalCustomWorkflow", {"conditionalKey": 5}, "/conditionalKey"),
        ("ConditionalCustomWorkflow", {"conditionalWorkflows": ["a"]}, "/conditionalWorkflows"),
        ("ConditionalCustomWorkflow", {"conditionalWorkflows": {"a": 5}}, "/conditionalWorkflows/a"),
        ("ConditionalCustomWorkflow", {"UseDefaultContentInsteadOfWorkflow": {}}, "/UseDefaultContentInsteadOfWorkflow"),
        ("ConditionalCustomWorkflow", {"routeOverrides": {"a": "x"}}, "/routeOverrides/a"),
    ],
)  # fmt: skip
def test_a_value_of_another_type_is_found_before_a_run(bench, kind, fields, place):
    """At its place."""
    assert place in bench.findings(kind, **fields)[0]
