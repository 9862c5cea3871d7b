"""The Flask application with every front end's routes, behind the gate and the front door.

Errors of views become JSON in the caller's own protocol here, and nowhere else. Never binds a port:
`server.py` does. Source: spec frontend-api.md 1, 3 and 12.
"""

from __future__ import annotations

import logging
import os
import time
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from flask import Flask, Response, current_app, g, request
from werkzeug.exceptions import HTTPException

from Middleware.api.api_helpers import current_life, current_request_id, json_response
from Middleware.api.app import app as the_app
from Middleware.api.client_watch import ClientWatcher
from Middleware.api.concurrency_middleware import ConcurrencyLimitMiddleware
from Middleware.api.console.console_door import ConsoleDoor
from Middleware.api.console.hour import Hour
from Middleware.api.console.recorder import Recorder
from Middleware.api.console.view_contract import Hub, KeyRow, Rules, settle_rules
from Middleware.api.front_door import FrontDoor
from Middleware.api.handlers.base.base_api_handler import LIMITS, METRICS, MetricsRoute
from Middleware.api.handlers.front_ends import FRONT_ENDS, all_doors, view_that_reads
from Middleware.api.requests.access import OPEN_PATHS, ServerRules
from Middleware.api.requests.answering import log_failure
from Middleware.api.requests.key_check import MISSING, KeyCheck
from Middleware.api.requests.model_names import served_users
from Middleware.api.requests.repeats import without_lost_pictures
from Middleware.api.requests.request_life import reply_to
from Middleware.api.traces.switch import captures_texts, traces_wanted, why_no_traces
from Middleware.api.wsgi.doors import KNOWN, PROTOCOL, Doors, is_console, log_refusal
from Middleware.api.wsgi.metrics import Metrics
from Middleware.api.wsgi.processes import worker_count
from Middleware.common.constants import KEY_CHALLENGE
from Middleware.common.errors import (
    ClientRequestError,
    ConfigError,
    RequestCancelled,
    ServerBusy,
    Unauthorized,
    let_go,
)
from Middleware.common.instance_global_variables import LaunchFacts, launch_facts
from Middleware.common.request_context import ClientQuestion
from Middleware.common.types import JsonObject
from Middleware.config.key_ring import KeysInForce, keys_path
from Middleware.config.loader import default_snapshot, outdated_files
from Middleware.config.users import UserSettings
from Middleware.protocols.base import PLAIN, ClientProtocol, ErrorReply
from Middleware.services.fair_gate import FairGate, outgoing_gate
from Middleware.services.history import HistoryFile, HistoryWriter, why_no_history
from Middleware.workflows.processors.node_lines import NodeLines

if TYPE_CHECKING:
    from Middleware.api.console.history_rows import RowMaker

logger = logging.getLogger(__name__)

_DONE = "headrace"
_DOORS = "headrace.doors"


