"""The MCP protocol, server's side: JSON-RPC answers, and the stream of one tool call.

Only what one request needs: nothing is kept between two. Source: spec more-fronts.md 6; JSON-RPC 2.0; Model
Context Protocol, Streamable HTTP.
"""

from __future__ import annotations

from typing import Any

from Middleware.common.constants import VERSION
from Middleware.common.types import Batch, JsonObject
from Middleware.protocols.base import (
    EVENT_STREAM,
    PROTOCOLS,
    AnswerFacts,
    ClientProtocol,
    ErrorReply,
    Framer,
    WholeAnswer,
    WireFormat,
    sse,
)
from Middleware.services.answers import compact_json, step_line

PARSE_ERROR, INVALID_REQUEST, METHOD_NOT_FOUND = -32700, -32600, -32601
INVALID_PARAMS, INTERNAL_ERROR, UNSUPPORTED_VERSION = -32602, -32603, -32022

HANDSHAKE_VERSIONS = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
MODERN_VERSION = "2026-07-28"
VERSIONS = (MODERN_VERSION, *HANDSHAKE_VERSIONS)

_SERVER: JsonObject = {"name": "headrace", "version": VERSION}


def rpc_result(call_id: Any, result: JsonObject) -> JsonObject:
    return {"jsonrpc": "2.0", "id": call_id, "result": result}


def rpc_error(call_id: Any, code: int, message: str, data: JsonObject | None = None) -> JsonObject:
    error = {"code": code, "message": message, **({} if data is None else {"data": data})}
    return {"jsonrpc": "2.0", "id": call_id, "error": error}


def error_body(reply: ErrorReply) -> JsonObject:
    """A failure below the protocol: of the request nothing is known, not even its id (6.6). Who has asked too
    often made no mistake in the request.
    """
    code = INVALID_REQUEST if 400 <= reply.status < 499 and reply.status != 429 else INTERNAL_ERROR
    return rpc_error(None, code, reply.message)


def initialize_result(asked: Any) -> JsonObject:
    """The result of `initialize`. `asked`: the client's version; one that is not known gets our newest."""
    return {
        "protocolVersion": asked if asked in HANDSHAKE_VERSIONS else HANDSHAKE_VERSIONS[-1],
        "capabilities": {"tools": {"listChanged": False}},
        "serverInfo": _SERVER,
    }


def discover_result() -> JsonObject:
    """The result of `server/discover`."""
    return {
        "resultType": "complete",
        "supportedVersions": list(VERSIONS),
        "capabilities": {"tools": {}},
        "ttlMs": 0,
        "cacheScope": "private",
        "_meta": {"io.modelcontextprotocol/serverInfo": _SERVER},
    }


def tools_list_result(tools: list[JsonObject], *, modern: bool) -> JsonObject:
    """The result of `tools/list`: one page."""
    more = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"} if modern else {}
    return {"tools": tools, **more}


def tool_result(text: str, *, is_error: bool, modern: bool, meta: JsonObject | None = None) -> JsonObject:
    """The result of `tools/call`. `meta`: what is told beside the answer (`_meta`)."""
    return {
        "content": [{"type": "text", "text": text}],
        "isError": is_error,
        **({"resultType": "complete"} if modern else {}),
        **({"_meta": meta} if meta else {}),
    }


def call_echo(call_id: Any, progress_token: Any, *, modern: bool) -> JsonObject:
    """`AnswerFacts.echo` of a tool call. `progress_token`: None: the client wants no progress."""
    return {"id": call_id, "progress_token": progress_token, "modern": modern}


def _answer(facts: AnswerFacts, text: str, *, is_error: bool) -> JsonObject:
    """The response that ends a call, with what its workflow used (9)."""
    usage = facts.usage_beside()
    meta = {"headrace/usage": usage["workflow_usage"]} if usage else None
    result = tool_result(text, is_error=is_error, modern=facts.echo.get("modern", False), meta=meta)
    return rpc_result(facts.echo.get("id"), result)


def whole_body(answer: WholeAnswer, facts: AnswerFacts) -> JsonObject:
    return _answer(facts, answer.text, is_error=False)


def failed_body(reply: ErrorReply, facts: AnswerFacts) -> JsonObject:
    """A workflow that failed is a result, so that the model reads why (6.6)."""
    return _answer(facts, reply.message, is_error=True)


def _event(body: JsonObject) -> str:
    return f"event: message\n{sse(compact_json(body))}"


class McpFramer(Framer):
    """Progress as it comes, which the client asked for by a token; the text at the end, in one response."""

    def __init__(self, facts: AnswerFacts) -> None:
        super().__init__(facts)
        self._token = facts.echo.get("progress_token")
        self._told = 0

    def units(self, batch: Batch) -> list[str]:
        return [unit for unit in super().units(batch) if unit]

    def progress_units(self, steps: list[JsonObject]) -> list[str]:
        return [] if self._token is None else [self._notification(step) for step in steps]

    def _notification(self, step: JsonObject) -> str:
        self._told += 1
        line = f"{'  ' * step['depth']}{step_line(step)}"
        params = {"progressToken": self._token, "progress": self._told, "message": line}
        return _event({"jsonrpc": "2.0", "method": "notifications/progress", "params": params})

    def text_unit(self, text: str) -> str:
        """A result has no parts: the text waits for its end."""
        return ""

    def thinking_unit(self, thinking: str) -> str:
        return ""

    def _tool_call_units(self, calls: list[JsonObject]) -> list[str]:
        return []

    def finish_units(self, finish_reason: str) -> list[str]:
        return [_event(_answer(self.facts, "".join(self._texts), is_error=False))]

    def heartbeat(self) -> str:
        return ":\n\n"

    def end(self) -> list[str]:
        return []

    def error(self, reply: ErrorReply) -> list[str]:
        return [_event(failed_body(reply, self.facts))]


PROTOCOL = PROTOCOLS.add(
    ClientProtocol(
        "mcp",
        error_body,
        {"mcptool": WireFormat(McpFramer, whole_body, sse, EVENT_STREAM, failure=failed_body, front="MCP")},
        roots=("/mcp",),
    )
)
