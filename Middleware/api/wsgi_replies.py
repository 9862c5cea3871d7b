"""Small answers that are given before the application is asked. WSGI only; knows no routes."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from http import HTTPStatus
from typing import Any

from Middleware.api.error_replies import ErrorReply
from Middleware.services.answers import compact_json

StartResponse = Callable[..., Any]
WsgiApp = Callable[[dict[str, Any], StartResponse], Iterable[bytes]]

_NAMES = {499: "Client Closed Request"}


def status_line(status: int) -> str:
    return f"{status} {_NAMES.get(status) or HTTPStatus(status).phrase}"


def send_error(reply: ErrorReply, environ: dict[str, Any], start_response: StartResponse) -> Iterable[bytes]:
    """The reply as JSON in the protocol of the request's path."""
    body = compact_json(reply.body(environ.get("PATH_INFO", ""))).encode("utf-8", "replace")
    headers = {"Content-Type": "application/json", "Content-Length": str(len(body)), **reply.headers}
    start_response(status_line(reply.status), list(headers.items()))
    return [body]
