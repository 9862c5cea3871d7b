"""One JSON-RPC message of an MCP client, read and checked. Pure: answers nothing.

Source: spec more-fronts.md 6.1, 6.2 and 6.6; JSON-RPC 2.0, 4.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from Middleware.api.requests.request_fields import json_body
from Middleware.common.errors import ClientRequestError
from Middleware.common.types import JsonObject
from Middleware.protocols.mcp import (
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    MODERN_VERSION,
    PARSE_ERROR,
    UNSUPPORTED_VERSION,
    VERSIONS,
    rpc_error,
)
from Middleware.utilities.model_json import strict_loads
from Middleware.utilities.text_utils import sentence_of

_VERSION = "io.modelcontextprotocol/protocolVersion"


class RpcFault(Exception):
    """A message that is answered with an error. `status`: of HTTP."""

    def __init__(
        self,
        code: int,
        message: str,
        *,
        status: int = 400,
        call_id: Any = None,
        data: JsonObject | None = None,
    ) -> None:
        super().__init__(message)
        self.status, self.message = status, sentence_of(message)
        self.body = rpc_error(call_id, code, self.message, data)


@dataclass(frozen=True, slots=True)
class RpcCall:
    """A request, or a notification (`wants_answer` is False). `modern`: the protocol without a handshake."""

    method: str
    id: Any = None
    params: JsonObject = field(default_factory=dict, repr=False)
    modern: bool = False
    wants_answer: bool = True

    @property
    def meta(self) -> JsonObject:
        return _object(self.params.get("_meta"))

    @property
    def progress_token(self) -> Any:
        """What progress is told under; None: nobody wants to know."""
        token = self.meta.get("progressToken")
        return token if is_rpc_id(token) else None

    def fault(self, code: int, message: str, modern_status: int) -> RpcFault:
        """An error of this call: HTTP 200 after a handshake, a status of its own without one."""
        return RpcFault(code, message, status=modern_status if self.modern else 200, call_id=self.id)

    def unknown_method(self) -> RpcFault:
        return self.fault(METHOD_NOT_FOUND, f"no such method: {self.method}", 404)


def is_rpc_id(value: Any) -> bool:
    """A text or a number."""
    return isinstance(value, str | int | float) and not isinstance(value, bool)


def read_call(data: bytes) -> RpcCall | None:
    """The message of a body; None: a response, which nobody waits for. Raises RpcFault."""
    message = _message(data)
    if message.get("jsonrpc") != "2.0":
        raise RpcFault(INVALID_REQUEST, "'jsonrpc' must be \"2.0\"", call_id=_id_of(message))
    method = message.get("method")
    if method is None and ("result" in message or "error" in message):
        return None
    if not isinstance(method, str) or not method:
        raise RpcFault(INVALID_REQUEST, "'method' must be a string", call_id=_id_of(message))
    if "id" in message and not is_rpc_id(message["id"]):
        raise RpcFault(INVALID_REQUEST, "'id' must be a string or a number")
    return _checked_call(message, method)


def _checked_call(message: JsonObject, method: str) -> RpcCall:
    params = message.get("params")
    version = _object(_object(params).get("_meta")).get(_VERSION)
    call = RpcCall(
        method, message.get("id"), _object(params), modern=version is not None, wants_answer="id" in message
    )
    if version not in (None, MODERN_VERSION):
        raise RpcFault(
            UNSUPPORTED_VERSION,
            f"protocol version {version!r} is not supported; supported: {', '.join(VERSIONS)}",
            call_id=call.id,
            data={"supported": list(VERSIONS), "requested": version},
        )
    if call.wants_answer and params is not None and not isinstance(params, dict):
        raise call.fault(INVALID_PARAMS, "'params' must be an object", 400)
    return call


def _message(data: bytes) -> JsonObject:
    try:
        return json_body(data)
    except ClientRequestError as error:
        code = INVALID_REQUEST if _is_json(data) else PARSE_ERROR
        said = (
            "batches are not supported; send one message at a time"
            if data.lstrip()[:1] == b"["
            else str(error)
        )
        raise RpcFault(code, said if code == INVALID_REQUEST else str(error)) from error


def _is_json(data: bytes) -> bool:
    try:
        strict_loads(data)
    except (ValueError, RecursionError):
        return False
    return True


def _object(value: Any) -> JsonObject:
    return value if isinstance(value, dict) else {}


def _id_of(message: JsonObject) -> Any:
    given = message.get("id")
    return given if is_rpc_id(given) else None
