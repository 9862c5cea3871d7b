"""What is settled before a request reaches the gate: its id, whether it may ask, which request it replaces.

A WSGI layer around the gate and the application. Never reads a body. Source: spec frontend-api.md 4, 12.5,
13, 14.
"""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Iterable
from typing import Any, Protocol

from Middleware.api.client_watch import ClientWatcher
from Middleware.api.concurrency_middleware import run_within_life
from Middleware.api.requests.access import MOST_BODY_BYTES, OPEN_PATHS, AccessRules, idempotency_key_of
from Middleware.api.requests.key_check import KEYS, STRANGER, KeyCheck, key_of_request
from Middleware.api.requests.model_names import choose_by_address
from Middleware.api.requests.request_body import check_length, drop_rest, limit_body, too_large
from Middleware.api.requests.request_life import HUNG_UP, LIFE, REQUEST_ID, HeldBody, RequestLife, reply_to
from Middleware.api.wsgi.doors import (
    ASKER,
    CONSOLE,
    ENTER_GATE,
    KNOWN,
    LIMITED,
    PROTOCOL,
    Console,
    Doors,
    StartResponse,
    WsgiApp,
    is_console,
    on_one_line,
    send_error,
    status_line,
)
from Middleware.api.wsgi.model_addresses import address_of_model, model_of_address, take_model_off
from Middleware.api.wsgi.processes import TRAFFIC, Traffic
from Middleware.common.asker import ANYBODY, AT_CONSOLE, Asker, enter_asker, set_asker
from Middleware.common.costs import CostSum
from Middleware.common.errors import Forbidden, MiddlewareError, ServerBusy, Unauthorized
from Middleware.config.loader import default_snapshot
from Middleware.protocols.base import ErrorReply
from Middleware.services.cancellation_service import cancellation_service
from Middleware.services.idempotency_service import idempotency_service, scoped_key
from Middleware.services.key_limits import KeyRequest
from Middleware.services.readings_ahead import readings_ahead
from Middleware.services.run_trace import Observers

_UNREAD = {
    414: "the path of the request is too long",
    431: "the headers of the request are too large",
    500: "internal error; see the server's log for details",
}
"""Status of what a server refuses by itself -> what is said of it, where its own words say less."""

_EXPOSED = "X-Request-Id, X-Workflow-Usage, request-id, Mcp-Session-Id"
_EXPOSED_OF_KEYS = ", ".join(
    f"x-ratelimit-{what}-{of}" for of in ("requests", "tokens") for what in ("limit", "remaining", "reset")
)
"""Headers of answers that pages of other sites may read; the latter where there is a keys file."""

Headers = list[tuple[str, str]]
Gate = Callable[[RequestLife, dict[str, Any]], None]
"""Waits for a slot, which the life gives back at its end. Raises ServerBusy, RequestCancelled."""


class Counting(Protocol):
    """Counts a request of a key of the keys file, as the front door sees it."""

    def __call__(self, environ: dict[str, Any], *, replaces: bool) -> None:
        """It takes its place in the queues. Raises RateLimited, ServerBusy."""


def _open_gate(life: RequestLife, environ: dict[str, Any]) -> None:
    """The gate of a server that has none."""


