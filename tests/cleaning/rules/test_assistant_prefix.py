"""The speaker that a model copies."""

from __future__ import annotations

import pytest

from Middleware.cleaning import ResponseCleaner


def clean(text, endpoint=None, node=None, **more):
    cleaner = ResponseCleaner(endpoint, node, **more)
    return "".join([cleaner.feed(letter) for letter in text]) + cleaner.finish()


BOTH = {"chatCompleteAddUserAssistant": True, "chatCompletionAddMissingAssistantGenerator": True}


@pytest.mark.parametrize(
    ("user", "expected"),
    [
        (BOTH, "Assistant: a"),
        ({**BOTH, "chatCompleteAddUserAssistant": False}, "Assistant: Assistant: a"),
        (None, "Assistant: Assistant: a"),
    ],
)
def test_assistant_prefix(user, expected):
    """Removed once, and only when the user sets both flags."""
    assert clean("Assistant: Assistant: a", user_config=user) == expected
