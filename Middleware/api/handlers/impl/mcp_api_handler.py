"""Workflows as tools of MCP clients: `/mcp`, Streamable HTTP, without any state between two requests.

Only a call of a tool generates; it passes the gate when its body is known. Source: spec more-fronts.md 6.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import replace
from typing import Any

from flask import Response, g, request
from flask.views import MethodView

from Middleware.api.api_helpers import address_model, current_request_id, json_response, request_owner
from Middleware.api.handlers.base.base_api_handler import BaseApiHandler, GenerationView
from Middleware.api.handlers.front_ends import FRONT_ENDS
from Middleware.api.requests.model_names import LATEST, ModelChoice, askable_users
from Middleware.api.requests.request_body import read_body
from Middleware.api.requests.request_fields import (
    OfferedTool,
    arguments_fault,
    describe_tool,
    offered_tools,
    question_of,
)
from Middleware.api.requests.request_life import RequestLife, named_of
from Middleware.api.requests.rpc_calls import RpcCall, RpcFault, is_rpc_id, read_call
from Middleware.api.wsgi.doors import ENTER_GATE, log_refusal, routes_to
from Middleware.common.errors import ClientRequestError
from Middleware.common.request_context import NO_PROGRESS, ClientQuestion
from Middleware.common.types import JsonObject
from Middleware.config.loader import ConfigSnapshot, default_snapshot
from Middleware.config.users import UserSettings
from Middleware.protocols.base import AnswerFacts, ErrorReply
from Middleware.protocols.mcp import (
    INVALID_PARAMS,
    INVALID_REQUEST,
    PROTOCOL,
    VERSIONS,
    call_echo,
    discover_result,
    initialize_result,
    rpc_result,
    tool_result,
    tools_list_result,
)

NAME = "mcp"
"""Of the front end."""

SESSION = "Mcp-Session-Id"
NOTIFICATIONS = "notifications"
"""How a call shows that a node starts. No value of `progressOutput`."""


def _name(call_id: Any) -> Hashable:
    """What a running call is known by: key and session of its client, its id and the type of that."""
    return request_owner(), request.headers.get(SESSION, ""), type(call_id), call_id


class ToolCallView(GenerationView):
    """One call of a tool, as a question to its workflow. Made by `McpAPI`, once the call is known."""

    api_type = "mcptool"

    def __init__(
        self, data: bytes, call: RpcCall, offered: OfferedTool, arguments: Mapping[str, Any]
    ) -> None:
        self._data, self._call, self._offered, self._arguments = data, call, offered, arguments

    def receive_body(self) -> tuple[bytes, JsonObject]:
        return self._data, self.body_of(self._data)

    def body_of(self, data: bytes) -> JsonObject:
        """The name of the workflow, as a model field says it."""
        return {"model": f"{self._offered.user}:{self._offered.tool.folder}{LATEST}"}

    def choose_model(self, body: JsonObject, snapshot: ConfigSnapshot) -> ModelChoice:
        """The tool's own workflow, whatever the address is. Raises RpcFault when the key may not ask its user
        any more: the keys file may have changed while the call waited.
        """
        if self._offered.user not in askable_users(snapshot):
            raise _no_such_tool(self._call)
        return ModelChoice(self._offered.user, self._offered.tool.folder)

    def streams(self, body: JsonObject, headers: Mapping[str, Any]) -> bool:
        return "text/event-stream" in headers.get("HTTP_ACCEPT", "").lower()

    def user_text(self, body: JsonObject) -> str:
        return str(question_of(self._offered.tool, self._arguments).messages[0]["content"])

    def suppresses_reasoning(self, body: JsonObject) -> bool:
        return True

    def progress(self, body: JsonObject, user: UserSettings) -> str:
        """As the client asks, whatever the user's settings say."""
        return NO_PROGRESS if self._call.progress_token is None else NOTIFICATIONS

    def read_question(self, body: JsonObject, user: UserSettings) -> ClientQuestion:
        return question_of(self._offered.tool, self._arguments)

    def facts(self, facts: AnswerFacts, body: JsonObject, question: ClientQuestion) -> AnswerFacts:
        call = self._call
        return replace(facts, echo=call_echo(call.id, call.progress_token, modern=call.modern))


