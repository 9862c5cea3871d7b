"""Fields of nodes that call something outside: what they take, and the sentence for what they do not."""

from __future__ import annotations

import pytest

from Middleware.common.errors import ConfigError
from Middleware.workflows.handlers.base import outside_fields as fields


@pytest.mark.parametrize(("value", "taken"), [(None, True), (True, True), (False, False)])
def test_a_flag(value, taken):
    """Null counts as an absent key."""
    assert fields.STRICT_FLAG.but(default=True).value_in({"verify": value}, "verify") is taken


@pytest.mark.parametrize(
    ("value", "taken"),
    [(None, 30.0), (2, 2.0), ("0.5", 0.5), (" 7 ", 7.0), (fields.MAX_SECONDS, fields.MAX_SECONDS)],
)
def test_seconds(value, taken):
    """A number, or a text that reads as one."""
    assert fields.SECONDS.but(default=30).value_in({"timeout": value}, "timeout") == taken


@pytest.mark.parametrize(
    ("value", "taken"), [(None, 10 * 1024 * 1024), (5, 5), ("5", 5), (5.9, 5), (0, None), (-1, None)]
)
def test_a_cap(bench, value, taken):
    """0 and less mean none."""
    assert fields.byte_cap(bench.context("WebFetch", maxResponseBytes=value)) == taken


@pytest.mark.parametrize(
    ("key", "value", "allowed"),
    [
        (fields.STRICT_FLAG, "false", "true or false"),
        (fields.STRICT_FLAG, 0, "true or false"),
        (fields.choice("raise", "return"), "stop", "raise"),
        (fields.SECONDS, 0, "a number of seconds above 0"),
        (fields.SECONDS, fields.MAX_SECONDS + 1, "a number of seconds above 0"),
        (fields.SECONDS, "soon", "a number of seconds above 0"),
        (fields.SECONDS, True, "a number of seconds above 0"),
        (fields.KEYS["maxResponseBytes"], "many", "a whole number of bytes"),
    ],
    ids=["flag-text", "flag-number", "choice", "no-time", "too-long", "no-number", "flag-as-seconds", "cap"],
)  # fmt: skip
def test_what_is_allowed_is_told(key, value, allowed):
    """With the field's name."""
    with pytest.raises(ConfigError, match=f"'x'.*{allowed}"):
        key.value_in({"x": value}, "x")


def test_a_choice_reads_its_own_words_only():
    """Also where nobody checked the value before."""
    words = fields.choice("raise", "return")
    assert (words.default, words.read("return")) == ("raise", "return")
    with pytest.raises(ValueError, match=r"^one of raise, return$"):
        words.read("stop")


@pytest.mark.parametrize("value", ["h", 5, ["h", 5], {"h": 1}], ids=str)
def test_hosts_are_a_list_of_names(value):
    """One name that is no text makes all of it wrong: nobody is let through by half a list."""
    with pytest.raises(ConfigError, match=r"a list of"):
        fields.KEYS["allowedHosts"].value_in({"allowedHosts": value}, "allowedHosts")
    assert fields.KEYS["allowedHosts"].value_in({"allowedHosts": ["h"]}, "allowedHosts") == ["h"]
