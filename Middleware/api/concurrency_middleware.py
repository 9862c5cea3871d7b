"""The gate of level `request`: at most so many generation requests at once, in order of arrival.

A slot is held until the request's work has ended (`request_life.py`), also when its stream has ended before.
Other methods and routes pass. What Open WebUI asks for itself stands behind what people ask. Source: spec
frontend-api.md 15.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, TypeVar

from Middleware.api.handlers.front_ends import all_doors
from Middleware.api.requests.chat_messages import TASK_FIELD, TASK_MARKS, task_of
from Middleware.api.requests.request_body import peek_body
from Middleware.api.requests.request_fields import json_body
from Middleware.api.requests.request_life import LIFE, HeldBody, RequestLife, reply_to
from Middleware.api.wsgi.doors import (
    ASKER,
    LIMITED,
    PROTOCOL,
    Doors,
    Generation,
    StartResponse,
    WaitingRequest,
    WsgiApp,
    send_error,
)
from Middleware.api.wsgi.model_addresses import with_model_of_address
from Middleware.common.errors import ClientRequestError, MiddlewareError, NotFound, ServerBusy
from Middleware.common.types import JsonObject
from Middleware.services.fair_gate import FairGate, any_machine_called
from Middleware.services.key_limits import KeyLimiter, ask_of
from Middleware.services.run_trace import RunTrace
from Middleware.services.shared_state.turns import Ask

_TASK_MARKS = tuple(tuple(mark.encode() for mark in marks) for marks in TASK_MARKS)


def is_background(environ: dict[str, Any], doors: Doors) -> bool:
    """One of the requests that Open WebUI makes for itself (16.2). The body stays there to be read."""
    view = doors.view_of(environ.get("PATH_INFO", ""))
    if view is None or not issubclass(view, Generation):
        return False
    if environ.get(TASK_FIELD, "").strip():
        return view().task_messages({"messages": []}) is not None
    data = peek_body(environ)
    if not any(all(mark in data for mark in marks) for marks in _TASK_MARKS):
        return False
    try:
        body = json_body(data)
    except ClientRequestError:  # the application will say so
        return False
    asked = view()
    return task_of(asked.task_messages(body), "", asked.streams(body, environ)) is not None


class ConcurrencyLimitMiddleware:
    """`semaphore`: a `FairGate` or any semaphore of `threading`; None: any number of requests at once.
    `acquire_timeout`: seconds, then 503.

    `doors`: which requests are gated; None: those of every front end that is registered.
    """

    def __init__(
        self,
        app: WsgiApp,
        semaphore: FairGate | threading.Semaphore | None,
        acquire_timeout: float = 900,
        doors: Doors | None = None,
    ) -> None:
        self._app, self._semaphore, self._timeout_s = app, semaphore, acquire_timeout
        self._doors = all_doors() if doors is None else doors
        self.limiter = KeyLimiter(semaphore if isinstance(semaphore, FairGate) else None)

    def __call__(self, environ: dict[str, Any], start_response: StartResponse) -> Iterable[bytes]:
        if not self._doors.generates(environ) and LIMITED not in environ:
            return self._app(environ, start_response)
        life: RequestLife = environ.get(LIFE) or RequestLife("")
        owned = LIFE not in environ
        try:
            self.admit(life, environ)
        except MiddlewareError as error:
            protocol = environ.get(PROTOCOL) or self._doors.protocol_of(environ)
            reply = reply_to(error, life.request_id)
            life.note_error(reply.message)
            return send_error(reply, protocol, environ, start_response)
        if not owned:
            return self._app(environ, start_response)
        return run_within_life(life, self._app, environ, start_response)

    def admit(self, life: RequestLife, environ: dict[str, Any]) -> None:
        """Wait for a slot, which the life gives back at its end.

        Raises ServerBusy, RequestCancelled, and Unauthorized when its key was revoked while it waited.
        """
        life.waits = True
        try:
            admitted = self._wait_for_turn(life, environ)
        finally:
            life.waits = False
        if not admitted:
            raise ServerBusy(f"server is busy: no free slot within {self._timeout_s:g} s")
        life.check_key()
        if life.trace is not None:
            life.trace.begin()

    def _wait_for_turn(self, life: RequestLife, environ: dict[str, Any]) -> bool:
        gate = self._semaphore
        if life.limited is not None:
            _enter_line(life, environ)
            learn = self._learner(life, environ, is_task=life.limited.is_behind)
            return life.limited.wait(self._timeout_s, life.request_id, learn)
        if gate is None:
            return True
        _enter_line(life, environ)
        if isinstance(gate, FairGate):
            return self._wait_in_line(gate, life, environ)
        admitted = gate.acquire(timeout=self._timeout_s)
        if admitted:
            life.at_end(gate.release)
        return admitted

    def _wait_in_line(self, gate: FairGate, life: RequestLife, environ: dict[str, Any]) -> bool:
        """Where models share machines the one that a request will need first counts (prompt-reuse.md 7.1): it
        is looked for when the request must wait, or when this process has called such a machine.
        """
        behind = is_background(environ, self._doors)
        ask = machine_asked(environ, self._doors, is_task=behind) if any_machine_called() else None
        ask = ask_of(life.asker, ask)
        admitted = gate.acquire(
            timeout=self._timeout_s,
            request_id=life.request_id,
            behind=behind,
            ask=ask,
            learn=self._learner(life, environ, is_task=behind),
        )
        if admitted:
            life.at_end(partial(gate.release, "" if ask is None else ask.name))
        return admitted

    def _learner(
        self, life: RequestLife, environ: dict[str, Any], *, is_task: bool
    ) -> Callable[[], Ask | None]:
        """Finds out the model of a machine that a request asks for, which must wait, and tells who waits
        (workbench.md 12).
        """
        is_known = any_machine_called()

        def learn() -> Ask | None:
            if life.trace is not None:
                name_waiting(life.trace, environ, self._doors)
            return None if is_known else machine_asked(environ, self._doors, is_task=is_task)

        return learn

    def count_request(self, environ: dict[str, Any], *, replaces: bool) -> None:
        """A counted request of a key of the keys file begins: it is given a KeyRequest, with which it has its
        place in the queues. Raises RateLimited, ServerBusy.
        """
        behind, takes_turn = is_background(environ, self._doors), self._takes_turn(environ)
        limited = environ[LIMITED] = self.limiter.request(
            environ[ASKER],
            behind=behind,
            takes_turn=takes_turn,
            ask=self._machine_called(environ, is_task=behind) if takes_turn else None,
        )
        limited.admit(replaces=replaces)

    def _takes_turn(self, environ: dict[str, Any]) -> bool:
        """Whether the request needs a turn of the gate: all but those that run no workflow."""
        return self._doors.generates(environ) or not self._doors.is_long_request(environ)

    def _machine_called(self, environ: dict[str, Any], *, is_task: bool) -> Ask | None:
        """What it asks for, where this process has called a machine; a wrong name is told later."""
        try:
            return machine_asked(environ, self._doors, is_task=is_task) if any_machine_called() else None
        except NotFound:
            return None


def _enter_line(life: RequestLife, environ: dict[str, Any]) -> None:
    """The line is in the order in which the bodies have ended: who sends slowly keeps nobody waiting. The
    body stays there to be read. Source: workbench.md 12.
    """
    peek_body(environ)
    if life.trace is not None:
        life.trace.enter_line()


_T = TypeVar("_T")


def machine_asked(environ: dict[str, Any], doors: Doors, *, is_task: bool) -> Ask | None:
    """The model of a machine that a request will need first; None: not known. The body stays there to be
    read.

    Raises NotFound for a model name that is not there; what else is wrong is the application's to say.
    """
    return _ask_view(environ, doors, lambda view, body: view.machine_asked(body, is_task=is_task))


def name_waiting(trace: RunTrace, environ: dict[str, Any], doors: Doors) -> None:
    """Tell who waits. The body stays there to be read. Raises as `machine_asked`."""

    def ask(view: Generation, body: JsonObject) -> WaitingRequest | None:
        trace.note_asked_name(body.get("model"))
        return view.waiting(body, trace.id, environ)

    found = _ask_view(environ, doors, ask)
    if found is not None:
        found.tell(trace)


def _ask_view(
    environ: dict[str, Any], doors: Doors, ask: Callable[[Generation, JsonObject], _T | None]
) -> _T | None:
    view = doors.view_of(environ.get("PATH_INFO", ""))
    if view is None or not issubclass(view, Generation):
        return None
    try:
        body = with_model_of_address(json_body(peek_body(environ)), environ)
        return ask(view(), body)
    except NotFound:
        raise
    except ClientRequestError:
        return None


def run_within_life(
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
