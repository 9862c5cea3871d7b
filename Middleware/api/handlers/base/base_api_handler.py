"""The contract of a front end: one subclass per client protocol, which registers its routes.

    @FRONT_ENDS.register("x")
    class XApiHandler(BaseApiHandler):
        def register_routes(self, app: Flask) -> None:
            app.add_url_rule("/x/chat", view_func=XChatAPI.as_view("x_chat"))

A generation route is a `GenerationView` (`generation_view.py`): it turns a body into a `Question` and names
its wire format; everything else (context, gate, cancellation, framing, errors) is done for it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any

from flask import Flask, request
from flask.views import MethodView

from Middleware.api.api_helpers import json_response
from Middleware.api.requests.request_body import read_body
from Middleware.api.requests.request_fields import json_body
from Middleware.common.errors import ClientRequestError
from Middleware.services.cancellation_service import cancellation_service

_ID_PREFIXES = ("chatcmpl-", "cmpl-", "gen-")


class BaseApiHandler(ABC):
    """One client protocol. Made once, when the server starts."""

    @abstractmethod
    def register_routes(self, app: Flask) -> None:
        """Add this protocol's routes to the application."""

    @staticmethod
    def add(
        app: Flask, paths: Iterable[str], view: type[MethodView], methods: Iterable[str] | None = None
    ) -> None:
        """Route every path to the view: for all of its methods, or for those given."""
        for path in paths:
            function = view.as_view(f"{view.__name__} {path}")
            app.add_url_rule(path, view_func=function, methods=methods)


def cancel(request_id: str | None = None) -> Any:
    """Answer a DELETE: cancel the request that the path, the query or the body names (13)."""
    given = request_id or request.args.get("request_id") or _id_in_body()
    for prefix in _ID_PREFIXES:
        given = given.strip().removeprefix(prefix)
    if not given:
        raise ClientRequestError("'request_id' is required", param="request_id")
    answer: dict[str, Any] = {"status": "cancelled", "request_id": given}
    if cancellation_service.is_running(given):
        cancellation_service.request_cancellation(given)
    else:
        answer["active"] = False
    return json_response(answer)


def _id_in_body() -> str:
    body = json_body(read_body(request.environ, request.max_content_length))
    given = body.get("request_id")
    return given if isinstance(given, str) else ""
