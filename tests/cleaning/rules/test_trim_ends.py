"""White space at both ends."""

from __future__ import annotations

import pytest

from Middleware.cleaning import ResponseCleaner


def clean(text, endpoint=None, node=None, **more):
    cleaner = ResponseCleaner(endpoint, node, **more)
    return "".join([cleaner.feed(letter) for letter in text]) + cleaner.finish()


@pytest.mark.parametrize(
    ("on", "text", "expected"),
    [(True, "\n a \n b \n", "a \n b"), (True, " \n ", ""), (False, "a \n", "a \n"), (True, "a\u3000", "a")],
)
def test_trim_ends(on, text, expected):
    assert clean(text, {"trimBeginningAndEndLineBreaks": on}) == expected


def test_also_the_space_that_another_rule_put_there():
    assert clean("", {"trimBeginningAndEndLineBreaks": True}, generation_prompt="Bo:") == "Bo:"


def test_space_is_held_until_something_follows():
    cleaner = ResponseCleaner({"trimBeginningAndEndLineBreaks": True}, {})

    assert [cleaner.feed(text) for text in ("a ", " ", "b", "\n")] == ["a", "", "  b", ""]
