"""The graph of a workflow file: rows, roles, uses, branches, endpoints."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from Middleware.common.errors import node_index
from Middleware.config.json_positions import positions
from Middleware.workflows.checks.workflow_check import WorkflowReach, own_findings, variable_findings
from Middleware.workflows.checks.workflow_graph import EndpointFacts, Lookups, workflow_graph
from Middleware.workflows.handlers import impl
from Middleware.workflows.handlers.node_types import NODES

assert impl
FILE = "Workflows/mira/Reviewers.json"
FILES = {"CodeFix": "Workflows/mira/CodeFix.json"}
MODELS = {"Small": "small-4b", "Big": "big-32b", "Other": "other-8b"}


def reviewers(style: str = "{agent1Output}") -> dict[str, Any]:
    return {
        "writer": "Other",
        "nodes": [
            {"title": "Draft", "endpointName": "Small", "prompt": "{chat_user_prompt_last_one}"},
            {"title": "Facts", "type": "Standard", "parallelGroup": "critics", "endpointName": "Small",
             "preset": "Warm", "prompt": "{agent1Output}"},
            {"title": "Style", "type": "Standard", "parallelGroup": "critics", "endpointName": "{writer}",
             "prompt": style},
            {"title": "Which way?", "type": "ConditionalCustomWorkflow", "conditionalKey": "{agent2Output}",
             "conditionalWorkflows": {"code": "CodeFix", "Default": "Prose"}},
            {"title": "Answer", "type": "Standard", "endpointName": "Big", "returnToUser": True,
             "prompt": "{agent3Output} {agent4Output} {agent6Output}"},
            {"title": "Notes", "type": "SaveCustomFile", "filepath": "notes.txt", "content": "{agent5Output}"},
        ],
    }  # fmt: skip


def drawn(document: Any, text: str | None = None, problems: Any = (), **of_user: Any) -> Any:
    found = positions(json.dumps(document, indent=1) if text is None else text)

    def lines(pointer: str) -> tuple[int, int]:
        place = found.find(pointer)
        assert place is not None
        return found.line_column(place.start)[0], found.line_column(place.end - 1)[0]

    def endpoint(name: str) -> EndpointFacts:
        model = MODELS.get(name)
        return (
            EndpointFacts(f"Endpoints/lan/{name}.json", model, ["http://lan"]) if model else EndpointFacts()
        )

    lookups = Lookups(endpoint, lambda child: FILES.get(child.name), lines, **of_user)
    return workflow_graph(FILE, document, lookups, problems)


def pairs(node: Any) -> list[tuple[int, str]]:
    return [(use["n"], use["field"]) for use in node["uses"]]


def warned(document: Any) -> list[tuple[str, str]]:
    """(pointer, sentence) of what the check of this file by itself says."""
    found = [*own_findings(FILE, document), *variable_findings(FILE, document, WorkflowReach(frozenset(), 0))]
    return [(finding.pointer, finding.message) for finding in found]


class TestTheVector:
    """Spec console.md 16.5."""

    def test_a_group_that_runs_together(self):
        graph = drawn(reviewers())
        assert graph["rows"] == [[1], [2, 3], [4], [5], [6]]
        assert graph["responder"] == 5
        assert [node["alone"] for node in graph["nodes"]] == [None] * 6
        assert [node["group"] for node in graph["nodes"]] == [None, "critics", "critics", None, None, None]

    def test_who_uses_whose_output(self):
        nodes = drawn(reviewers())["nodes"]
        assert [pairs(node) for node in nodes] == [
            [],
            [(1, "prompt")],
            [(1, "prompt")],
            [(2, "conditionalKey")],
            [(3, "prompt"), (4, "prompt"), (6, "prompt")],
            [(5, "content")],
        ]
        assert nodes[5]["uses"] == [{"n": 5, "what": "output", "field": "content"}]

    def test_types_variables_and_roles(self):
        nodes = drawn(reviewers())["nodes"]
        assert nodes[0]["type"] == "Standard"
        assert nodes[0]["variables"] == ["chat_user_prompt_last_one"]
        assert [node["answers"] for node in nodes] == [False, False, False, False, True, False]
        assert [node["after"] for node in nodes] == [False, False, False, False, False, True]

    def test_endpoints_and_branches(self):
        nodes = drawn(reviewers())["nodes"]
        assert nodes[2]["endpoint"] == {
            "name": "Other",
            "written": "{writer}",
            "file": "Endpoints/lan/Other.json",
            "model": "other-8b",
            "addresses": ["http://lan"],
        }
        assert nodes[3]["endpoint"] is None
        assert nodes[3]["children"] == [
            {"label": "code", "workflow": "CodeFix", "path": "Workflows/mira/CodeFix.json", "text": False},
            {"label": "Default", "workflow": "Prose", "path": None, "text": False},
        ]

    def test_an_output_that_comes_later_is_a_problem_of_its_node(self):
        problems = warned(reviewers())
        assert problems == [("/nodes/4/prompt", "{agent6Output} is not known yet: this is node 5")]
        graph = drawn(reviewers(), problems=[(node_index(FILE, problems[0][0]) or 0) + 1])
        assert [node["problems"] for node in graph["nodes"]] == [[], [], [], [], [0], []]

    def test_a_group_whose_member_needs_another(self):
        graph = drawn(reviewers("{agent1Output} {agent2Output}"))
        assert graph["rows"] == [[1], [2], [3], [4], [5], [6]]
        assert [node["alone"] for node in graph["nodes"]] == [
            None,
            "its group runs one node after the other",
            "uses the output of node 2 of its own group",
            None,
            None,
            None,
        ]


def test_a_node_has_all_its_keys_in_order():
    """Those of the spec's example."""
    assert drawn([{"type": "Standard", "title": "A", "endpointName": "None", "preset": "p"}])["nodes"] == [
        {
            "n": 1,
            "title": "A",
            "type": "Standard",
            "known": True,
            "endpoint": {"name": "None", "written": "None", "file": None, "model": None, "addresses": []},
            "preset": "p",
            "answers": True,
            "after": False,
            "group": None,
            "alone": None,
            "children": [],
            "uses": [],
            "variables": [],
            "lines": [2, 7],
            "problems": [],
        }
    ]