class FrontDoor:
    """Wraps `app`: the gate and the application behind it. `doors`: which requests last.

    `lives`: the requests whose work lasts. `observers`: of what they do. `most_posts`: how many of them the
    server's threads may hold, waiting ones among them, so that other requests are still answered; 0: any
    number. `most_body_bytes`: how large the body of a request may be. `gate`: what a request waits at that
    says in its body only that it generates. `keys`: None: those of the rules. `count_request`: None: keys
    have no limits; `note_key_request(name, outcome, prompt, completion)` is told of each that it counted.
    `console`: None: it is off. `stopping`: the server has begun to stop.
    """

    def __init__(
        self,
        app: WsgiApp,
        rules: AccessRules,
        watcher: ClientWatcher,
        doors: Doors,
        gate: Gate = _open_gate,
        keys: KeyCheck | None = None,
    ) -> None:
        self.app, self._rules, self._watcher, self._doors, self._gate = app, rules, watcher, doors, gate
        self.keys = keys or KeyCheck(rules.api_keys)
        self.traffic = Traffic(needs_key=lambda: self.keys.is_needed)
        self._traffic_of: dict[str, Traffic] = {}
        self.lives: set[RequestLife] = set()
        self.observers = Observers()
        self.most_posts = 0
        self.most_body_bytes = MOST_BODY_BYTES
        self.console: Console | None = None
        self.stopping = False
        self.count_request: Counting | None = None
        self.note_key_request: Callable[[str, str, int, int], object] = _note_nothing
        self._posts: set[str] = set()
        self._lock = threading.Lock()

    def __call__(self, environ: dict[str, Any], start_response: StartResponse) -> Iterable[bytes]:
        take_model_off(environ)
        body = limit_body(environ, self.most_body_bytes)
        answer = self._route_request(environ, start_response)
        if body is None or body.ended:
            return answer
        return HeldBody(answer, lambda: drop_rest(environ, body))

    def refuse(
        self, status: int, why: str, environ: dict[str, Any], start_response: StartResponse
    ) -> Iterable[bytes]:
        """The answer to a request that the server itself could not read, or could not have answered.

        `why`: in the server's words. `environ`: what is known of it; `PATH_INFO` may be empty.
        """
        take_model_off(environ)
        request_id = str(uuid.uuid4())
        protocol = self._doors.protocol_of(environ)
        named = [("X-Request-Id", request_id), *protocol.answer_headers(request_id).items()]
        origin, host = environ.get("HTTP_ORIGIN"), environ.get("HTTP_HOST", "")
        if origin is not None and self._rules.allows_origin(origin, host):
            named += self._cors(environ)
        said = _why_unread(status, why, self.most_body_bytes)
        reply = ErrorReply(status, f"{said} (request {request_id})", request_id=request_id)
        return send_error(reply, protocol, environ, _with_headers(start_response, named))

    def _route_request(self, environ: dict[str, Any], start_response: StartResponse) -> Iterable[bytes]:
        request_id = environ[REQUEST_ID] = str(uuid.uuid4())
        if "REQUEST_METHOD" in environ:  # the router takes `post` for POST
            environ["REQUEST_METHOD"] = environ["REQUEST_METHOD"].upper()
        console = self._open_console()
        if console is not None and is_console(environ.get("PATH_INFO", "")):
            return self._at_console(console, request_id, environ, start_response)
        environ["PATH_INFO"] = environ.get("PATH_INFO", "").rstrip("/") or "/"
        return self._answer_request(request_id, environ, start_response)

    def _open_console(self) -> Console | None:
        """None: it is off, also from when a keys file appeared and it has no key of its own: people who share
        a machine are local.
        """
        console = self.console
        if console is not None and not console.has_key and self.keys.ring is not None:
            return None
        return console

    @property
    def console_is_shut(self) -> bool:
        """Whether the console was on and a keys file that appeared has turned it off."""
        return self.console is not None and self._open_console() is None

    def _at_console(
        self, console: Console, request_id: str, environ: dict[str, Any], start_response: StartResponse
    ) -> Iterable[bytes]:
        """What belongs to the console, before slashes are cut, origins are greeted and keys of clients are
        wanted: it has rules of its own.
        """
        environ[TRAFFIC], environ[KEYS] = self.traffic, self.keys
        environ[PROTOCOL] = self._doors.protocol_of(environ)
        start = _with_headers(start_response, [("X-Request-Id", request_id)])

        def onward(environ: dict[str, Any], start: StartResponse) -> Iterable[bytes]:
            if self.keys.ring is not None:
                environ.setdefault(ASKER, AT_CONSOLE)
            return self._free(request_id, environ, start)

        return console(environ, start, onward)

    def _answer_request(
        self, request_id: str, environ: dict[str, Any], start_response: StartResponse
    ) -> Iterable[bytes]:
        environ[TRAFFIC] = self.traffic
        addressed = model_of_address(environ)
        protocol = environ[PROTOCOL] = self._doors.protocol_of(environ)
        named = [("X-Request-Id", request_id), *protocol.answer_headers(request_id).items()]
        try:
            self._check_source(environ)
        except MiddlewareError as error:
            told = _with_headers(start_response, named)
            return send_error(reply_to(error, request_id), protocol, environ, told)
        start = _with_headers(start_response, [*named, *self._cors(environ)])
        if environ.get("REQUEST_METHOD") == "OPTIONS":
            return _preflight(environ, start)
        console = self._open_console()
        if console is not None and not addressed and console.leads_to_page(environ):
            start(status_line(303), [("Location", "console/"), ("Content-Length", "0")])
            return []
        try:
            asker = self._let_in(environ)
        except Unauthorized as error:
            is_told = self.keys.note_refusal(error, environ.get("REMOTE_ADDR") or "unknown")
            return send_error(reply_to(error, request_id), protocol, environ, start, is_told=is_told)
        if asker is None:
            try:
                return self._answer_asker(request_id, environ, start)
            finally:
                set_asker(None)  # a keys file may have appeared while it waited
        with enter_asker(asker):
            return self._answer_asker(request_id, environ, _with_limits(environ, _not_stored(start)))

    def _let_in(self, environ: dict[str, Any]) -> Asker | None:
        """Whose request it is; None: there is no keys file. Raises Unauthorized.

        What is no route is answered without a key: an MCP client that is refused there looks for OAuth.
        """
        path, environ[KNOWN] = environ["PATH_INFO"], True
        try:
            asker = self.keys.identify(environ)
        except Unauthorized:
            is_open = path in OPEN_PATHS or is_console(path)  # of a console that is off: nothing is there
            if not is_open and self._doors.is_route(path):
                raise
            environ[KNOWN] = False
            return STRANGER if self.keys.ring is not None else None
        if asker is None:
            return None
        environ[ASKER] = asker
        if not asker.owner:
            return None
        environ[TRAFFIC] = self._traffic_for(asker.owner)
        return asker

    def _traffic_for(self, owner: str) -> Traffic:
        """What this owner's requests do, where a keys file names owners: no more than there are keys."""
        with self._lock:
            if owner not in self._traffic_of:
                own = Traffic(needs_key=lambda: True, started=self.traffic.started)
                own.waiting = lambda: sum(life.waits for life in self._lives_of(owner))
                self._traffic_of[owner] = own
            return self._traffic_of[owner]

    def _lives_of(self, owner: str) -> list[RequestLife]:
        return [life for life in tuple(self.lives) if life.asker.owner == owner]

    def _answer_asker(
        self, request_id: str, environ: dict[str, Any], start: StartResponse
    ) -> Iterable[bytes]:
        """The answer of a request that may ask here."""
        addressed, is_long = model_of_address(environ), self._doors.is_long_request(environ)
        try:
            if is_long:
                self._make_room_for(request_id)
                self._count(environ)
            if addressed and environ[KNOWN]:  # others are not told which names are there
                choose_by_address(addressed, default_snapshot())
            check_length(environ, self.most_body_bytes)
        except BaseException as error:
            self._posts.discard(request_id)
            _drop_count(environ)
            if not isinstance(error, MiddlewareError):
                raise
            return send_error(reply_to(error, request_id), environ[PROTOCOL], environ, start)
        answer = self._answer_long_request if is_long else self._free
        return answer(request_id, environ, start)

    def _count(self, environ: dict[str, Any]) -> None:
        """A request that lasts, of a key of the keys file, is counted. Raises RateLimited, ServerBusy."""
        asker: Asker = environ.get(ASKER, ANYBODY)
        if self.count_request is None or asker.entry is None or CONSOLE in environ:
            return
        key = idempotency_key_of(environ)
        replaces = key is not None and idempotency_service.is_held(f"{asker.owner}:{key}")
        self.count_request(environ, replaces=replaces)

    def _end_count(self, life: RequestLife, limited: KeyRequest) -> None:
        """What is read ahead for the next turn counts, too."""
        limited.end()
        spent, outcome = life.request.spent if life.request is not None else CostSum(), life.outcome
        spent.when_final(lambda: self.note_key_request(limited.name, outcome, spent.prompt, spent.completion))

    def _cors(self, environ: dict[str, Any]) -> Headers:
        origin = environ.get("HTTP_ORIGIN")
        return [] if origin is None else _cors(origin, has_limits=self.keys.ring is not None)

    def _make_room_for(self, request_id: str) -> None:
        with self._lock:
            if self.most_posts and len(self._posts) >= self.most_posts:
                raise ServerBusy(f"server is busy: {self.most_posts} requests are running or waiting")
            self._posts.add(request_id)

    def _free(self, request_id: str, environ: dict[str, Any], start: StartResponse) -> Iterable[bytes]:
        """The answer of a request that does not generate, as far as its path says: its view may call
        `enter_gate`, and from then on it does.
        """
        entered: list[RequestLife] = []

        def enter_gate(known: Callable[[RequestLife], object]) -> None:
            self._make_room_for(request_id)
            try:
                self._count(environ)
                life = environ[LIFE] = self._admit_request(request_id, environ, generates=True)
            except BaseException:
                self._posts.discard(request_id)
                _drop_count(environ)
                raise
            entered.append(life)
            known(life)
            self._gate(life, environ)

        def end_life() -> None:
            self._posts.discard(request_id)
            for life in entered:
                life.release()
                life.tell(environ.get("REQUEST_METHOD", "POST"), on_one_line(environ["PATH_INFO"]))

        environ[ENTER_GATE] = enter_gate
        try:
            body = self.app(environ, _noting(entered, start))
        except BaseException:
            end_life()
            raise
        return HeldBody(body, end_life) if entered else body

    def _answer_long_request(
        self, request_id: str, environ: dict[str, Any], start: StartResponse
    ) -> Iterable[bytes]:
        """The answer of a request that lasts: it holds a thread of the server until its body is closed."""
        life: RequestLife | None = None

        def end_life() -> None:
            self._posts.discard(request_id)
            if life is None:
                _drop_count(environ)
            else:
                life.tell(environ.get("REQUEST_METHOD", "POST"), on_one_line(environ["PATH_INFO"]))

        try:
            generates = self._doors.generates(environ)
            life = self._admit_request(request_id, environ, generates=generates)
            return HeldBody(run_within_life(life, self.app, environ, _noting([life], start)), end_life)
        except BaseException:
            end_life()
            raise

    def _check_source(self, environ: dict[str, Any]) -> None:
        host = environ.get("HTTP_HOST", "")
        if not self._rules.allows_host(host):
            way = f"start with --cors-origin https://{host} to allow it"
            raise Forbidden(
                f"host {host!r} is not allowed: this server only answers to local host names; {way}"
            )
        origin = environ.get("HTTP_ORIGIN")
        if origin is not None and not self._rules.allows_origin(origin, host):
            raise Forbidden(
                f"origin {origin!r} is not allowed; start with --cors-origin {origin} to allow it"
            )

    def _admit_request(self, request_id: str, environ: dict[str, Any], *, generates: bool) -> RequestLife:
        """The request runs from here on:

        It can be cancelled, is watched, and replaces the one with its key. Only one that generates is a run.
        """
        life = RequestLife(request_id, environ.get(ASKER, ANYBODY))
        life.check_key = lambda: self._check_key_again(life, environ)
        life.at_end(lambda: self.lives.discard(life))  # the very last: a stop waits for all the others
        if generates:
            self._trace(life, environ)
        limited: KeyRequest | None = environ.get(LIMITED)
        if limited is not None:
            life.limited = limited
            life.at_end(lambda: self._end_count(life, limited))
        cancellation_service.begin(request_id, life.asker.owner)
        self.lives.add(life)
        for traffic in {self.traffic, environ[TRAFFIC]}:
            traffic.begin()
            life.at_end(traffic.end)
        life.at_end(lambda: _end_life(life))
        key = idempotency_key_of(environ)
        if key is not None:
            owner = life.asker.owner
            scoped = f"{owner}:{key}" if owner else scoped_key(key, key_of_request(environ))
            idempotency_service.admit(scoped, request_id)
            life.at_end(lambda: idempotency_service.release(scoped, request_id))
        life.watch = self._watcher.watch(
            environ, lambda: cancellation_service.request_cancellation(request_id, HUNG_UP)
        )
        return life

    def _check_key_again(self, life: RequestLife, environ: dict[str, Any]) -> None:
        """Raises Unauthorized for a request of a client whose key is none any more."""
        if CONSOLE not in environ and (asker := self.keys.check_again(environ)) is not None:
            life.asker = asker

    def _trace(self, life: RequestLife, environ: dict[str, Any]) -> None:
        """What the request does is told, if anybody observes. Its end is registered early, so it is late.

        It begins when the gate lets it in; without a gate at once.
        """
        path = on_one_line(address_of_model(environ) + environ["PATH_INFO"])
        trace = life.trace = self.observers.begin(life.request_id, path)
        if trace is not None:
            trace.key = life.asker.shown_name
            if "HTTP_TRACEPARENT" in environ:
                trace.caller = environ["HTTP_TRACEPARENT"], environ.get("HTTP_TRACESTATE", "")
            life.at_end(life.end_trace)
            if self._gate is _open_gate:
                trace.begin()

    def unanswered_requests(self) -> list[RequestLife]:
        """The requests that last whose answer is not complete, waiting ones among them."""
        return [life for life in tuple(self.lives) if not life.answered]

    def cancel_unanswered(self) -> None:
        """The server stops: what has no complete answer ends now, and so do streams to readers of the
        console, and what is read ahead.
        """
        self.stopping = True
        readings_ahead().stop_all()
        for life in self.unanswered_requests():
            cancellation_service.request_cancellation(life.request_id, "the server stops")