class ApiServer:
    """Finds and registers the front ends on `app_instance` (default: the module's `app`) and wraps it.

    Made again for the same application it replaces the wrapping. `console`: None: it is off. Raises
    RuntimeError when a front end cannot be loaded, or when there is none, and for a keys file, a console or a
    history that cannot be had.
    """

    console: ConsoleDoor | None = None
    _why_no_console = ""
    _hub: Hub | None = None

    def __init__(self, app_instance: Flask | None = None, rules: ServerRules | None = None) -> None:
        self.app = app_instance if app_instance is not None else the_app
        rules = rules or ServerRules()
        bare = self.app.extensions.get(_DONE)
        if bare is None:
            bare = self.app.extensions[_DONE] = self.app.wsgi_app
            self._prepare()
        doors = self.app.extensions[_DOORS] = all_doors()
        facts = launch_facts()
        keys = KeyCheck(rules.access.api_keys, _keys_file(facts))
        slots = facts.concurrency if facts.concurrency_level == "request" else 0
        own = FairGate(slots, rules.max_queue, name=f"requests, at most {slots}") if slots > 0 else None
        gate = own if own is not None else outgoing_gate()
        gated = ConcurrencyLimitMiddleware(bare, own, facts.concurrency_timeout_s, doors)
        self.door = FrontDoor(gated, rules.access, ClientWatcher(), doors, gated.admit, keys)
        self.door.count_request = gated.count_request
        self.limiter = self.app.extensions[LIMITS] = gated.limiter
        self.door.traffic.waiting = lambda: (
            self.limiter.waiting_at_keys + (own.waiting if own is not None else 0)
        )
        self.door.most_body_bytes = rules.most_body_bytes
        metrics = self.app.extensions[METRICS] = Metrics(slots)
        self.door.observers.observe(NodeLines())
        self.door.observers.observe(metrics)
        self.door.note_key_request = metrics.note_key_request
        self.limiter.note_refusal = metrics.note_key_refusal
        self.limiter.find_ring = lambda: keys.ring
        keys.note_wrong_key = metrics.note_wrong_key
        has_file = keys.ring is not None
        self._send_traces(rules)
        console = settle_rules(rules.console, rules.access, worker_count(), has_keys_file=has_file)
        if isinstance(console, Rules):
            self._open_console(console, rules.console.memory_mb, gate, metrics)
        else:
            self._why_no_console = console
            if worker_count() > 1 and console:
                logger.info("%s", console)
        if facts.history_directory is not None:
            self._keep_history(facts.history_directory, facts.history_days, slots)
        self.app.wsgi_app = self.door  # type: ignore[method-assign]

    def _send_traces(self, rules: ServerRules) -> None:
        """Runs are sent as traces where the environment names a collector. Before the console, which shortens
        the texts of a run that has ended."""
        if not traces_wanted(os.environ):
            return
        why = why_no_traces(os.environ)
        if why is None:
            try:
                from Middleware.api.traces.sending import TraceWriter  # the extra `otel`

                hidden = (*rules.access.api_keys, *filter(None, [rules.console.key]))
                writer = TraceWriter(with_texts=captures_texts(os.environ), hidden=hidden)
            except ImportError as error:
                why = f'{error}; install the extra with: python -m pip install -e ".[otel]"'
            except (ValueError, RuntimeError) as error:
                why = str(error)
        if why is not None:
            logger.warning("no traces are sent: %s", why)
            return
        self.door.observers.observe(writer)

    def _open_console(self, console: Rules, memory_mb: int, gate: FairGate | None, metrics: Metrics) -> None:
        recorder, hour = Recorder(memory_mb), Hour()
        self.door.observers.observe(recorder)
        self.door.observers.observe(hour)
        hub = self._hub = Hub(
            recorder=recorder,
            hour=hour,
            mode=console.mode,
            gate=lambda: self._gate_facts(gate),
            started=launch_facts().started_at,
            processes=worker_count(),
            memory_mb=memory_mb,
            snapshot=default_snapshot,
            served_users=served_users,
            stopping=lambda: self.door.stopping or self.door.console_is_shut,
            secrets=(*filter(None, [console.key]), *console.access.api_keys),
            needs_key=lambda: self.door.keys.is_needed,
            history=launch_facts().history_directory,
            tell_loaded=metrics.note_loaded,
            has_keys=lambda: self.door.keys.ring is not None,
            keys=self._key_rows,
            can_read=lambda path: view_that_reads(path) is not None,
            question_of=self._question_of,
        )
        self.console = self.door.console = ConsoleDoor(console, hub)

    def _question_of(self, path: str, data: bytes, user: UserSettings) -> ClientQuestion:
        """What a request asked that was kept. Raises ClientRequestError for one that cannot be read again."""
        view = view_that_reads(path)
        if view is None:
            raise ClientRequestError(f"requests to {path} can't be read again")
        with self.app.test_request_context(path):
            reader = view.reader_of(data)
            body = without_lost_pictures(reader.body_of(data))[0]
            reader.check(body)
            return reader.read_question(body, user)

    def _key_rows(self) -> tuple[int, list[KeyRow]] | None:
        """The table of keys on the Overview."""
        from Middleware.api.console.key_views import key_rows  # a start need not wait for it

        keys = self.door.keys
        if (ring := keys.ring) is None:
            return None
        rows = key_rows(ring.entries, keys.seen, self.limiter.numbers, time.time())
        return len(ring.entries), rows

    def _keep_history(self, folder: Path, days: int, slots: int) -> None:
        """What runs took and cost is written down. Raises RuntimeError for a folder that cannot be used."""
        why = why_no_history(folder)
        if why is not None:
            raise RuntimeError(f"--history: {why}")
        hub = self._hub
        if hub is None:
            hour = Hour()
            self.door.observers.observe(hour)
        else:
            hour = hub.hour

        @cache
        def row_maker() -> RowMaker:
            from Middleware.api.console.history_rows import RowMaker  # a start need not wait for it

            return RowMaker(hub, hour, slots)

        file = HistoryFile(folder, days)
        writer = HistoryWriter(file, lambda run: row_maker().row_of(run))
        self.door.observers.observe(writer)

    def _gate_facts(self, gate: FairGate | None) -> JsonObject:
        """The `gate` of the console's state (6.1). Who waits in front of a key's own gate waits here, too."""
        level, before = launch_facts().concurrency_level, self.limiter.waiting_at_keys
        if gate is None:
            running = max(0, self.door.traffic.running - before)
            return {"level": level, "limit": 0, "running": running, "waiting": before}
        waiting = gate.waiting + before
        return {"level": level, "limit": gate.limit, "running": gate.held_slots, "waiting": waiting}

    def console_lines(self, address: str) -> list[str]:
        """What is said of the console at a start; nothing where it was asked to be off."""
        if self.console is not None:
            return [self.console.ready_line(address)]
        return [self._why_no_console] if self._why_no_console else []

    def _prepare(self) -> None:
        self.app.url_map.strict_slashes = False
        self.app.url_map.merge_slashes = False
        self.app.register_error_handler(Exception, _error_response)
        self.app.before_request(_refuse_unseen_route)
        load_front_ends()
        for _, handler in FRONT_ENDS.items():
            handler().register_routes(self.app)
        MetricsRoute().register_routes(self.app)


