"""The time stamp that a model copies."""

from __future__ import annotations

import pytest

from Middleware.cleaning import ResponseCleaner


def clean(text, endpoint=None, node=None, **more):
    cleaner = ResponseCleaner(endpoint, node, **more)
    return "".join([cleaner.feed(letter) for letter in text]) + cleaner.finish()


STAMP = "[Sent less than a minute ago]"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (f"{STAMP} a", "a"),
        (f"{STAMP}a", "a"),
        (f"{STAMP} {STAMP} a", f"{STAMP} a"),
        ("[Sent a", "[Sent a"),
        (STAMP, ""),
    ],
)
def test_timestamp_prefix(text, expected):
    """Removed once."""
    assert clean(text, node={"addDiscussionIdTimestampsForLLM": True}) == expected


def test_off():
    assert clean(f"{STAMP} a", node={}) == f"{STAMP} a"
