"""Where the texts of a workflow name the outputs of its nodes, to the letter. Source: spec workbench.md 2."""

from __future__ import annotations

from typing import Any

import pytest

from Middleware.workflows.checks.output_places import (
    OutputName,
    names_in_variable,
    output_places,
    outputs_of_user,
    placeholders_filled,
)

NAMES = [
    ("{agent1Output}", ["agent1Output"]),
    ("{agent12Thinking} {agent3ToolCalls} {agent4Candidates}", ["agent12Thinking", "agent3ToolCalls", "agent4Candidates"]),
    ("{agent1Output[0]} {agent2Output!r} {agent3Output:>9}", ["agent1Output", "agent2Output", "agent3Output"]),
    ("{x[{agent1Output}]}", ["agent1Output"]),
    ("agent1Output", []),
    ("{ agent1Output}", []),
    ("{agent0Output}", []),
    ("{agent01Output}", []),
    ("{agent1Input}", []),
    ("{agent1Outputs}", []),
    ("{agent1Output", []),
    ("{{agent1Output}}", []),
    ("{{{agent1Output}}}", ["agent1Output"]),
    ("{{agent1Output}", ["agent1Output"]),
    (f"{{agent{'9' * 18}Output}}", [f"agent{'9' * 18}Output"]),
    (f"{{agent{'9' * 19}Output}}", []),
]  # fmt: skip


@pytest.mark.parametrize(("text", "names"), NAMES, ids=lambda value: str(value)[:50])
def test_the_names_in_a_variable(text: str, names: list[str]) -> None:
    """Directly behind a brace that is not escaped; the place is that of the number."""
    found = list(names_in_variable(text))
    assert [one.name for one in found] == names
    assert all(text[one.start : one.end] == str(one.number) for one in found)


def said(*nodes: Any, **variables: Any) -> list[tuple[str, str, int | None, bool]]:
    document = {"nodes": list(nodes), **variables}
    return [
        (place.pointer, place.found.name, place.node, place.for_child)
        for place in output_places("Main.json", document, {"mine": "{agent9Output}"})
    ]


ONE = "{agent1Output}"
TEXTS = [
    ("a-prompt", {"prompt": f"see {ONE}"}, [("/nodes/0/prompt", False)]),
    ("the-second-pass-may-fill-it", {"prompt": "{{agent1Output}}"}, [("/nodes/0/prompt", False)]),
    ("there-is-none-of-an-early-field", {"preset": "{{agent1Output}}"}, []),
    ("an-early-field", {"preset": ONE}, [("/nodes/0/preset", False)]),
    ("there-is-none-of-a-number", {"maxResponseSizeInTokens": "{{agent1Output}}"}, []),
    ("a-template", {"jinja2": True, "prompt": "{{ agent1Output }}"}, [("/nodes/0/prompt", False)]),
    ("a-template-takes-no-braces", {"jinja2": True, "prompt": ONE}, []),
    ("a-name-in-a-longer-one", {"jinja2": True, "prompt": "{{ agent1Outputs }}"}, []),
    ("no-field-of-a-template", {"jinja2": True, "preset": ONE}, [("/nodes/0/preset", False)]),
]


@pytest.mark.parametrize(("fields", "places"), [case[1:] for case in TEXTS], ids=[case[0] for case in TEXTS])
def test_the_texts_of_a_node(fields: Any, places: list[tuple[str, bool]]) -> None:
    node = {"type": "Standard", "endpointName": "e", **fields}
    assert said(node) == [(pointer, "agent1Output", 1, child) for pointer, child in places]


def test_a_text_that_a_child_may_fill() -> None:
    node = {"type": "CustomWorkflow", "workflowName": "Child", "promptOverride": ONE}
    assert said(node) == [("/nodes/0/promptOverride", "agent1Output", 1, True)]


def test_the_variables_of_the_file_that_a_node_fills() -> None:
    """Through others, too; those of the user stand in another file."""
    node = {"type": "Standard", "endpointName": "e", "prompt": "{notes} {mine}"}
    assert said(node, notes="{more}", more=ONE, other=ONE) == [("/more", "agent1Output", None, False)]


def test_the_variables_of_the_user() -> None:
    """Which of them the file fills, unless it has its own of that name."""
    of_user = {"mine": "{agent2Output}", "plain": "x", "unused": "{agent3Output}"}
    nodes = [{"type": "StaticResponse", "content": "{mine} {plain}"}]
    assert outputs_of_user({"nodes": nodes}, of_user) == {"mine": [OutputName(2, "Output", 6, 7)]}
    assert outputs_of_user({"nodes": nodes, "mine": "own"}, of_user) == {}
    assert outputs_of_user(nodes, of_user) == {"mine": [OutputName(2, "Output", 6, 7)]}


@pytest.mark.parametrize(
    ("fields", "filled"),
    [
        ({"prompt": "{a} {{b}}"}, {"a", "b"}),
        ({"preset": "{a}"}, set()),
        ({"jinja2": True, "prompt": "{a}"}, set()),
        ({"maxResponseSizeInTokens": "{a}{{b}}"}, {"a"}),
    ],
    ids=["a-prompt", "an-early-field", "a-template", "a-number"],
)
def test_what_a_node_fills_with_outputs_at_hand(fields: Any, filled: set[str]) -> None:
    node = {"type": "Standard", "endpointName": "e", **fields}
    assert {str(one[0]) for one in placeholders_filled(node)} == filled