class McpAPI(MethodView):
    """POST `/mcp`."""

    def post(self) -> Response:
        g.current_request_id = current_request_id()
        try:
            return self._answer_rpc()
        except RpcFault as fault:
            log_refusal(ErrorReply(fault.status, fault.message), request.environ)
            return json_response(fault.body, fault.status)

    def _answer_rpc(self) -> Response:
        data = read_body(request.environ, request.max_content_length)
        call = read_call(data)
        version = request.headers.get("MCP-Protocol-Version", "").strip()
        if version and version not in VERSIONS:
            known = ", ".join(VERSIONS)
            raise RpcFault(
                INVALID_REQUEST, f"MCP-Protocol-Version {version!r} is not supported; supported: {known}"
            )
        if call is None or not call.wants_answer:
            if call is not None and call.method == "notifications/cancelled":
                _cancel(call.params.get("requestId"))
            return Response(status=202)
        if call.method == "tools/call":
            return _call_tool(data, call)
        return _answer(call)

    @staticmethod
    def reader_of(data: bytes) -> ToolCallView:
        """What reads a call of a tool. Raises ClientRequestError."""
        try:
            call = read_call(data)
            found = _tool_called(call) if call is not None else None
        except RpcFault as fault:
            raise ClientRequestError(fault.message) from fault
        if call is None or found is None:
            raise ClientRequestError("this was no call of a tool")
        return ToolCallView(data, call, *found)


def _cancel(call_id: Any) -> None:
    if is_rpc_id(call_id):
        named_of(NAME).cancel(_name(call_id))


def _tools(*, tell: bool = False) -> dict[str, OfferedTool]:
    """Those that are offered at the address of the request."""
    return offered_tools(default_snapshot(), address_model(), tell=tell)


def _answer(call: RpcCall) -> Response:
    """The answer of a method that answers at once. Raises RpcFault."""
    if call.method == "tools/list":
        tools = [describe_tool(one) for one in _tools(tell=True).values()]
        return json_response(rpc_result(call.id, tools_list_result(tools, modern=call.modern)))
    if call.modern and call.method == "server/discover":
        return json_response(rpc_result(call.id, discover_result()))
    if not call.modern and call.method == "ping":
        return json_response(rpc_result(call.id, {}))
    if not call.modern and call.method == "initialize":
        result = initialize_result(call.params.get("protocolVersion"))
        return json_response(rpc_result(call.id, result), headers={SESSION: current_request_id()})
    raise call.unknown_method()


def _tool_called(call: RpcCall) -> tuple[OfferedTool, Mapping[str, Any]]:
    """The tool and its arguments, which may be wrong. Raises RpcFault."""
    name = call.params.get("name")
    offered = _tools().get(name) if isinstance(name, str) else None
    if offered is None:
        raise _no_such_tool(call)
    given = call.params.get("arguments")
    return offered, {} if given is None else given


def _no_such_tool(call: RpcCall) -> RpcFault:
    return call.fault(INVALID_PARAMS, f"no such tool: {call.params.get('name')}", 400)


def _call_tool(data: bytes, call: RpcCall) -> Response:
    """Run the workflow, unless the call is wrong. Raises RpcFault, ServerBusy, RequestCancelled."""
    offered, arguments = _tool_called(call)
    if (why := arguments_fault(offered.tool, arguments)) is not None:
        return json_response(rpc_result(call.id, tool_result(why, is_error=True, modern=call.modern)))
    view, name_of_call = ToolCallView(data, call, offered, arguments), _name(call.id)

    def note_life(life: RequestLife) -> None:
        """While it waits for a slot its client can cancel it by its id, and the console names it."""
        named_of(NAME).add(name_of_call, life)
        view.tell_waiting(view.receive_body()[1], life)

    request.environ[ENTER_GATE](note_life)
    return view.post()


@FRONT_ENDS.register(NAME)
class McpFrontEnd(BaseApiHandler):
    """One path. GET and DELETE are not allowed there: nothing is kept that they could speak of."""

    protocol = PROTOCOL
    routes = routes_to(McpAPI, "/mcp", methods=("POST",), free=True)
