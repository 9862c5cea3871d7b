"""Patterns with stars: names of models in `ModelAliases.json` (operate.md 4)."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from Middleware.common.wildcards import fits, has_star

CASES = [
    ("gpt-4o", "gpt-4o", True), ("gpt-4o", "gpt-4o-mini", False), ("claude-*", "claude-", True), ("claude-*", "claude", False),
    ("*haiku*", "claude-haiku-4-5", True), ("claude-*haiku*", "claude-sonnet-4", False), ("*", "", True), ("*", "anything:at all/x", True),
    ("a*a", "a", False), ("a*a", "aa", True), ("a*b*c", "a-b-b-c", True), ("a*b*c", "acb", False), ("a[bn]n", "ann", False), ("gpt.4", "gpt-4", False),
    ("a?c", "abc", False), ("**", "x", True), ("", "", True), ("", "x", False), ("x\n*", "x\ny", True), ("*ab", "aab", True),
]  # fmt: skip


@pytest.mark.parametrize(("pattern", "text", "expected"), CASES)
def test_a_star_is_any_run_of_characters(pattern, text, expected):
    """Nothing else is special; the whole text must fit."""
    assert fits(pattern, text) is expected


@given(st.text("ab*", max_size=8), st.text("ab", max_size=12))
def test_as_a_regular_expression_would_say(pattern, text):
    said = ".*".join(map(re.escape, pattern.split("*")))
    assert fits(pattern, text) is bool(re.fullmatch(said, text, re.S))


def test_many_stars_take_one_walk():
    """A pattern that would keep a regular expression busy for ever."""
    assert fits("*a" * 2000 + "*b", "a" * 100_000) is False


def test_which_patterns_have_one():
    assert has_star("claude-*") and not has_star("gpt-4o")
