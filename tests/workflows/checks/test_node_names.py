"""Which names the texts of a node look up, by themselves and through variables."""

from __future__ import annotations

import pytest

from Middleware.workflows.checks.workflow_check import names_filled, names_in_text, names_written, schemas_of
from Middleware.workflows.handlers import impl
from Middleware.workflows.variables.workflow_variable_manager import LiveValues

assert impl
LLM = {"type": "Standard"}


def test_the_schemas_of_a_type_are_made_once():
    assert schemas_of("Standard") is schemas_of("Standard")


def test_a_text_of_very_many_names_is_read_once():
    """A reader that looked for each name anew would be at it for minutes."""
    names = [f"v{number}" for number in range(60_000)]
    text = " ".join(f"{{{name}}}" for name in names)
    assert [name for _, name in names_written(LLM | {"prompt": text})] == names


@pytest.mark.parametrize(
    ("config", "names"),
    [
        ({"prompt": "{b} {a} {b}", "endpointName": "{e}"}, ["b", "a", "e"]),
        ({"prompt": "{{ a }} {c}", "jinja2": True, "endpointName": "{e}"}, ["a", "e"]),
        ({"prompt": "{% if b %}{{ a }}", "jinja2": True}, []),
        ({"type": "CustomWorkflow", "promptOverride": "{agent1Output}", "workflowName": "{no}"}, ["agent1Output"]),
        ({"note": "{x}", "title": "{x}"}, []),
    ],
    ids=["text", "template", "template-that-is-none", "for-a-child", "not-filled"],
)  # fmt: skip
def test_the_names_that_a_node_writes(config, names):
    """In the order of its fields and of their texts."""
    assert [name for _, name in names_written(config)] == names


# id, node, what its texts look up: (pointer, name, the variable that brings it)
THROUGH = [
    ("a-text", {"prompt": "{a} {x}"},
     [("/prompt", "a", ""), ("/prompt", "b", "a"), ("/prompt", "agent1Output", "a"), ("/prompt", "x", "")]),
    ("a-number", {"maxResponseSizeInTokens": "{b}"},
     [("/maxResponseSizeInTokens", "b", ""), ("/maxResponseSizeInTokens", "agent1Output", "b")]),
    ("an-early-field-knows-no-output", {"endpointName": "{a}"}, [("/endpointName", "a", "")]),
    ("a-template-takes-the-text-as-it-is", {"jinja2": True, "prompt": "{{ a }}"}, [("/prompt", "a", "")]),
    ("a-number-of-such-a-node", {"jinja2": True, "maxResponseSizeInTokens": "{b}"},
     [("/maxResponseSizeInTokens", "b", ""), ("/maxResponseSizeInTokens", "agent1Output", "b")]),
    ("a-title-is-no-text-to-fill", {"title": "{a}"}, []),
]  # fmt: skip


@pytest.mark.parametrize(("config", "names"), [c[1:] for c in THROUGH], ids=[c[0] for c in THROUGH])
def test_the_names_that_variables_bring(config, names):
    values = LiveValues({"a": "{b}", "b": "{agent1Output}"})
    assert [tuple(name) for name in names_filled(LLM | config, values)] == names


@pytest.mark.parametrize(
    ("text", "is_jinja", "names"),
    [
        ("{a} {b:>5} {{c}} {a}", False, {"a", "b", "c"}),
        ("{{ a }} {% if b %}{c}{% endif %}", True, {"a", "b"}),
        ("{{ a", True, set()),
        ("nothing", False, set()),
    ],
    ids=["format", "jinja", "jinja-that-is-none", "none"],
)
def test_the_names_in_a_text(text, is_jinja, names):
    """In either language of a field."""
    assert names_in_text(text, is_jinja=is_jinja) == names
