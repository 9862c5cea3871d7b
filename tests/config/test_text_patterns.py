"""Patterns of schemas are read as editors read them."""

from __future__ import annotations

import pytest

from Middleware.config.text_patterns import has_pattern


@pytest.mark.parametrize(
    ("pattern", "fitting", "other"),
    [
        (r"^a+$", "aa", "aa\n"),
        (r"^(a|b$)", "b", "b\n"),
        (r"^a$|^b$", "a", "a\n"),
        (r"^[a$]+$", "$a", "$a\n"),
        (r"^a\$", "a$b", "a"),
        (r"^\s*a\s*$", " a\n", "b"),
        (r"a", "xax\n", "b"),
    ],
)
def test_the_end_is_the_end(pattern, fitting, other):
    """A line end behind it belongs to the text; a `$` that is a letter stays one."""
    assert has_pattern(fitting, pattern) and not has_pattern(other, pattern)
