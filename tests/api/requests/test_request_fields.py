"""Fields of a body beside its messages (frontend-api.md 8)."""

from __future__ import annotations

import json
from contextlib import nullcontext

import pytest

from Middleware.api.requests.request_fields import (
    json_body,
    suppresses_reasoning,
    tools_of,
    wants_stream,
    wants_usage,
)
from Middleware.common.errors import ClientRequestError

TOOL = {"type": "function", "function": {"name": "t"}}


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b" ", "the body is empty"),
        (b"{", "not JSON: .* at line 1, column 2"),
        (b'{"a": "\xfc"}', "not JSON: it is not UTF-8 text"),
        (b"[1]", "must be a JSON object"),
        (b"[" * 100000, "not JSON: it is nested too deeply"),
        (b'{"a": ' + b"9" * 5000 + b"}", "not JSON: it contains a number that is too long"),
        (b'{"a": [NaN]}', "not JSON: NaN is not a number"),
        (b'{"a": -Infinity}', "not JSON: -Infinity is not a number"),
        (b'{"a": -1e999}', "not JSON: it contains a number that is too large: -1e999"),
    ],
    ids=["empty", "cut", "bytes", "list", "deep", "long", "nan", "infinity", "large"],
)
def test_bodies_that_are_no_object(data, said):
    """A request error, whatever is in them."""
    with pytest.raises(ClientRequestError, match=said):
        json_body(data)


def test_a_body():
    """Its content type is not asked for."""
    assert json_body(b'{"a": 1}') == {"a": 1}


@pytest.mark.parametrize(
    ("value", "expected"),
    [(True, True), (False, False), ("TRUE ", True), ("false", False), (1, True), (0, False), (None, "default"),
     ("yes", "default"), (7, "default"), ([], "default")],
)  # fmt: skip
@pytest.mark.parametrize("default", [True, False])
def test_stream(value, expected, default):
    """Booleans, their words, 0 and 1; anything else is the route's default."""
    assert wants_stream({"stream": value}, default) is (default if expected == "default" else expected)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"include_usage": True}, True),
        ({"include_usage": "yes"}, False),
        ({}, False),
        (None, False),
        ([1], False),
    ],
)
def test_usage(options, expected):
    """Only when it is asked for."""
    assert wants_usage({"stream_options": options}) is expected


@pytest.mark.parametrize(
    ("body", "expected"),
    [({"think": False}, True), ({"think": None}, False), ({"think": 0}, False), ({"reasoning_effort": "none"}, True),
     ({"reasoning_effort": "low"}, False), ({}, False)],
)  # fmt: skip
def test_reasoning(body, expected):
    """`think: false` and the effort `none` drop it."""
    assert suppresses_reasoning(body) is expected


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ({}, (None, None)),
        ({"tools": [TOOL], "tool_choice": "auto"}, ([TOOL], "auto")),
        ({"tools": [], "tool_choice": None}, (None, None)),
        ({"tools": "x", "tool_choice": 5}, (None, None)),
        ({"tools": [TOOL, 5]}, ([TOOL], None)),
        ({"functions": [{"name": "t"}], "function_call": "auto"}, ([TOOL], "auto")),
        ({"functions": [{"name": "t"}], "function_call": {"name": "t"}}, ([TOOL], TOOL)),
        ({"functions": [{"name": "u"}], "tools": [TOOL]}, ([TOOL], None)),
    ],
    ids=["none", "tools", "empty", "odd", "mixed", "legacy", "legacy-named", "tools-win"],
)
def test_tools(body, expected):
    """Unchanged; the legacy fields are translated when `tools` is absent."""
    assert tools_of(body) == expected


def nested(levels, holder):
    value = 1
    for _ in range(levels):
        value = {"a": value} if holder == "object" else [value]
    return value


@pytest.mark.parametrize("holder", ["object", "list"])
@pytest.mark.parametrize("levels", [199, 200, 800])
def test_a_body_is_at_most_two_hundred_levels_deep(levels, holder):
    """The body itself is the first; whatever field it is, used or not."""
    data = json.dumps({"metadata": nested(levels, holder), "messages": []}).encode()
    refused = levels > 199
    with pytest.raises(ClientRequestError, match="more than 200 levels") if refused else nullcontext():
        json_body(data)
