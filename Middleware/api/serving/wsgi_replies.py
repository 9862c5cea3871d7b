"""Small answers that are given before the application is asked. WSGI only; knows no routes."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from http import HTTPStatus
from typing import Any

from Middleware.protocols.base import ClientProtocol, ErrorReply
from Middleware.services.answers import compact_json

StartResponse = Callable[..., Any]
WsgiApp = Callable[[dict[str, Any], StartResponse], Iterable[bytes]]

logger = logging.getLogger(__name__)

_MOST_SHOWN = 500
_NAMES = {499: "Client Closed Request"}


def status_line(status: int) -> str:
    return f"{status} {_NAMES.get(status) or HTTPStatus(status).phrase}"


def send_error(
    reply: ErrorReply, protocol: ClientProtocol, environ: dict[str, Any], start_response: StartResponse
) -> Iterable[bytes]:
    """The reply as JSON in the shape of the protocol; the log tells of a refusal."""
    log_refusal(reply, environ)
    body = compact_json(protocol.error_body(reply)).encode("utf-8", "replace")
    headers = {"Content-Type": "application/json", "Content-Length": str(len(body)), **reply.headers}
    start_response(status_line(reply.status), list(headers.items()))
    return [body]


def log_refusal(reply: ErrorReply, environ: dict[str, Any]) -> None:
    """One line for a request that the client has to mend: who asked for what, and why it was refused."""
    if 400 <= reply.status < 499:
        logger.warning(
            "%d for %s: %s %s: %s",
            reply.status,
            environ.get("REMOTE_ADDR") or "unknown",
            on_one_line(environ.get("REQUEST_METHOD", "")),
            on_one_line(environ.get("PATH_INFO", "")),
            on_one_line(reply.message),
        )


def on_one_line(text: str) -> str:
    """What a client wrote cannot look like a line of its own, nor steer a terminal."""
    return "".join(letter if letter.isprintable() else "?" for letter in text[:_MOST_SHOWN])
