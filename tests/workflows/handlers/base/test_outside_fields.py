"""Fields of nodes that call something outside: what they take, and the sentence for what they do not."""

from __future__ import annotations

import pytest

from Middleware.common.errors import ConfigError
from Middleware.workflows.handlers.base import outside_fields as fields


@pytest.mark.parametrize(("value", "taken"), [(None, True), (True, True), (False, False)])
def test_a_flag(value, taken):
    """Null counts as an absent key."""
    assert fields.flag({"verify": value}, "verify", True) is taken


@pytest.mark.parametrize(
    ("value", "taken"),
    [(None, 30.0), (2, 2.0), ("0.5", 0.5), (" 7 ", 7.0), (fields.MAX_SECONDS, fields.MAX_SECONDS)],
)
def test_seconds(value, taken):
    """A number, or a text that reads as one."""
    assert fields.seconds({"timeout": value}, "timeout", 30.0) == taken


@pytest.mark.parametrize(
    ("value", "taken"), [(None, fields.DEFAULT_CAP), (5, 5), ("5", 5), (5.9, 5), (0, None), (-1, None)]
)
def test_a_cap(value, taken):
    """0 and less mean none."""
    assert fields.byte_cap({"maxResponseBytes": value}) == taken


@pytest.mark.parametrize(
    ("read", "value", "allowed"),
    [
        (lambda config: fields.flag(config, "x"), "false", "true or false"),
        (lambda config: fields.flag(config, "x"), 0, "true or false"),
        (lambda config: fields.choice(config, "x", ("raise", "return")), "stop", "raise"),
        (lambda config: fields.seconds(config, "x", None), 0, "a number of seconds above 0"),
        (lambda config: fields.seconds(config, "x", None), fields.MAX_SECONDS + 1, "a number of seconds above 0"),
        (lambda config: fields.seconds(config, "x", None), "soon", "a number of seconds above 0"),
        (lambda config: fields.seconds(config, "x", None), True, "a number of seconds above 0"),
        (lambda config: fields.byte_cap({"maxResponseBytes": config["x"]}), "many", "a whole number of bytes"),
    ],
    ids=["flag-text", "flag-number", "choice", "no-time", "too-long", "no-number", "flag-as-seconds", "cap"],
)  # fmt: skip
def test_what_is_allowed_is_told(read, value, allowed):
    """With the field's name."""
    with pytest.raises(ConfigError, match=f"'(x|maxResponseBytes)'.*{allowed}"):
        read({"x": value})
