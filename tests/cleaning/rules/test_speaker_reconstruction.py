"""The speaker of a group chat."""

from __future__ import annotations

import pytest

from Middleware.cleaning import ResponseCleaner


def clean(text, endpoint=None, node=None, **more):
    cleaner = ResponseCleaner(endpoint, node, **more)
    return "".join([cleaner.feed(letter) for letter in text]) + cleaner.finish()


SITUATIONS = [  # id, prompt, answer, what the user sees
    ("off", None, "Hi", "Hi"),
    ("blank prompt is off", " ", "Hi", "Hi"),
    ("added", "Roland:", "Hi", "Roland: Hi"),
    ("is there", "Roland:", "Roland: Hi", "Roland: Hi"),
    ("another speaker", "Roland:", "Dr. Anna Smith: Hi", "Dr. Anna Smith: Hi"),
    ("a name of one letter", "Bo:", "A: Hi", "A: Hi"),
    ("last place of a colon", "Bo:", "x" * 12 + ":", "x" * 12 + ":"),
    ("first place too far", "Bo:", "x" * 13 + ":", "Bo: " + "x" * 13 + ":"),
    ("a colon at the start is no name", "Bo:", ": a:", "Bo: : a:"),
    ("prompt is stripped", " Bo: ", "\n Hi", "Bo: Hi"),
    ("empty answer", "Bo:", " ", "Bo: "),
]


@pytest.mark.parametrize(
    ("prompt", "text", "expected"), [s[1:] for s in SITUATIONS], ids=[s[0] for s in SITUATIONS]
)
def test_speaker_reconstruction(prompt, text, expected):
    assert clean(text, generation_prompt=prompt) == expected


def test_comes_before_the_prefixes():
    node = {"removeCustomTextFromResponseStart": True, "responseStartTextToRemove": "Bo:"}
    assert clean("Hi", node=node, generation_prompt="Bo:") == "Hi"


def test_leaves_as_soon_as_it_is_decided():
    cleaner = ResponseCleaner({}, {}, generation_prompt="Bo:")

    assert ResponseCleaner({}, {}, generation_prompt="Bo:").feed(":") == "Bo: :"
    assert [cleaner.feed(text) for text in ("x" * 12, "x", "y")] == ["", "Bo: " + "x" * 13, "y"]