def _why_unread(status: int, why: str, most_body_bytes: int) -> str:
    """One sentence about a request that the server refused in its own words."""
    if status == 413:
        return str(too_large(most_body_bytes))
    if status in _UNREAD:
        return _UNREAD[status]
    return f"the request cannot be read: {on_one_line(why).rstrip('.')}"


def _end_life(life: RequestLife) -> None:
    if life.trace is not None:
        life.trace.cancelled_by = cancellation_service.reason(life.request_id)
    cancellation_service.acknowledge_cancellation(life.request_id)


def _note_nothing(key: str, outcome: str, prompt: int, completion: int) -> None:
    """What a counted request has come to, where nobody counts."""


def _drop_count(environ: dict[str, Any]) -> None:
    """A request that was counted has no life: it gives back its place."""
    limited: KeyRequest | None = environ.get(LIMITED)
    if limited is not None:
        limited.end()


def _with_limits(environ: dict[str, Any], start_response: StartResponse) -> StartResponse:
    """Tells what is left of the limits, in each answer to a request that was counted by then."""

    def start(status: str, headers: Headers, *more: Any) -> Any:
        limited: KeyRequest | None = environ.get(LIMITED)
        headers = headers if limited is None else [*headers, *limited.headers()]
        return start_response(status, headers, *more)

    return start


