"""What a body asks of the model (more-fronts.md 13): read, not checked."""

from __future__ import annotations

import pytest

from Middleware.api.requests.request_fields import read_wishes
from Middleware.common.request_context import Wish

FIELDS = {
    "max_tokens": ("max_completion_tokens", "options.num_predict"),
    "stop": ("stop",),
    "temperature": ("temperature",),
    "response_format": ("format",),
    "n": ("n",),
    "logprobs": ("logprobs",),
}

CASES = [
    ("nothing", {}, {}),
    ("null-and-empty", {"stop": [], "temperature": None, "format": ""}, {}),
    ("zero-is-something", {"temperature": 0}, {"temperature": Wish(0, "temperature")}),
    ("a-field-of-a-field", {"options": {"num_predict": 5}}, {"max_tokens": Wish(5, "options.num_predict")}),
    ("no-object-there", {"options": [1]}, {}),
    (
        "the-first-counts",
        {"max_completion_tokens": 1, "options": {"num_predict": 2}},
        {"max_tokens": Wish(1, "max_completion_tokens")},
    ),
    (
        "null-is-not-the-first",
        {"max_completion_tokens": None, "options": {"num_predict": 2}},
        {"max_tokens": Wish(2, "options.num_predict")},
    ),
    ("no-limit-is-no-wish", {"options": {"num_predict": -1}, "max_completion_tokens": -2}, {}),
    ("any-type", {"stop": {"a": 1}}, {"stop": Wish({"a": 1}, "stop")}),
    ("plain-text-is-no-format", {"format": {"type": "text"}}, {}),
    ("one-answer-is-no-wish", {"n": 1, "logprobs": False}, {}),
    (
        "what-none-can-take",
        {"n": 2, "logprobs": True},
        {"n": Wish(2, "n"), "logprobs": Wish(True, "logprobs")},
    ),
]


@pytest.mark.parametrize(("body", "wishes"), [c[1:] for c in CASES], ids=[c[0] for c in CASES])
def test_read(body, wishes):
    """The first field that says something, by what the client calls it."""
    assert read_wishes(body, FIELDS) == wishes


def test_they_cannot_be_changed():
    with pytest.raises(TypeError):
        read_wishes({}, FIELDS)["stop"] = Wish("x", "stop")  # type: ignore[index]