def test_lines_are_those_of_the_node():
    text = '[\n  {"title": "A"},\n  {\n    "title": "B"\n  } ]'
    assert [node["lines"] for node in drawn(json.loads(text), text)["nodes"]] == [[2, 2], [3, 5]]


# id, nodes of a group, alone
GROUPS = [
    ("together", [{}, {}], [None, None]),
    ("with-the-one-that-answers", [{"returnToUser": True}, {}], ["answers", "its group runs one node after the other"]),
    ("with-a-lock", [{}, {"type": "WorkflowLock"}],
     ["its group runs one node after the other", "is of a type or has a setting that must run alone"]),
    ("each-other", [{"prompt": "{agent2Output}"}, {"prompt": "{agent1Thinking}"}],
     ["uses the output of node 2 of its own group", "uses the output of node 1 of its own group"]),
    ("of-one", [{"returnToUser": True}], [None]),
]  # fmt: skip


@pytest.mark.parametrize(
    ("members", "alone"), [case[1:] for case in GROUPS], ids=[case[0] for case in GROUPS]
)
def test_why_a_group_does_not_run_together(members, alone):
    graph = drawn([*(member | {"parallelGroup": "g"} for member in members), {}])
    assert [node["alone"] for node in graph["nodes"]] == [*alone, None]
    assert len(graph["rows"]) == (2 if alone == [None, None] else len(members) + 1)


def test_two_groups_of_one_name_are_two():
    nodes = [{"parallelGroup": "g"}] * 2 + [{}] + [{"parallelGroup": "g"}] * 2 + [{}]
    assert drawn(nodes)["rows"] == [[1, 2], [3], [4, 5], [6]]


