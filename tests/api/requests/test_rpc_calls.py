"""JSON-RPC messages of MCP clients (more-fronts.md 6.1, 6.2, 6.6)."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from Middleware.api.requests.rpc_calls import RpcFault, read_call

VERSION = "io.modelcontextprotocol/protocolVersion"


def call(**more):
    return json.dumps({"jsonrpc": "2.0", "method": "ping", "id": 1, **more}).encode()


def fault_of(data):
    with pytest.raises(RpcFault) as caught:
        read_call(data)
    return caught.value


def test_a_request():
    """Method, id and parameters."""
    read = read_call(call(id="a", params={"x": 1}))
    assert (read.method, read.id, read.params, read.modern, read.wants_answer) == (
        "ping",
        "a",
        {"x": 1},
        False,
        True,
    )


def test_a_notification_wants_no_answer():
    """It has no id."""
    assert not read_call(b'{"jsonrpc":"2.0","method":"notifications/initialized"}').wants_answer


@pytest.mark.parametrize("key", ["result", "error"])
def test_a_response_is_nothing_to_answer(key):
    """Nothing was asked of the client."""
    assert read_call(json.dumps({"jsonrpc": "2.0", "id": 1, key: {}}).encode()) is None


def test_the_modern_protocol_names_its_version_in_each_request():
    """That is how it is known."""
    assert read_call(call(params={"_meta": {VERSION: "2026-07-28"}})).modern


@pytest.mark.parametrize("version", ["2025-06-18", "2030-01-01", 7])
def test_an_unknown_version(version):
    """Is told which there are."""
    fault = fault_of(call(params={"_meta": {VERSION: version}}))
    error = fault.body["error"]
    assert (fault.status, error["code"], fault.body["id"]) == (400, -32022, 1)
    assert error["data"]["requested"] == version and error["data"]["supported"][0] == "2026-07-28"


@pytest.mark.parametrize(
    ("data", "code", "says"),
    [
        (b"{", -32700, "not JSON"),
        (b"", -32700, "empty"),
        (b"\xff", -32700, "not JSON"),
        (b"[]", -32600, "one message at a time"),
        (b"[" + call() + b"]", -32600, "one message at a time"),
        (b"7", -32600, "must be a JSON object"),
        (b'{"a":' + b"[" * 300 + b"]" * 300 + b"}", -32600, "nested"),
        (b'{"method":"ping","id":1}', -32600, "'jsonrpc'"),
        (b'{"jsonrpc":"1.0","method":"ping","id":1}', -32600, "'jsonrpc'"),
        (b'{"jsonrpc":"2.0","id":1}', -32600, "'method'"),
        (b'{"jsonrpc":"2.0","id":1,"method":7}', -32600, "'method'"),
        (b'{"jsonrpc":"2.0","id":null,"method":"ping"}', -32600, "'id'"),
        (b'{"jsonrpc":"2.0","id":true,"method":"ping"}', -32600, "'id'"),
        (b'{"jsonrpc":"2.0","id":[1],"method":"ping"}', -32600, "'id'"),
        (b'{"jsonrpc":"2.0","id":NaN,"method":"ping"}', -32700, "not JSON: NaN is not a number"),
        (b'{"jsonrpc":"2.0","id":1e999,"method":"ping"}', -32700, "a number that is too large"),
    ],
)
def test_what_is_no_request(data, code, says):
    """HTTP 400, with a sentence."""
    fault = fault_of(data)
    assert (fault.status, fault.body["error"]["code"]) == (400, code)
    assert says in fault.body["error"]["message"]


def test_parameters_are_an_object():
    """Null is as good as none."""
    fault = fault_of(call(params=[1]))
    assert (fault.status, fault.body["error"]["code"], fault.body["id"]) == (200, -32602, 1)
    assert read_call(call(params=None)).params == {}


def test_a_fault_does_not_repeat_a_megabyte():
    """Its sentence is for people."""
    fault = fault_of(call(params={"_meta": {VERSION: "9" * 1_000_000}}))
    assert len(fault.body["error"]["message"]) == 2000


def test_a_notification_is_never_answered():
    """Whatever it says."""
    read = read_call(b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":[1]}')
    assert not read.wants_answer and read.params == {}


@pytest.mark.parametrize(("token", "read"), [("t", "t"), (3, 3), (True, None), (None, None), ({}, None)])
def test_the_token_of_progress(token, read):
    """A text or a number."""
    assert read_call(call(params={"_meta": {"progressToken": token}})).progress_token == read


@given(st.binary(max_size=40) | st.recursive(st.none() | st.booleans() | st.text(), st.lists).map(
    lambda value: json.dumps({"jsonrpc": "2.0", "method": "ping", "params": value, "id": value}).encode()
))  # fmt: skip
def test_whatever_comes_is_read_or_refused(data):
    """Nothing else is raised."""
    try:
        read_call(data)
    except RpcFault as fault:
        assert fault.body["error"]["message"]
