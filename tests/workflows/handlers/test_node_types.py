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
    number_keys,
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


WITH_FRACTIONS = {"percentile", "toolTimeout", "totalTimeout"}


@pytest.mark.parametrize("name", list(NODES))
def test_each_type_states_its_own_numbers(name):
    """As it states them, so its default and its kind hold, and none is a number that it says is none."""
    numbers = number_keys(name)
    for field, key in NODES[name].ALL_KEYS.items():
        assert (field in numbers) is key.number
        assert not key.number or numbers[field] is key
    assert {field for field, key in numbers.items() if key.fraction} <= WITH_FRACTIONS
    for key in numbers.values():
        assert key.fraction or type(key.default) in (int, type(None))


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
