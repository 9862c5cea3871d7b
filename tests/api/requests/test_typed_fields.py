"""Bodies of which every field is known (console.md 5.2)."""

from __future__ import annotations

import pytest

from Middleware.api.requests.request_fields import typed_fields
from Middleware.common.errors import ClientRequestError

KINDS = {"path": str, "user": str | None, "messages": list | None, "deep": bool | None, "n": int | None}


def test_what_may_be_null_may_be_absent():
    """Every name is there, in the order that was asked for."""
    made = typed_fields({"n": 3, "user": None, "path": "a"}, KINDS)
    assert list(made.items()) == [("path", "a"), ("user", None), ("messages", None), ("deep", None), ("n", 3)]


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        ({}, "path: found nothing, allowed: a string"),
        ({"path": None}, "path: found null, allowed: a string"),
        ({"path": 5}, "path: found 5, allowed: a string"),
        ({"path": "a", "user": {}}, "user: found an object, allowed: a string or null"),
        ({"path": "a", "n": True}, "n: found true, allowed: a whole number or null"),
        ({"path": "a", "n": 1.5}, "n: found 1.5, allowed: a whole number or null"),
        ({"path": "a", "deep": 0}, "deep: found 0, allowed: true or false or null"),
        ({"path": "a", "colour": 1}, '"colour" is not a field of this body, allowed: path, user, messages, deep, n'),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_named(body, sentence):
    """Field, what was found, what is allowed."""
    with pytest.raises(ClientRequestError) as refused:
        typed_fields(body, KINDS)
    assert str(refused.value) == sentence


def test_a_body_that_has_no_fields():
    """The sentence ends with a word."""
    with pytest.raises(ClientRequestError, match='"a" is not a field of this body, allowed: none'):
        typed_fields({"a": 1}, {})
