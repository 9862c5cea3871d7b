"""Conditional: logical expressions."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from Middleware.workflows.handlers.impl.conditional_node_handler import evaluate

TRUE = [
    "5 > 3 AND 'a' == 'a'",
    "FALSE OR TRUE AND TRUE",
    "a == a OR b == a",
    '"it\'s" == "it\'s"',
    "5 === 5",
    "!TRUE",
    "50% == 50",
    "-5 < 3",
    "5 == 5.0",
    "TRUE == 1",
    "FALSE == 0",
    "TRUE > 0",
    "inf > 99999",
    "infinity == inf",
    "nan",
    "'0'",
    "'FALSE'",
    "x",
    "-1",
    "true and True",
    "((TRUE))",
    "(TRUE) (TRUE) OR",
    "TRUE OR FALSE AND FALSE",
    "FALSE AND FALSE OR TRUE",
    "android == android",
    "a != b",
    "10 != '10'",
    "3 >= 3 and 3 <= 3",
    "x == 'x'",
    "'a\nb' == 'a\nb'",
    "AND_x == AND_x",
]
FALSE = [
    "(FALSE OR TRUE) AND FALSE",
    "x == 'AND'",
    ".5 == 0.5",
    "'5' > '3'",
    "abc > abb",
    "TRUE == 'TRUE'",
    "'a' == 'A'",
    "0",
    "0.0",
    "''",
    "FALSE",
    "nan == nan",
    "10 == '10'",
    "3 > x",
]
MALFORMED = [
    "\u017f == \u017f",  # not ASCII letters: skipped
    "5-3 == 2",
    "hello world == hello world",
    "1,000 > 5",
    "5 = 5",
    "NOT FALSE",
    "== 5",
    "5 ==",
    "==",
    "1 == 1 == 1",
    "a == > b",
    "> > >",
    "(TRUE",
    "TRUE)",
    "(5) > 3",
    "AND",
    "TRUE AND",
    "OR TRUE",
    "()",
    "  ",
    "???",
    "(TRUE) (TRUE)",
    "'AND'",
    "'or'",
    "TRUE OR 'AND'",
    "it's done == it's done",
]


@pytest.mark.parametrize("condition", TRUE, ids=repr)
def test_true(bench, condition):
    """Well-formed and true."""
    assert bench("Conditional", condition=condition) == "TRUE"
    assert bench.engine.warnings == []


@pytest.mark.parametrize("condition", FALSE, ids=repr)
def test_false(bench, condition):
    """Well-formed and false: no warning."""
    assert bench("Conditional", condition=condition) == "FALSE"
    assert bench.engine.warnings == []


@pytest.mark.parametrize("condition", MALFORMED, ids=repr)
def test_malformed(bench, condition):
    """Not well-formed: false, with a warning."""
    assert bench("Conditional", condition=condition) == "FALSE"
    assert "not well-formed" in bench.engine.warnings[0]


@pytest.mark.parametrize("fields", [{}, {"condition": ""}, {"condition": None}], ids=repr)
def test_without_a_condition_it_is_false(bench, fields):
    """With a warning."""
    assert bench("Conditional", **fields) == "FALSE"
    assert "missing or empty" in bench.engine.warnings[0]
    assert bench.findings("Conditional", **fields)[1] != []


def test_variables_are_filled_first(bench):
    """The example of the specification."""
    bench.engine.values = {"agent1Output": "go on", "agent2Output": "10", "agent3Output": "FALSE"}
    condition = "({agent2Output} >= 10 OR {agent3Output} == TRUE) AND '{agent1Output}' != 'skip'"
    assert bench("Conditional", condition=condition) == "TRUE"


def test_a_warning_does_not_repeat_the_users_words(bench):
    """They may be private."""
    bench("Conditional", condition="secret words here")
    assert "secret" not in bench.engine.warnings[0]


def test_a_quoted_operator_works_as_the_operator_on_its_own():
    """A quirk that is kept: `(TRUE) (TRUE) ('OR')` counts as reverse Polish."""
    assert evaluate("(TRUE) (TRUE) ('OR')") is True


@settings(max_examples=150)
@given(st.text(alphabet="()'\"=!<> TRUEFALSANDOx_1.-", max_size=40))
def test_no_text_does_more_than_raise_value_error(condition):
    """Every text is true, false or malformed."""
    try:
        assert evaluate(condition) in (True, False)
    except ValueError as error:
        assert str(error)
