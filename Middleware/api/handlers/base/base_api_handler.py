"""The contract of a front end: one subclass per client protocol, which names its protocol and its routes.

    @FRONT_ENDS.register("x")
    class XApiHandler(BaseApiHandler):
        protocol = PROTOCOL                                        # from Middleware/protocols/x.py
        routes = generation_routes(XChatAPI, "/x/chat")

A generation route is a `GenerationView` (`generation_view.py`): it turns a body into a `ClientQuestion` and
names its wire format; everything else (context, gate, cancellation, framing, errors) is done for it. A POST
route of any other view is gated, watched and cancelled too, unless it says `free=True` (none of these) or
`gated=False` (no slot needed).
"""

from __future__ import annotations

from abc import ABC
from typing import Any, ClassVar

from flask import Flask, request

from Middleware.api.api_helpers import json_response
from Middleware.api.requests.request_body import read_body
from Middleware.api.requests.request_fields import json_body
from Middleware.api.serving.doors import Route
from Middleware.common.errors import ClientRequestError
from Middleware.protocols.base import PROTOCOLS, ClientProtocol
from Middleware.services.cancellation_service import ASKED_TO, cancellation_service


class BaseApiHandler(ABC):
    """One client protocol. Made once, when the server starts.

    `protocol`: its facts; `routes`: all that it serves. A subclass without them is a TypeError.
    """

    protocol: ClassVar[ClientProtocol]
    routes: ClassVar[tuple[Route, ...]]

    def __init_subclass__(cls, **more: Any) -> None:
        super().__init_subclass__(**more)
        for name in ("protocol", "routes"):
            if not hasattr(cls, name):
                raise TypeError(f"{cls.__name__} must state its `{name}`")

    def register_routes(self, app: Flask) -> None:
        """Add this protocol's routes to the application."""
        for route in self.routes:
            methods = route.methods or tuple(route.view.methods or ())
            name = f"{route.view.__name__} {route.path} {' '.join(methods)}"
            app.add_url_rule(route.path, view_func=route.view.as_view(name), methods=methods)


def cancel(request_id: str | None = None) -> Any:
    """Answer a DELETE: cancel the request that the path, the query or the body names (13)."""
    given = bare_id(request_id or request.args.get("request_id") or _id_in_body())
    if not given:
        raise ClientRequestError("'request_id' is required", param="request_id")
    answer: dict[str, Any] = {"status": "cancelled", "request_id": given}
    if cancellation_service.is_running(given):
        cancellation_service.request_cancellation(given, ASKED_TO)
    else:
        answer["active"] = False
    return json_response(answer)


def bare_id(given: str) -> str:
    """The request id in an id of any protocol."""
    for protocol in PROTOCOLS:
        for prefix in protocol.id_prefixes:
            given = given.strip().removeprefix(prefix)
    return given


def _id_in_body() -> str:
    body = json_body(read_body(request.environ, request.max_content_length))
    given = body.get("request_id")
    return given if isinstance(given, str) else ""