# id, node, key, value
NODES_OF_A_KIND = [
    ("a-type-that-nobody-knows", {"type": "Standrad"}, {"title": "Standrad", "type": "Standrad", "known": False}),
    ("an-old-name", {"type": "Conversational"}, {"type": "Conversational", "known": True}),
    ("a-type-that-is-no-text", {"type": [5]}, {"title": "Standard", "type": "Standard", "known": False}),
    ("a-name-of-old", {"agentName": "Ana"}, {"title": "Ana"}),
    ("an-endpoint-of-a-run", {"endpointName": "{agent1Input}"},
     {"endpoint": {"name": None, "written": "{agent1Input}", "file": None, "model": None, "addresses": []}}),
    ("a-preset-of-the-file", {"presetName": "{warmth}"}, {"preset": "Warm"}),
    ("a-preset-of-a-run", {"preset": "{agent1Input}"}, {"preset": "{agent1Input}"}),
    ("a-branch-with-a-text",
     {"type": "ConditionalCustomWorkflow", "conditionalWorkflows": {"a/b": "CodeFix"}, "UseDefaultContentInsteadOfWorkflow": ""},
     {"children": [{"label": "a/b", "workflow": "CodeFix", "path": FILES["CodeFix"], "text": False},
                   {"label": "else", "workflow": None, "path": None, "text": True}]}),
    ("an-only-child", {"type": "CustomWorkflow", "workflowName": "CodeFix"},
     {"children": [{"label": "", "workflow": "CodeFix", "path": FILES["CodeFix"], "text": False}]}),
    ("a-child-with-a-placeholder", {"type": "CustomWorkflow", "workflowName": "{x}"},
     {"children": [{"label": "", "workflow": "{x}", "path": None, "text": False}]}),
    ("both-of-a-node", {"systemPrompt": "{agent2Thinking} {agent2Output}", "prompt": "{agent2Output} {agent9Output}"},
     {"uses": [{"n": 2, "what": "thinking", "field": "systemPrompt"}, {"n": 2, "what": "output", "field": "prompt"}]}),
    ("in-a-template", {"jinja2": True, "prompt": "{% if agent2Output %}{{ name }}{% endif %}"},
     {"uses": [{"n": 2, "what": "output", "field": "prompt"}], "variables": ["name"]}),
    ("in-a-list", {"type": "StringConcatenator", "strings": ["{agent2Output}", "{b} {a}", "{b}"]},
     {"uses": [{"n": 2, "what": "output", "field": "strings"}], "variables": ["b", "a"]}),
    ("in-a-text-for-a-child", {"type": "CustomWorkflow", "workflowName": "C", "promptOverride": "{agent2Output} {x}"},
     {"uses": [], "variables": []}),
    ("in-doubled-braces", {"prompt": "{{agent2Output}}"}, {"uses": [{"n": 2, "what": "output", "field": "prompt"}]}),
    ("a-number-in-doubled-braces", {"maxResponseSizeInTokens": "{{agent2Output}}"}, {"uses": []}),
    ("json-is-no-variable", {"prompt": '{"a": 1} {my-var}'}, {"variables": ["my-var"]}),
]  # fmt: skip


@pytest.mark.parametrize(
    ("node", "said"), [case[1:] for case in NODES_OF_A_KIND], ids=[case[0] for case in NODES_OF_A_KIND]
)
def test_what_a_node_is(node, said):
    graph = drawn({"warmth": "Warm", "my-var": 1, "nodes": [node, {}]})
    assert {key: graph["nodes"][0][key] for key in said} == said


def test_what_a_later_node_gives_its_child():
    """The parent fills the text: it knows the output."""
    node = {"type": "CustomWorkflow", "workflowName": "C", "promptOverride": "{agent1Output} {agent2Output}"}
    assert pairs(drawn([{}, node])["nodes"][1]) == [(1, "promptOverride")]


