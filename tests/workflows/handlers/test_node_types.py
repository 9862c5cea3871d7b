"""What the `type` of a node stands for, and which of its fields are made numbers."""

from __future__ import annotations

import pytest

from Middleware.workflows.handlers.node_types import (
    COMMON_KEYS,
    MEMORY_KEYS,
    NODES,
    common_schema,
    descriptions,
    every_node,
    known_type,
    model_nodes,
    node_handler,
    node_schema,
    number_defaults,
)


@pytest.mark.parametrize(
    ("written", "means"),
    [
        ("StaticResponse", "StaticResponse"),
        ("Standard", "Standard"),
        *[
            (text, "Standard")
            for text in ("Conversational", "staticresponse", "Nope", "", None, 3, ["Standard"])
        ],
    ],
)
def test_the_type_that_is_meant(written, means):
    """Whatever no type is called runs as `Standard`; each type has one handler."""
    assert known_type(written) == means
    assert node_handler(written) is node_handler(means)
    assert type(node_handler(written)) is NODES[means]


def test_numbers_of_nodes_and_of_memory_settings():
    """Each has the default that stands in for a text that is no number; None: the text stays."""
    numbers = number_defaults()
    assert numbers is number_defaults()
    assert [numbers[name] for name in ("chunksPerMemory", "offlineWikiApiPort")] == [3, None]
    assert numbers["memoryCondensationBuffer"] == MEMORY_KEYS["memoryCondensationBuffer"].default
    assert numbers["maxResponseSizeInTokens"] == COMMON_KEYS["maxResponseSizeInTokens"].default
    assert "prompt" not in numbers and "endpointName" not in numbers


@pytest.mark.parametrize("name", list(NODES))
def test_a_schema_holds_the_common_fields_and_its_own(name):
    """What must hold, and what should."""
    must, should = common_schema()
    assert node_schema(name) == (
        {"allOf": [must, NODES[name].SCHEMA]},
        {"allOf": [should, NODES[name].ADVICE]},
    )


def test_the_fields_in_words():
    """Of any node, of nodes that call a model, and all together."""
    assert "title" in every_node() and "endpointName" not in every_node()
    assert "endpointName" in model_nodes() and "title" not in model_nodes()
    assert every_node().keys() | model_nodes().keys() < descriptions().keys()
