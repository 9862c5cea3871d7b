"""What the front ends say of their routes, for the layers before the application.

Which requests generate, and in whose shape a failure is told. Knows no protocol by name: it is made from the
table of front ends. A POST route counts as generating unless it says that it is free. Source: spec
frontend-api.md 3, 12.1 and 15, more-fronts.md 1.3.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, NamedTuple, Protocol

from flask.views import MethodView

from Middleware.common.asker import ANYBODY, NO_NAME, Asker
from Middleware.common.request_context import RequestContext
from Middleware.common.types import JsonObject
from Middleware.protocols.base import PLAIN, ClientProtocol, ErrorReply, is_under
from Middleware.services.answers import compact_json
from Middleware.services.run_trace import RunTrace
from Middleware.services.shared_state.turns import Ask

logger = logging.getLogger(__name__)


# --------------------------------------------------------------------------
# Small answers that are given before the application is asked. WSGI only; knows no routes.


StartResponse = Callable[..., Any]
WsgiApp = Callable[[dict[str, Any], StartResponse], Iterable[bytes]]


_MOST_SHOWN = 500
_NAMES = {499: "Client Closed Request"}


def status_line(status: int) -> str:
    return f"{status} {_NAMES.get(status) or HTTPStatus(status).phrase}"


def send_error(
    reply: ErrorReply,
    protocol: ClientProtocol,
    environ: dict[str, Any],
    start_response: StartResponse,
    *,
    is_told: bool = True,
) -> Iterable[bytes]:
    """The reply as JSON in the shape of the protocol, its headers alone for HEAD; the log tells of a refusal,
    where `is_told`."""
    if is_told:
        log_refusal(reply, environ)
    body = compact_json(protocol.error_body(reply)).encode("utf-8", "replace")
    headers = {"Content-Type": "application/json", "Content-Length": str(len(body)), **reply.headers}
    start_response(status_line(reply.status), list(headers.items()))
    return [] if environ.get("REQUEST_METHOD") == "HEAD" else [body]


def log_refusal(reply: ErrorReply, environ: dict[str, Any]) -> None:
    """One line for a request that the client has to mend: who asked for what, and why it was refused."""
    if 400 <= reply.status < 499:
        asker: Asker = environ.get(ASKER, ANYBODY)
        logger.warning(
            "%d for %s%s: %s %s: %s",
            reply.status,
            environ.get("REMOTE_ADDR") or "unknown",
            f" with key {asker.shown_name or NO_NAME}" if asker.owner else "",
            on_one_line(environ.get("REQUEST_METHOD", "")),
            on_one_line(environ.get("PATH_INFO", "")),
            on_one_line(reply.message),
        )


def on_one_line(text: str) -> str:
    """What a client wrote cannot look like a line of its own, nor steer a terminal."""
    shown = text[:_MOST_SHOWN]
    if shown.isprintable():
        return shown
    return "".join(letter if letter.isprintable() else "?" for letter in shown)


# --------------------------------------------------------------------------

PROTOCOL = "headrace.protocol"
"""The key of the WSGI environment that holds a request's ClientProtocol."""

ENTER_GATE = "headrace.enter_gate"
"""Key of the WSGI environment of a free request: a function by which its view makes it a generating one.
From then on the request is watched, can be cancelled, and has a life; `known(life)` is called, and then it
waits for a slot of the gate. Raises ServerBusy, RequestCancelled."""

KNOWN = "headrace.known"
"""Key of the WSGI environment that tells whether no key is needed here, or the request has sent one: open
paths are answered either way, but do not tell everybody everything."""

ASKER = "headrace.asker"
"""Key of the WSGI environment that holds the request's `Asker`; absent: no key is needed here."""

LIMITED = "headrace.limited"
"""Key of the WSGI environment of a counted request of a key of the keys file: its KeyRequest."""

CONSOLE = "headrace.console"
"""Key of the WSGI environment under which the AccessRules stand for a request that the console's door let
through: what generates there belongs to a console that is on, and to a reader who may act."""

_PLACE = re.compile(r"<(?:(path):)?\w+>")


CONSOLE_ROOT = "/console"
METRICS_PATH = "/metrics"
USAGE_PATH = "/v1/usage"
"""Served beside the front ends; the latter where there is a keys file."""


def is_console(path: str) -> bool:
    return path == CONSOLE_ROOT or path.startswith(f"{CONSOLE_ROOT}/")


class Console(Protocol):
    """What answers at and below `CONSOLE_ROOT`, as the front door sees it. `onward`: the way to the
    application, for what generates. `has_key`: nobody comes in without its own key.
    """

    @property
    def has_key(self) -> bool: ...

    def __call__(
        self, environ: dict[str, Any], start_response: StartResponse, onward: WsgiApp
    ) -> Iterable[bytes]: ...

    def leads_to_page(self, environ: Mapping[str, Any]) -> bool: ...


class WaitingRequest(NamedTuple):
    """Who waits for a slot. `text`: what the user wrote last."""

    request: RequestContext
    front: str
    stream: bool
    text: str

    def tell(self, trace: RunTrace) -> None:
        trace.note_waiting(self.request, front=self.front, stream=self.stream, text=self.text)


