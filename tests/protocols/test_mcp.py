"""Answers and streams of MCP (more-fronts.md 6.2, 6.4 to 6.6, 11.9)."""

from __future__ import annotations

import json

import pytest
from hypothesis import given

from Middleware.common.constants import VERSION
from Middleware.protocols import mcp
from Middleware.protocols.registry import WIRE_FORMATS, AnswerCollector, AnswerFacts, ErrorReply
from tests.protocols.streams import WHOLE_CALL, both_forms, chunk, streams

WIRE = WIRE_FORMATS["mcptool"]


USAGE = {"prompt_tokens": 22, "completion_tokens": 14, "calls": 2}


def facts(call_id=7, token="t1", modern=False, usage=None):
    echo = mcp.call_echo(call_id, token, modern=modern)
    return AnswerFacts("R", "desk", echo=echo, workflow_usage=lambda: usage)


def step(number, title, depth=0):
    return {"number": number, "of": 2, "title": title, "depth": depth}


def payload(unit):
    assert unit.startswith("event: message\ndata: ") and unit.endswith("\n\n") and unit.count("\n") == 3
    return json.loads(unit.split("data: ", 1)[1])


class TestStream:
    def test_progress_and_answer(self):
        """11.9, byte for byte."""
        framer = WIRE.framer(facts(usage=USAGE))
        units = framer.progress_units([step(1, "Look")]) + framer.units([chunk("Low ")])
        units += framer.units([chunk("tide."), chunk("", "stop")]) + framer.end()
        assert "".join(units) == (
            'event: message\ndata: {"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"t1","progress":1,"message":"[1/2] Look"}}\n\n'
            'event: message\ndata: {"jsonrpc":"2.0","id":7,"result":{"content":[{"type":"text","text":"Low tide."}],"isError":false,"_meta":{"headrace/usage":{"prompt_tokens":22,"completion_tokens":14,"calls":2}}}}\n\n'
        )

    def test_progress_is_counted(self):
        """Whatever the numbers of the nodes are; nested ones are indented."""
        framer = WIRE.framer(facts(token=3))
        told = [payload(unit) for unit in framer.progress_units([step(1, "Look"), step(1, "In", depth=1)])]
        told += [payload(unit) for unit in framer.progress_units([step(2, "Say")])]
        assert [one["params"]["progress"] for one in told] == [1, 2, 3]
        assert [one["params"]["message"] for one in told] == ["[1/2] Look", "  [1/2] In", "[2/2] Say"]
        assert {one["params"]["progressToken"] for one in told} == {3}

    def test_no_token_no_progress(self):
        """Nobody asked for it."""
        assert WIRE.framer(facts(token=None)).progress_units([step(1, "Look")]) == []

    def test_text_is_not_sent_in_parts(self):
        """A result has none; so that signs of life go on meanwhile."""
        framer = WIRE.framer(facts())
        assert framer.units([chunk("Low")]) == framer.units([chunk(thinking="hm"), chunk("x")]) == []
        assert framer.units([chunk(tool_calls=[WHOLE_CALL])]) == []
        assert framer.heartbeat() == ":\n\n"

    def test_a_failure_is_a_result(self):
        """So that the model reads it."""
        [unit] = WIRE.framer(facts()).error(ErrorReply(502, "M"))
        assert payload(unit) == WIRE.failure(ErrorReply(502, "M"), facts())
        assert payload(unit)["result"] == {"content": [{"type": "text", "text": "M"}], "isError": True}

    @given(streams)
    def test_a_stream_says_what_the_whole_says(self, batches):
        """One response, the same."""
        units, whole = both_forms(WIRE, facts(), batches)
        [said] = [payload(unit) for unit in units]
        assert said == whole


class TestResults:
    def test_modern_answers_say_that_they_are_complete(self):
        """After a handshake the field is unknown."""
        assert (
            WIRE.whole(AnswerCollector().answer(), facts(modern=True))["result"]["resultType"] == "complete"
        )
        assert "resultType" not in WIRE.whole(AnswerCollector().answer(), facts())["result"]
        assert mcp.tools_list_result([], modern=True) == {
            "tools": [],
            "resultType": "complete",
            "ttlMs": 0,
            "cacheScope": "private",
        }
        assert mcp.tools_list_result([], modern=False) == {"tools": []}

    @pytest.mark.parametrize(
        ("asked", "given"),
        [
            *zip(mcp.HANDSHAKE_VERSIONS, mcp.HANDSHAKE_VERSIONS, strict=True),
            ("2026-07-28", "2025-11-25"),
            ("1999-01-01", "2025-11-25"),
            (None, "2025-11-25"),
            ([], "2025-11-25"),
        ],
    )
    def test_the_version_of_a_handshake(self, asked, given):
        """The client's, if it is one of those with a handshake."""
        result = mcp.initialize_result(asked)
        assert result["protocolVersion"] == given
        assert result["serverInfo"] == {"name": "headrace", "version": VERSION}
        assert result["capabilities"] == {"tools": {"listChanged": False}}

    def test_what_can_be_discovered(self):
        """All versions, the modern one first."""
        assert mcp.discover_result() == {
            "resultType": "complete",
            "supportedVersions": ["2026-07-28", "2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"],
            "capabilities": {"tools": {}},
            "ttlMs": 0,
            "cacheScope": "private",
            "_meta": {"io.modelcontextprotocol/serverInfo": {"name": "headrace", "version": VERSION}},
        }

    @pytest.mark.parametrize(
        ("status", "code"),
        [
            *((status, -32600) for status in (400, 401, 403, 404, 498)),
            *((status, -32603) for status in (429, 499, 500, 503)),
        ],
    )
    def test_failures_below_the_protocol(self, status, code):
        """Have no id. Who asks too often, or hangs up, made no mistake in the request."""
        assert mcp.PROTOCOL.error_body(ErrorReply(status, "M")) == {
            "jsonrpc": "2.0",
            "id": None,
            "error": {"code": code, "message": "M"},
        }


def test_an_error_may_carry_data():
    """The versions that are known, say."""
    error = {"code": -32602, "message": "M"}
    assert mcp.rpc_error(7, -32602, "M") == {"jsonrpc": "2.0", "id": 7, "error": error}
    assert mcp.rpc_error(7, -32602, "M", {"a": 1})["error"] == {**error, "data": {"a": 1}}
