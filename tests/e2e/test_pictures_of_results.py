"""A picture in a tool's result, through the real server: a user message behind the results shows it."""

from __future__ import annotations

import json

import pytest

from tests.e2e.conftest import NODE

pytestmark = pytest.mark.e2e

DATA = "iVBORw0KGgo" + "A" * 201
URI = f"data:image/png;base64,{DATA}"
LOOK = {"role": "user", "content": "look"}
FUNCTION = {"name": "shot", "arguments": "{}"}
CALL = {
    "role": "assistant",
    "content": None,
    "tool_calls": [{"id": "c1", "type": "function", "function": FUNCTION}],
}
BODIES = {
    "/v1/chat/completions": {
        "messages": [
            LOOK,
            CALL,
            {
                "role": "tool",
                "tool_call_id": "c1",
                "content": [
                    {"type": "text", "text": "see"},
                    {"type": "image_url", "image_url": {"url": URI}},
                ],
            },
        ]
    },
    "/v1/responses": {
        "input": [
            LOOK,
            {"type": "function_call", "call_id": "c1", **FUNCTION},
            {
                "type": "function_call_output",
                "call_id": "c1",
                "output": [{"type": "input_text", "text": "see"}, {"type": "input_image", "image_url": URI}],
            },
        ]
    },
    "/api/chat": {
        "messages": [
            LOOK,
            {
                "role": "assistant",
                "content": "",
                "tool_calls": [{"function": {"name": "shot", "arguments": {}}}],
            },
            {"role": "tool", "tool_name": "shot", "content": "see", "images": [DATA]},
        ]
    },
    "/v1/messages": {
        "max_tokens": 9,
        "messages": [
            LOOK,
            {"role": "assistant", "content": [{"type": "tool_use", "id": "c1", "name": "shot", "input": {}}]},
            {
                "role": "user",
                "content": [
                    {
                        "type": "tool_result",
                        "tool_use_id": "c1",
                        "content": [
                            {"type": "text", "text": "see"},
                            {
                                "type": "image",
                                "source": {"type": "base64", "media_type": "image/png", "data": DATA},
                            },
                        ],
                    }
                ],
            },
        ],
    },
}
USERS = {
    "eye": {"workflows": {"Chat": [{**NODE, "allowTools": True, "acceptImages": True}]}},
    "blind": {"workflows": {"Chat": [{**NODE, "allowTools": True}]}},
}


@pytest.fixture(scope="module")
def server(launch):
    """Of two users; the models of one see."""
    return launch(USERS, "--concurrency", "0")


@pytest.mark.parametrize("path", BODIES)
def test_the_model_sees_it(server, backend, path):
    """On every front."""
    status, body = server.post(path, {**BODIES[path], "model": "eye", "stream": False})
    assert status == 200, body
    result, picture = backend.calls()[-1].body["messages"][-2:]
    assert (result["role"], result["content"]) == ("tool", "see")
    assert picture == {"role": "user", "content": [{"type": "image_url", "image_url": {"url": URI}}]}


@pytest.mark.parametrize("path", BODIES)
def test_a_node_that_takes_none_gets_none(server, backend, path):
    """And the log says so."""
    status, body = server.post(path, {**BODIES[path], "model": "blind", "stream": False})
    assert status == 200, body
    assert "image_url" not in json.dumps(backend.calls()[-1].body)
    assert server.wait_for_log("its pictures reached no model")