def _cors(origin: str, *, has_limits: bool) -> Headers:
    return [
        ("Access-Control-Allow-Origin", origin),
        ("Vary", "Origin"),
        (
            "Access-Control-Expose-Headers",
            f"{_EXPOSED}, Retry-After, {_EXPOSED_OF_KEYS}" if has_limits else _EXPOSED,
        ),
    ]


def _preflight(environ: dict[str, Any], start_response: StartResponse) -> Iterable[bytes]:
    headers = [
        ("Access-Control-Allow-Methods", "GET, POST, DELETE, OPTIONS"),
        ("Access-Control-Max-Age", "600"),
    ]
    if asked := environ.get("HTTP_ACCESS_CONTROL_REQUEST_HEADERS"):
        headers.append(("Access-Control-Allow-Headers", asked))
    start_response(status_line(204), headers)
    return []


def _noting(lives: list[RequestLife], start_response: StartResponse) -> StartResponse:
    """Notes the status that the client is told, in what lives by then."""

    def start(status: str, *more: Any) -> Any:
        for life in lives:
            life.status = status.partition(" ")[0]
        return start_response(status, *more)

    return start


def _not_stored(start_response: StartResponse) -> StartResponse:
    """What is said to one key is kept for no other."""

    def start(status: str, headers: Headers, *more: Any) -> Any:
        if "cache-control" not in [name.lower() for name, _ in headers]:
            headers = [*headers, ("Cache-Control", "no-store")]
        return start_response(status, headers, *more)

    return start


def _with_headers(start_response: StartResponse, more: Headers) -> StartResponse:
    def start(status: str, headers: Headers, exc_info: Any = None) -> Any:
        given = {name for name, _ in more}
        headers = [(name, value) for name, value in headers if name not in given] + more
        return start_response(status, headers, exc_info) if exc_info else start_response(status, headers)

    return start
