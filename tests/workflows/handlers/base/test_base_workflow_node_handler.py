"""The fields that nodes share: which numbers they take, as numbers and as texts."""

from __future__ import annotations

import pytest

from Middleware.config.validation import check
from Middleware.workflows.handlers.base.base_workflow_node_handler import COUNT, INTEGER, LIMIT

PLACEHOLDER = "{how_many}"


@pytest.mark.parametrize(
    ("schema", "good", "bad"),
    [
        (INTEGER, [-3, 0, 7, "-3", " 7 ", PLACEHOLDER, f"1{PLACEHOLDER}"], ["seven", "", "1.5", "7 apples", True]),
        (COUNT, [0, 7, "0", " 7 ", PLACEHOLDER], [-1, "-1", "seven", "", "1.5", "7 apples"]),
        (LIMIT, [1, 7, "1", " 07 ", "10", PLACEHOLDER], [0, -1, "0", "00", "-1", "seven", ""]),
    ],
    ids=["whole-number", "count", "limit"],
)  # fmt: skip
def test_a_number_may_be_a_text(schema, good, bad):
    """With a placeholder anything may come out; whatever else is no such number is found."""
    wanted = {"properties": {"n": schema}}
    assert [value for value in [*good, *bad] if not check({"n": value}, wanted, "x.json")] == good