def _keys_file(facts: LaunchFacts) -> KeysInForce:
    """Raises RuntimeError for one with faults: the server must not start open."""
    try:
        must_exist = facts.keys_file is not None
        return KeysInForce(keys_path(facts), must_exist=must_exist, served_users=served_users)
    except ConfigError as error:
        raise RuntimeError(f"the keys file has an error, so the server does not start: {error}") from error


def load_front_ends() -> None:
    """Import every module of `handlers/impl`.

    One that cannot be imported stops the start with a line that names it.
    """
    package = "Middleware.api.handlers.impl"
    try:
        import Middleware.api.handlers.impl  # noqa: F401
    except Exception as error:
        raise RuntimeError(f"a front end of {package} cannot be loaded: {error!r}") from error
    if not len(FRONT_ENDS):
        raise RuntimeError(f"no front end is registered in {package}")


def _refuse_unseen_route() -> None:
    """What the front door took for no route is answered without a key (keys.md 2): should the router find one
    there all the same, it is closed. Raises Unauthorized.
    """
    is_known = request.environ.get(KNOWN, True)
    if is_known or request.url_rule is None or request.path in OPEN_PATHS or is_console(request.path):
        return
    raise Unauthorized(MISSING, challenge=KEY_CHALLENGE)


def _error_response(error: Exception) -> Response:
    """Every failure of a view, in the protocol of its request."""
    protocol: ClientProtocol = request.environ.get(PROTOCOL, PLAIN)
    let_go(error)
    if isinstance(error, HTTPException):
        reply = _http_reply(error)
        log_refusal(reply, request.environ)
    else:
        request_id = current_request_id()
        outdated = list(outdated_files(g.get("request_context")).values())
        reply = reply_to(error, request_id, privacy=g.get("privacy", False), outdated=outdated)
        if isinstance(error, RequestCancelled):
            current_life().end = "cancelled"  # the line at its end says so, in the log of its user
        elif isinstance(error, ClientRequestError | ServerBusy):
            log_refusal(reply, request.environ)
        else:
            log_failure(request_id, error, g.get("request_context"))
    current_life().note_error(reply.message)
    return json_response(protocol.error_body(reply), reply.status, reply.headers)


def _http_reply(error: HTTPException) -> ErrorReply:
    """No such route or method, a body that is too large, and what else Flask itself says."""
    status, request_id = error.code or 500, current_request_id()
    place = f"{request.method} {request.path}"
    doors: Doors = current_app.extensions[_DOORS]
    if status in (404, 405) and doors.is_unsupported(request.path):
        return ErrorReply(404, f"not supported by this server: {place}", request_id=request_id)
    if status == 404:
        return ErrorReply(404, f"no such route: {place}", request_id=request_id)
    if status == 405:
        allowed = {"Allow": ", ".join(sorted(getattr(error, "valid_methods", None) or ()))}
        return ErrorReply(405, f"method not allowed: {place}", headers=allowed, request_id=request_id)
    return ErrorReply(status, f"{error.name} (request {request_id})", request_id=request_id)
