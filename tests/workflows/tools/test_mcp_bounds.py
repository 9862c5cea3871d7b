"""Tool servers behind HTTP whose answers are packed, endless, or none of the protocol."""

from __future__ import annotations

import gzip
import json

import pytest

from Middleware.workflows.tools import mcp_stdio
from Middleware.workflows.tools.mcp_doors import ThreadDoor
from Middleware.workflows.tools.mcp_request import McpRequest, McpServer, MCPToolCallError
from tests.patience import PATIENCE_S

JSON = {"Content-Type": "application/json"}


def result(number, text):
    content = {"content": [{"type": "text", "text": text}]}
    return json.dumps({"jsonrpc": "2.0", "id": number, "result": content}).encode()


ANSWERS = {
    "fine": lambda number: (200, JSON, result(number, "fine")),
    "packed": lambda number: (
        200,
        {**JSON, "Content-Encoding": "gzip"},
        gzip.compress(result(number, "x" * 5_000_000), mtime=0),
    ),
    "too_long": lambda number: (200, JSON, result(number, "x" * 300_000)),
    "no_text": lambda number: (200, JSON, b"\xff\xfe<html>"),
    "other_shape": lambda number: (200, JSON, b'{"jsonrpc": "2.0", "id": %d, "result": "x"}' % number),
    "other_type": lambda number: (200, {"Content-Type": "text/html"}, b"hi"),
    "redirect": lambda number: (307, {"Location": "http://169.254.169.254/"}, b""),
    "long_event": lambda number: (
        200,
        {"Content-Type": "text/event-stream"},
        [b"data: ", *[b"x" * 50_000] * 6],
    ),
    "bad_event": lambda number: (200, {"Content-Type": "text/event-stream"}, [b"data: \xff{no\n\n"]),
}


@pytest.fixture
def call(site, monkeypatch):
    """`call(tool)`: the text, or the message of its failure."""
    monkeypatch.setattr(mcp_stdio, "LONGEST_MESSAGE", 200_000)

    def answer(handler):
        asked = json.loads(site.seen[-1].body or b"{}")
        site.write(handler, *_answer(asked))

    site.pages["/mcp"] = answer
    door = ThreadDoor()

    def called(tool):
        server = McpServer("web", "streamable_http", url=site.url("/mcp"))
        try:
            return door.submit(McpRequest(server, "ana", tool, {}, PATIENCE_S)).result(PATIENCE_S)
        except MCPToolCallError as error:
            return str(error)

    yield called
    door.close()


def _answer(asked):
    number, method = asked.get("id"), asked.get("method")
    if number is None:
        return 405 if method is None else 202, {}, b""
    if method == "initialize":
        facts = {
            "protocolVersion": asked["params"]["protocolVersion"],
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "web", "version": "1"},
        }
        return 200, JSON, json.dumps({"jsonrpc": "2.0", "id": number, "result": facts}).encode()
    if method == "tools/list":
        return 200, JSON, json.dumps({"jsonrpc": "2.0", "id": number, "result": {"tools": []}}).encode()
    return ANSWERS[asked["params"]["name"]](number)


@pytest.mark.parametrize(
    ("tool", "said"),
    [
        ("packed", "its answer is compressed, although that was not requested"),
        ("too_long", "it sent a message of more than 200000 bytes"),
        ("no_text", "Failed to parse JSON response"),
        ("other_shape", "Failed to parse JSON response"),
        ("other_type", "Unexpected content type: text/html"),
        ("redirect", "MCP server 'web', tool 'redirect'"),
        ("long_event", "exceeded the 200000 byte limit"),
        ("bad_event", "Failed to parse SSE message"),
    ],
)
def test_the_call_fails_with_a_reason_and_the_next_is_answered(call, site, tool, said):
    """At once, not when its time is up; nothing is unpacked, no redirect is followed."""
    assert said in call(tool)
    assert call("fine") == "fine"
    assert site.seen[0].headers["Accept-Encoding"] == "identity"


def test_an_event_may_be_as_long_as_any_message(call, site, monkeypatch):
    """Most servers answer by events."""
    text = "x" * 150_000
    events = {"Content-Type": "text/event-stream"}
    monkeypatch.setitem(
        ANSWERS, "event", lambda number: (200, events, [b"data: ", result(number, text), b"\n\n"])
    )
    assert call("event") == text