class Generation:
    """What a generation view can say of a body before it answers it. `headers`: names as WSGI spells them."""

    def streams(self, body: JsonObject, headers: Mapping[str, Any]) -> bool:
        """Whether this body is answered as a stream."""
        return False

    def task_messages(self, body: JsonObject) -> Any:
        """The messages in which a background task of Open WebUI can be recognised (16.2); None: in none."""
        return None

    def machine_asked(self, body: JsonObject, *, is_task: bool) -> Ask | None:
        """The model of a machine that the answer will need first, for a request that waits; None: not known.

        Raises NotFound, ClientRequestError for a model name that is not there.
        """
        return None

    def waiting(self, body: JsonObject, request_id: str, headers: Mapping[str, Any]) -> WaitingRequest | None:
        """Whose a request is that waits; None: not known."""
        return None


@dataclass(frozen=True, slots=True)
class Route:
    """One path (in Flask's spelling) of a front end. `methods`: None: all that the view has.

    `free`: its POST answers at once, so that it is neither gated nor watched nor cancelled. `gated`: False:
    its POST runs no workflow, so that it is watched and cancelled and needs no slot. `protocol`: whose it is,
    where that is not the front end's own.
    """

    path: str
    view: type[MethodView]
    methods: tuple[str, ...] | None = None
    free: bool = False
    gated: bool = True
    protocol: ClientProtocol | None = None

    @property
    def is_long(self) -> bool:
        return not self.free and "POST" in (self.methods or self.view.methods or ())


def routes_to(
    view: type[MethodView], *paths: str, methods: tuple[str, ...] | None = None, free: bool = False
) -> tuple[Route, ...]:
    return tuple(Route(path, view, methods, free) for path in paths)


def generation_routes(view: type[MethodView], *paths: str) -> tuple[Route, ...]:
    """POST to each path; DELETE there and at `<path>/<id>` cancels."""
    ids = tuple(f"{path}/<request_id>" for path in paths)
    return routes_to(view, *paths, methods=("POST", "DELETE")) + routes_to(view, *ids, methods=("DELETE",))


class Doors:
    """`front_ends`: (protocol, routes) of each, in order."""

    def __init__(self, front_ends: Iterable[tuple[ClientProtocol, tuple[Route, ...]]]) -> None:
        self._protocols: list[ClientProtocol] = []
        self._lasting: dict[str, Route] = {}
        self._patterns: list[tuple[re.Pattern[str], Route]] = []
        self._roots: dict[str, ClientProtocol] = {}
        self._paths = {METRICS_PATH, USAGE_PATH}
        self._path_patterns: list[re.Pattern[str]] = []
        for protocol, routes in front_ends:
            self._protocols.append(protocol)
            self._roots |= dict.fromkeys(protocol.roots, protocol)
            for route in routes:
                self._add(protocol, route)
        self._unsupported = tuple(path for one in self._protocols for path in one.unsupported)

    def _add(self, protocol: ClientProtocol, route: Route) -> None:
        self._roots.setdefault(route.path.partition("/<")[0] or "/", route.protocol or protocol)
        if "<" in route.path:
            self._path_patterns.append(_pattern(route.path))
        else:
            self._paths.add(route.path)
        if not route.is_long:
            return
        if "<" in route.path:
            self._patterns.append((_pattern(route.path), route))
        else:
            self._lasting[route.path] = route

    def generates(self, environ: Mapping[str, Any]) -> bool:
        """Whether the request needs a slot. One without a method counts as POST, one without a path as
        generating.
        """
        if environ.get("REQUEST_METHOD", "POST") != "POST":
            return False
        path = environ.get("PATH_INFO")
        return path is None or self.view_of(path) is not None

    def is_long_request(self, environ: Mapping[str, Any]) -> bool:
        """Whether the request holds a thread for long: it is watched, and can be cancelled."""
        if environ.get("REQUEST_METHOD", "POST") != "POST":
            return False
        path = environ.get("PATH_INFO")
        return path is None or self._route_of(path) is not None

    def is_route(self, path: str) -> bool:
        """Whether anything is served there, whatever the method."""
        return path in self._paths or any(one.fullmatch(path) for one in self._path_patterns)

    def view_of(self, path: str) -> type[MethodView] | None:
        """The view that a POST to this path reaches, when it generates."""
        route = self._route_of(path)
        return route.view if route is not None and route.gated else None

    def _route_of(self, path: str) -> Route | None:
        route = self._lasting.get(path)
        if route is None and self._patterns:
            return next((one for pattern, one in self._patterns if pattern.fullmatch(path)), None)
        return route

    def protocol_of(self, environ: Mapping[str, Any]) -> ClientProtocol:
        """Whose request it is: the first that claims it, else the longest root at or above its path."""
        path = environ.get("PATH_INFO", "")
        for protocol in self._protocols:
            if protocol.claims(path, environ):
                return protocol
        root = path
        while root:
            if (found := self._roots.get(root)) is not None:
                return found
            root = root.rpartition("/")[0]
        return PLAIN if path != "/" else self._roots.get("/", PLAIN)

    def is_unsupported(self, path: str) -> bool:
        """Whether clients may well ask for this path, and that this server chose not to serve it."""
        return is_under(path, self._unsupported)


def _pattern(path: str) -> re.Pattern[str]:
    """A path of Flask -> what it matches."""
    made, end = "", 0
    for place in _PLACE.finditer(path):
        made += re.escape(path[end : place.start()]) + (".+" if place[1] else "[^/]+")
        end = place.end()
    return re.compile(made + re.escape(path[end:]), re.S)
