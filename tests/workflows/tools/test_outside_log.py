"""The log line of an outside call."""

from __future__ import annotations

import pytest

from Middleware.workflows.tools.web import log_outside_call


@pytest.mark.parametrize(
    ("caller", "begins"), [("", "GET a.example: "), ("Main.json, node 1", "Main.json, node 1: GET ")]
)
def test_a_call_that_ends_well(caplog, caller, begins):
    caplog.set_level("INFO")
    with log_outside_call("GET", "a.example", caller) as outcome:
        outcome.status, outcome.length = 200, 5
    (line,) = caplog.messages
    assert line.startswith(begins) and "status 200, 5 bytes, " in line


def test_one_that_fails_has_its_line_too(caplog):
    caplog.set_level("INFO")
    with pytest.raises(OSError, match="x"), log_outside_call("GET", "a.example"):
        raise OSError("x")
    assert caplog.messages[0].startswith("GET a.example: status None, 0 bytes, ")
