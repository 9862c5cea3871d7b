"""How messages name a place in a config file."""

from __future__ import annotations

import pytest

from Middleware.common.errors import NOWHERE, Position, where

HERE = Position(4, 9, "Recall")


@pytest.mark.parametrize(
    ("file", "pointer", "position", "said"),
    [
        ("Users/ana.json", "", NOWHERE, "Users/ana.json"),
        ("Users/ana.json", "/port", Position(3, 11), "Users/ana.json:3:11: port"),
        ("Workflows/a/M.json", "/nodes/2/prompt", HERE, 'Workflows/a/M.json:4:9: node 3 "Recall", prompt'),
        ("Workflows/a/M.json", "/2/prompt", NOWHERE, "Workflows/a/M.json: node 3, prompt"),
        ("Workflows/a/M.json", "/nodes/0", NOWHERE, "Workflows/a/M.json: node 1"),
        ("Workflows/a/M.json", "/nodes", NOWHERE, "Workflows/a/M.json: nodes"),
        ("Workflows/a/M.json", "/0/scoped_variables/1", NOWHERE, "Workflows/a/M.json: node 1, scoped_variables[1]"),
        ("Workflows/a/M.json", "/0/routeOverrides/x~1y/prompt", NOWHERE, "Workflows/a/M.json: node 1, routeOverrides.x/y.prompt"),
        ("Workflows/a/M.json", "/" + "9" * 5000, NOWHERE, "Workflows/a/M.json: " + "9" * 5000),
        ("Routing/r.json", "/0/workflow", NOWHERE, "Routing/r.json: 0.workflow"),
    ],
    ids=["file", "field", "node-and-title", "list-form", "node", "no-node", "item", "nested", "digits-without-end", "digits-as-a-name"],
)  # fmt: skip
def test_a_place_is_file_line_column_then_node_then_field(file, pointer, position, said):
    assert where(file, pointer, position) == said