# id, variables of the file, the last of three nodes, uses
THROUGH_VARIABLES = [
    ("one", {"notes": "{agent1Output}"}, {"prompt": "{notes}"}, [(1, "prompt")]),
    ("a-chain", {"notes": "{both}!", "both": "{agent2Thinking} {agent1Output}"}, {"prompt": "{notes}"},
     [(2, "prompt"), (1, "prompt")]),
    ("beside-one-that-stands-there", {"notes": "{agent1Output}"}, {"prompt": "{agent1Output} {notes} {agent2Output}"},
     [(1, "prompt"), (2, "prompt")]),
    ("an-item", {"notes": ["{agent1Output}", "{agent2Output}"]}, {"prompt": "{notes[1]}"}, [(2, "prompt")]),
    ("a-circle", {"notes": "{more}", "more": "{notes} {agent1Output}"}, {"prompt": "{notes}"}, [(1, "prompt")]),
    ("of-a-template", {"notes": "{agent1Output}"}, {"jinja2": True, "prompt": "{{ notes }} {{ agent2Output }}"},
     [(2, "prompt")]),
    ("an-endpoint", {"notes": "{agent1Output}"}, {"endpointName": "{notes}"}, []),
    ("a-number", {"size": "{agent1Output}"}, {"maxResponseSizeInTokens": "{size}"}, [(1, "maxResponseSizeInTokens")]),
    ("for-a-child", {"notes": "{agent1Output}{agent9Output}"},
     {"type": "CustomWorkflow", "workflowName": "C", "promptOverride": "{notes}"}, [(1, "promptOverride")]),
    ("one-that-nobody-names", {"notes": "{agent1Output}"}, {"prompt": "{agent2Output}"}, [(2, "prompt")]),
    ("of-a-name-that-the-program-fills", {"Discussion_Id": "{agent1Output}"}, {"prompt": "{Discussion_Id}"}, []),
]  # fmt: skip


@pytest.mark.parametrize(
    ("variables", "node", "uses"), [c[1:] for c in THROUGH_VARIABLES], ids=[c[0] for c in THROUGH_VARIABLES]
)
def test_who_uses_whose_output_through_a_variable(variables, node, uses):
    """Spec workflows.md 7.2, 7.4, 16.1 (c): a variable's text is filled when a text in format mode takes it."""
    drawn_node = drawn({**variables, "nodes": [{}, {}, node]})["nodes"][2]
    assert pairs(drawn_node) == uses


def test_a_variable_of_the_user_brings_outputs_too():
    """Where the file has none of its name."""
    nodes = [{}, {"prompt": "{notes}"}, {"prompt": "{more}"}]
    of_user = {"notes": "{agent1Output}", "more": "{agent1Output}"}
    graph = drawn({"more": "{agent2Output}", "nodes": nodes}, user_variables=of_user)
    assert [pairs(node) for node in graph["nodes"]] == [[], [(1, "prompt")], [(2, "prompt")]]


def test_the_variables_of_a_node_are_those_that_stand_in_it():
    document = {"notes": "{agent1Output} {town}", "nodes": [{}, {"prompt": "{notes}"}]}
    assert drawn(document)["nodes"][1]["variables"] == ["notes"]


def test_an_output_that_a_variable_brings_too_early_is_a_problem_of_its_node():
    """It stays as text there; a template never fills it."""
    nodes = [{"prompt": "{notes}"}, {"prompt": "{notes}"}, {"jinja2": True, "prompt": "{{ notes }}"}]
    document = {"notes": "{agent1Output} {agent2Output}", "nodes": nodes}
    assert [problem for problem in warned(document) if problem[0].endswith("/prompt")] == [
        ("/nodes/0/prompt", "{agent1Output} in the variable {notes} is not known yet: this is node 1"),
        ("/nodes/0/prompt", "{agent2Output} in the variable {notes} is not known yet: this is node 1"),
        ("/nodes/1/prompt", "{agent2Output} in the variable {notes} is not known yet: this is node 2"),
    ]


