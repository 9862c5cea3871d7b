"""ArithmeticProcessor: two numbers and an operator."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from Middleware.workflows.handlers.impl.arithmetic_node_handler import calculate

TABLE = {
    "10 + 5": "15",
    "10 -5": "5",
    "10--5": "15",
    "10 / 4": "2.5",
    "1/3": "0.3333333333333333",
    "0.1 + 0.2": "0.30000000000000004",
    "1.0 * 3": "3",
    "-0 * 5": "0",
    "-2 * -3": "6",
    "7 - 10": "-3",
    "2\t*\n3": "6",
    "5 + 1 + 1": "-1",
    "(1+2)": "-1",
    "7": "-1",
    "+5 + 1": "-1",
    ".5 + 1": "-1",
    "5. + 1": "-1",
    "1e3 + 1": "-1",
    "1,000 + 1": "-1",
    "10 % 3": "-1",
    "ten + 5": "-1",
    "10 / 0": "-1",
    "0 / 0": "-1",
    "10 +": "-1",
    "- 5 + 1": "-1",
    "٣ + 1": "-1",
    "9" * 400 + " * 1": "-1",
    "Custom instruction file did not exist + 1": "-1",
}


@pytest.mark.parametrize(("expression", "output"), TABLE.items(), ids=[e[:20] for e in TABLE])
def test_table(bench, expression, output):
    """Exactly two numbers; whole results without a point; all else is -1."""
    assert bench("ArithmeticProcessor", expression=f"  {expression}\n") == output


@pytest.mark.parametrize("fields", [{}, {"expression": ""}, {"expression": None}], ids=repr)
def test_without_an_expression_the_output_is_minus_one(bench, fields):
    """Workflows rely on it."""
    assert bench("ArithmeticProcessor", **fields) == "-1"
    assert bench.findings("ArithmeticProcessor", **fields)[0] == []
    assert bench.findings("ArithmeticProcessor", **fields)[1] != []


def test_variables_are_filled_first(bench):
    """The usual turn counter."""
    bench.engine.values["agent1Output"] = "41\n"
    assert bench("ArithmeticProcessor", expression="{agent1Output} + 1") == "42"


@settings(max_examples=100)
@given(st.text(alphabet="0123456789.+-*/ e()", max_size=30))
def test_whatever_comes_in_a_number_comes_out(expression):
    """No text makes it raise."""
    float(calculate(expression))
