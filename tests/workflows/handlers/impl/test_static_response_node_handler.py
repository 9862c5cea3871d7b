"""StaticResponse: a text from the workflow, filled."""

from __future__ import annotations

import pytest

from Middleware.workflows.handlers.node_types import node_schema


@pytest.mark.parametrize(
    ("config", "text"),
    [({"content": "a {x}"}, "a 1"), ({"content": None}, ""), ({}, ""), ({"content": ""}, "")],
)
def test_content(bench, config, text):
    """Null and absent are nothing."""
    bench.engine.values["x"] = "1"
    assert bench("StaticResponse", **config) == text


def test_schema():
    """A content that is no text is an error; none at all is hardly meant."""
    must, should = node_schema("StaticResponse")
    assert must["allOf"][1]["properties"]["content"]["type"] == "string"
    assert should["allOf"][1]["required"] == ["content"]