def test_a_group_whose_member_needs_another_through_a_variable():
    members = [{"parallelGroup": "g"}, {"parallelGroup": "g", "prompt": "{notes}"}]
    document = {"notes": "{agent1Output}", "nodes": [*members, {}]}
    graph = drawn(document)
    assert graph["rows"] == [[1], [2], [3]]
    assert graph["nodes"][1]["alone"] == "uses the output of node 1 of its own group"
    told = [message for pointer, message in warned(document) if pointer == "/nodes/1/parallelGroup"]
    assert told == ["this node uses the output of node 1 of its own group, so the group runs one node after the other"]  # fmt: skip


class TestAUserWhoseNodesRunOneAtATime:
    """`maxParallelNodes: 1`: no group of theirs really runs together (spec console.md 9.3, workflows.md 16.14)."""

    def test_every_member_says_so(self):
        graph = drawn(reviewers(), max_parallel=1)
        assert graph["rows"] == [[1], [2], [3], [4], [5], [6]]
        why = "the user's maxParallelNodes is 1"
        assert [node["alone"] for node in graph["nodes"]] == [None, why, why, None, None, None]

    def test_what_is_amiss_in_the_file_goes_before(self):
        graph = drawn(reviewers("{agent2Output}"), max_parallel=1)
        assert [node["alone"] for node in graph["nodes"]][1:3] == [
            "its group runs one node after the other",
            "uses the output of node 2 of its own group",
        ]

    def test_a_group_of_one_is_none(self):
        assert drawn([{"parallelGroup": "g"}, {}], max_parallel=1)["nodes"][0]["alone"] is None


@pytest.mark.parametrize("document", [{}, [], {"nodes": []}, {"nodes": None}, {"size": 4}, [5], None, "x", 7])
def test_what_has_no_nodes_has_no_graph(document):
    assert drawn(document) is None


def test_what_is_no_node_counts_and_is_left_out():
    graph = drawn([{"title": "A"}, 5, {"title": "C", "prompt": "{agent1Output} {agent2Output}"}])
    assert graph["rows"] == [[1], [3]]
    assert [node["n"] for node in graph["nodes"]] == [1, 3]
    assert pairs(graph["nodes"][1]) == [(1, "prompt")]


NAMES = st.sampled_from(
    ["{agent1Output}", "{agent2Thinking} {a", "{{ agent1Output }}", "{x}", "C", "", "g", "{%"]
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | NAMES | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=6,
)
FIELDS = st.sampled_from(
    ["type", "title", "agentName", "endpointName", "preset", "presetName", "prompt", "jinja2", "parallelGroup",
     "returnToUser", "is_responder", "workflowName", "conditionalWorkflows", "conditionalKey", "promptOverride",
     "scoped_variables", "UseDefaultContentInsteadOfWorkflow", "fileMemoryWorkflowName", "addAsUserMessage"]
)  # fmt: skip
A_NODE = st.builds(
    lambda fields, kind: fields | kind,
    st.dictionaries(FIELDS, VALUES, max_size=6),
    st.sampled_from([{}, *({"type": name} for name in NODES)]),
)
A_DOCUMENT = VALUES | st.lists(A_NODE | VALUES, max_size=5)


@settings(max_examples=150)
@given(A_DOCUMENT, st.booleans())
def test_any_json_has_a_graph_or_none(document, in_an_object):
    """It never raises, and every node stands in one row."""
    document = {"nodes": document, "x": "{C}", "C": "{agent1Output}"} if in_an_object else document
    graph = drawn(document)
    if graph is not None:
        numbers = [node["n"] for node in graph["nodes"]]
        assert [number for row in graph["rows"] for number in row] == numbers
        assert sum(node["answers"] for node in graph["nodes"]) == 1
        assert json.loads(json.dumps(graph)) == graph


@settings(max_examples=150)
@given(A_DOCUMENT, st.booleans())
def test_any_json_is_checked(document, in_an_object):
    """The sentences beside the graph: no document ends the check."""
    document = {"nodes": document, "x": "{C}", "C": "{agent1Output}"} if in_an_object else document
    assert all(pointer.startswith("/") or not pointer for pointer, _ in warned(document))
