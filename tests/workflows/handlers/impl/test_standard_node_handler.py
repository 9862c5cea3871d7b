"""Standard: one LLM call, with images if the node accepts them. The call itself is told in test_llm_dispatch.py."""

from __future__ import annotations

from typing import Any

import pytest

from Middleware.workflows.handlers.node_types import NODES, node_handler, node_schema


def dispatched(bench: Any, **config: Any) -> dict[str, Any]:
    """What the node says of images in its one LLM call."""
    assert bench("Standard", **config) == "reply 1"
    [call] = bench.engine.calls
    return {"llm_takes_images": call.llm_takes_images, "max_images": call.max_images}


@pytest.mark.parametrize(
    ("config", "call"),
    [
        ({}, {"llm_takes_images": False, "max_images": 0}),
        ({"acceptImages": True}, {"llm_takes_images": True, "max_images": 0}),
        ({"acceptImages": True, "maxImagesToSend": 2}, {"llm_takes_images": True, "max_images": 2}),
        ({"maxImagesToSend": "many"}, {"llm_takes_images": False, "max_images": 0}),
    ],
)
def test_the_call(bench, config, call):
    """What the node's fields ask for."""
    assert dispatched(bench, **config) == call


@pytest.mark.parametrize("node_type", ["Standard", None, "Conversational", 5, "standard"])
def test_whatever_has_no_type_of_its_own_is_standard(node_type):
    """Names are case-sensitive; a missing or unknown one is Standard."""
    assert type(node_handler(node_type)) is NODES["Standard"]


def test_it_needs_an_endpoint():
    """The schema refuses a node without one."""
    must, _ = node_schema("Standard")
    assert must["allOf"][1]["required"] == ["endpointName"]
