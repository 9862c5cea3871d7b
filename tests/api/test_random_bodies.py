"""Random JSON in every field of every route: a refusal or an answer in the protocol's own shape, never a bug.

Whatever front ends are registered, all their POST routes are tried; after each request the gate is free again.
"""

from __future__ import annotations

import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from Middleware.api.api_server import ApiServer
from Middleware.api.app import _App
from Middleware.api.handlers import impl  # noqa: F401
from Middleware.api.handlers.front_ends import FRONT_ENDS, all_doors
from Middleware.protocols.base import ErrorReply

POSTS = sorted(
    {
        route.path.replace("<request_id>", "r1").replace("<response_id>", "r1")
        for _, handler in FRONT_ENDS.items()
        for route in handler.routes
        if "POST" in (route.methods or route.view.methods or ())
    }
)
FIELDS = [
    *("model", "messages", "prompt", "system", "input", "instructions", "content", "memory", "images", "suffix"),
    *("stream", "stream_options", "tools", "tool_choice", "functions", "function_call", "think", "thinking"),
    *("reasoning", "reasoning_effort", "max_tokens", "max_output_tokens", "max_length", "stop", "temperature"),
    *("options", "format", "response_format", "text", "store", "previous_response_id", "metadata", "truncation"),
    *("user", "path", "api_key", "genkey", "keep_alive", "name", "encoding_format", "dimensions", "jsonrpc", "id", "method", "params"),
]  # fmt: skip
WORDS = st.sampled_from(
    ["mira", "user", "system", "assistant", "tool", "text", "function", "auto", "2.0", "tools/call", "initialize"]
)  # fmt: skip
SCALARS = (
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | WORDS | st.text(max_size=20)
)
KEYS = st.sampled_from([*FIELDS, "role", "type", "tool_calls", "name", "arguments", "url", "source"])
VALUES = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(KEYS | st.text(max_size=5), inner, max_size=4)
    ),
    max_leaves=12,
)
PAGE = {"X-Headrace-Console": "1"}
"""The console's own page says so; nobody else looks at it."""
BODIES = st.dictionaries(st.sampled_from(FIELDS), VALUES, max_size=8)
MESSAGES = st.lists(st.dictionaries(KEYS, VALUES, max_size=4), max_size=3)
LIKELY = st.fixed_dictionaries(
    {"model": st.just("mira")},
    optional={
        name: MESSAGES | VALUES for name in ("messages", "input", "prompt", "tools", "params", "stream")
    },
)


@pytest.fixture
def app(configs, engine, facts):
    """The application behind a gate of one slot."""
    facts(concurrency=1, concurrency_level="request", concurrency_timeout_s=5)
    made = _App("random", static_folder=None)
    made.door = ApiServer(made).door
    return made


@pytest.mark.parametrize("path", POSTS)
@settings(
    max_examples=40,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(body=BODIES | LIKELY | VALUES)
def test_no_body_breaks_a_route(app, path, body):
    """JSON or the protocol's own stream, with a status that the protocol knows; errors in its shape."""
    data = json.dumps(body).encode("utf-8", "surrogatepass")
    with app.test_client().post(path, data=data, content_type="application/json", headers=PAGE) as answer:
        text = answer.get_data()
    assert answer.status_code in (200, 202, 400, 404, 413, 415, 499), (answer.status_code, text[:500])
    assert answer.mimetype in ("application/json", "text/event-stream", "application/x-ndjson") or not text
    if answer.status_code >= 400:
        told = json.loads(text)
        shape = all_doors().protocol_of({"REQUEST_METHOD": "POST", "PATH_INFO": path})
        assert told.keys() == shape.error_body(ErrorReply(answer.status_code, "x")).keys(), (shape.name, told)
    assert [life for life in app.door.lives if not life.answered] == []
    with app.test_client().post("/api/chat", json={"model": "mira", "messages": [], "stream": False}) as free:
        assert free.status_code == 200
