"""White space at the start."""

from __future__ import annotations

import pytest

from Middleware.cleaning import ResponseCleaner


def clean(text, endpoint=None, node=None, **more):
    cleaner = ResponseCleaner(endpoint, node, **more)
    return "".join([cleaner.feed(letter) for letter in text]) + cleaner.finish()


@pytest.mark.parametrize(("text", "expected"), [(" \n\u3000a ", "a "), (" ", ""), ("a", "a")])
def test_leading_space(text, expected):
    """Always on; what stands at the end stays."""
    assert clean(text) == expected
