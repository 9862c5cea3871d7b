"""Standard: one LLM call, with images if the node accepts them. The call itself is told in test_llm_dispatch.py."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from Middleware.workflows.handlers.node_types import NODES, node_handler, node_schema
from Middleware.workflows.models.execution_context import LlmCall


def dispatched(**config: Any) -> LlmCall:
    """The node's one LLM call."""
    calls: list[LlmCall] = []
    context: Any = SimpleNamespace(config=config, dispatch=lambda call: calls.append(call) or "said")
    assert node_handler("Standard").handle(context) == "said"
    return calls[0]


@pytest.mark.parametrize(
    ("config", "call"),
    [
        ({}, {"llm_takes_images": False, "max_images": 0}),
        ({"acceptImages": True}, {"llm_takes_images": True, "max_images": 0}),
        ({"acceptImages": True, "maxImagesToSend": 2}, {"llm_takes_images": True, "max_images": 2}),
        ({"maxImagesToSend": "many"}, {"llm_takes_images": False, "max_images": 0}),
    ],
)
def test_the_call(config, call):
    """What the node's fields ask for."""
    assert dispatched(**config) == LlmCall(**call)


@pytest.mark.parametrize("node_type", ["Standard", None, "Conversational", 5, "standard"])
def test_whatever_has_no_type_of_its_own_is_standard(node_type):
    """Names are case-sensitive; a missing or unknown one is Standard."""
    assert type(node_handler(node_type)) is NODES["Standard"]


def test_it_needs_an_endpoint():
    """The schema refuses a node without one."""
    must, _ = node_schema("Standard")
    assert must["allOf"][1]["required"] == ["endpointName"]
