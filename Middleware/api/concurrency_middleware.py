"""The gate of level `wilmer`: at most so many generation requests at once, in order of arrival.

A slot is held until the request's work has ended (`request_life.py`), also when its stream has ended before.
Other methods and routes pass. What Open WebUI asks for itself stands behind what people ask. Source: spec
frontend-api.md 15.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from typing import Any

from Middleware.api.requests.error_replies import reply_to
from Middleware.api.requests.open_webui import TASK_HEADER, TASK_START, task_of
from Middleware.api.requests.request_body import peeked
from Middleware.api.requests.request_fields import json_body, wants_stream
from Middleware.api.requests.request_life import LIFE, HeldBody, RequestLife
from Middleware.api.serving.wsgi_replies import StartResponse, WsgiApp, send_error
from Middleware.common.errors import ClientRequestError, MiddlewareError, ServerBusy
from Middleware.services.fair_gate import FairGate

_TASK_HEADER = "HTTP_" + TASK_HEADER.upper().replace("-", "_")
_TASK_MARKS = (TASK_START.encode(), b"chat_history")
"""What stands in the body of each such request, however its JSON is written."""

GENERATION_PATHS = frozenset(
    {
        "/v1/chat/completions",
        "/chat/completions",
        "/v1/completions",
        "/completions",
        "/api/chat",
        "/api/generate",
    }
)


_STREAM_DEFAULTS = {"/v1/chat/completions": False, "/chat/completions": False, "/api/chat": True}
"""The chat routes: whether a body that does not say so is answered as a stream."""


def is_generation(environ: dict[str, Any]) -> bool:
    """A request without a method counts as POST, one without a path as gated."""
    path = environ.get("PATH_INFO")
    return environ.get("REQUEST_METHOD", "POST") == "POST" and (path is None or path in GENERATION_PATHS)


def is_background(environ: dict[str, Any]) -> bool:
    """One of the requests that Open WebUI makes for itself (16.2). The body stays there to be read."""
    stream_default = _STREAM_DEFAULTS.get(environ.get("PATH_INFO", ""))
    if stream_default is None:
        return False
    if environ.get(_TASK_HEADER, "").strip():
        return True
    data = peeked(environ)
    if any(mark not in data for mark in _TASK_MARKS):
        return False
    try:
        body = json_body(data)
    except ClientRequestError:  # the application will say so
        return False
    return task_of(body.get("messages"), "", wants_stream(body, stream_default)) is not None


class ConcurrencyLimitMiddleware:
    """`semaphore`: a `FairGate` or any semaphore of `threading`. `acquire_timeout`: seconds, then 503."""

    def __init__(
        self, app: WsgiApp, semaphore: FairGate | threading.Semaphore, acquire_timeout: float = 900
    ) -> None:
        self._app, self._semaphore, self._timeout_s = app, semaphore, acquire_timeout

    def __call__(self, environ: dict[str, Any], start_response: StartResponse) -> Iterable[bytes]:
        if not is_generation(environ):
            return self._app(environ, start_response)
        life: RequestLife = environ.get(LIFE) or RequestLife("")
        owned = LIFE not in environ
        try:
            self._acquire(life.request_id, environ)
        except MiddlewareError as error:
            return send_error(reply_to(error, life.request_id), environ, start_response)
        life.at_end(self._semaphore.release)
        if not owned:
            return self._app(environ, start_response)
        return within(life, self._app, environ, start_response)

    def _acquire(self, request_id: str, environ: dict[str, Any]) -> None:
        if isinstance(self._semaphore, FairGate):
            admitted = self._semaphore.acquire(
                timeout=self._timeout_s, request_id=request_id, behind=is_background(environ)
            )
        else:
            admitted = self._semaphore.acquire(timeout=self._timeout_s)
        if not admitted:
            raise ServerBusy(f"server is busy: no free slot within {self._timeout_s:g} s")


def within(
    life: RequestLife, app: WsgiApp, environ: dict[str, Any], start_response: StartResponse
) -> Iterable[bytes]:
    """Run the application with this life, which ends when the body is closed, unless others hold it."""
    environ[LIFE] = life
    released: Callable[[], None] = life.release
    try:
        return HeldBody(app(environ, start_response), released)
    except BaseException:
        released()
        raise
