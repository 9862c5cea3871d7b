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

import logging
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from flask import Flask, Response, abort, current_app, g, request
from flask.views import MethodView

from Middleware.api.api_helpers import (
    current_life,
    current_request_id,
    is_private,
    json_response,
    life_of,
    named_by_address,
)
from Middleware.api.requests.answering import AnswerJob, AnswerStream, whole_body
from Middleware.api.requests.chat_messages import (
    TASK_FIELD,
    TASK_HEADER,
    TOOL_ANSWER,
    is_tool_selection,
    newest_text,
    task_of,
)
from Middleware.api.requests.key_check import key_of_request, owner_of, refuse_two_ciphers
from Middleware.api.requests.model_names import ModelChoice, choose
from Middleware.api.requests.request_body import read_body
from Middleware.api.requests.request_fields import (
    WishFields,
    json_body,
    read_wishes,
    suppresses_reasoning,
    wants_stream,
    wants_usage,
)
from Middleware.api.requests.request_life import RequestLife
from Middleware.api.workflow_gateway import WorkflowPlace, machine_asked_first, open_answer
from Middleware.api.wsgi.doors import (
    ASKER,
    METRICS_PATH,
    USAGE_PATH,
    Generation,
    Route,
    WaitingRequest,
    routes_to,
)
from Middleware.api.wsgi.metrics import Metrics
from Middleware.api.wsgi.processes import LARGE_BYTES, heap
from Middleware.common.asker import ANYBODY, Asker
from Middleware.common.copies import copy_with
from Middleware.common.errors import ClientRequestError, ConfigError, Forbidden
from Middleware.common.request_context import NO_PROGRESS, ClientQuestion, RequestContext, Wish, enter_request
from Middleware.common.secrets import SECRET_NAME
from Middleware.common.types import Batches, JsonObject
from Middleware.config.key_file import limits_json
from Middleware.config.loader import ConfigSnapshot, default_snapshot
from Middleware.config.users import UserSettings
from Middleware.protocols.base import PLAIN, PROTOCOLS, ClientProtocol
from Middleware.protocols.registry import WIRE_FORMATS, AnswerFacts, WireFormat
from Middleware.services.answers import compact_json
from Middleware.services.cancellation_service import ASKED_TO, cancellation_service
from Middleware.services.key_limits import KeyLimiter
from Middleware.services.shared_state.turns import Ask

logger = logging.getLogger(__name__)


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
                raise TypeError(f"{cls.__name__} must define `{name}`")

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
    if cancellation_service.is_running_of(given, owner_of(request.environ)):
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


# --------------------------------------------------------------------------
# At most a few requests at a time in their CPU-bound set-up phase, so that running streams keep their
# pace.


PLACES = 8
PATIENCE_S = 0.25
"""Who waited this long goes on without a place."""


class SetupPhase:
    """`enter` waits for a place and gives the function that leaves it, which may be called again."""

    def __init__(self, places: int = PLACES, patience_s: float = PATIENCE_S) -> None:
        self._places, self._patience_s = threading.Semaphore(places), patience_s

    def enter(self) -> Callable[[], None]:
        admitted = self._places.acquire(timeout=self._patience_s)
        pending = [self._places.release] if admitted else []

        def leave() -> None:
            try:
                release = pending.pop()
            except IndexError:
                return
            release()

        return leave


# --------------------------------------------------------------------------
# The life of a generation request between its route and the engine. Source: spec frontend-api.md 4.


USAGE_HEADER = "X-Workflow-Usage"
STREAM_HEADERS = {"Cache-Control": "no-cache", "X-Accel-Buffering": "no"}

_setup_phase = SetupPhase()


class GenerationView(MethodView, Generation):
    """One generation route.

    `api_type`: key of WIRE_FORMATS; `stream_default`: whether a body that does not say so is streamed;
    `wish_fields`: where its bodies say what they want of the model.
    """

    api_type: ClassVar[str]
    stream_default: ClassVar[bool] = False
    wish_fields: ClassVar[WishFields] = {}

    @property
    def wire(self) -> WireFormat:
        return WIRE_FORMATS[self.api_type]

    def streams(self, body: JsonObject, headers: Mapping[str, Any]) -> bool:
        return wants_stream(body, self.stream_default)

    def suppresses_reasoning(self, body: JsonObject) -> bool:
        """Whether the client wants no reasoning."""
        return suppresses_reasoning(body)

    def progress(self, body: JsonObject, user: UserSettings) -> str:
        """How a stream shows that a node starts: as the user's settings say, if the protocol has a place and
        the client has not sent reasoning away.
        """
        wanted = user.progress_output
        shows = wanted in self.wire.shows_progress and not self.suppresses_reasoning(body)
        return wanted if shows else NO_PROGRESS

    def task_messages(self, body: JsonObject) -> Any:
        return body.get("messages") if self.wire.is_chat else None

    def task(self, body: JsonObject, headers: Mapping[str, Any], stream: bool) -> str | None:
        """The kind of a background task of Open WebUI; None: people ask. `headers`: names as WSGI spells
        them.
        """
        return task_of(self.task_messages(body), headers.get(TASK_FIELD, ""), stream)

    def snapshot(self) -> ConfigSnapshot:
        """The config files that the answer is made by."""
        return default_snapshot()

    @classmethod
    def reader_of(cls, data: bytes) -> GenerationView:
        """A view that can read this body, to ask again what it asked. Raises ClientRequestError."""
        return cls()

    def machine_asked(self, body: JsonObject, *, is_task: bool) -> Ask | None:
        snapshot = self.snapshot()
        choice, user = self._who_answers(body, snapshot)
        if user is None:
            return None
        return machine_asked_first(snapshot, user, choice.workflow, choice.endpoint, is_task=is_task)

    def waiting(self, body: JsonObject, request_id: str, headers: Mapping[str, Any]) -> WaitingRequest | None:
        choice, user = self._who_answers(body, self.snapshot())
        if user is None:
            return None
        key, stream = self.key(body, headers), self.streams(body, headers)
        context = RequestContext(
            request_id=request_id,
            user=choice.user,
            api_type=self.api_type,
            api_key=key,
            workflow_folder=choice.workflow,
            raw_endpoint=choice.endpoint,
            alias=choice.alias,
            fell_back=choice.fell_back,
            privacy=is_private(user, key),
            task=self.task(body, headers, stream),
        )
        return WaitingRequest(context, self.wire.front or self.api_type, stream, self.user_text(body))

    def tell_waiting(self, body: JsonObject, life: RequestLife) -> None:
        """Tell who waits, for a view that enters the gate itself (workbench.md 12)."""
        if life.trace is not None and (found := self.waiting(body, life.request_id, request.environ)):
            found.tell(life.trace)

    def user_text(self, body: JsonObject) -> str:
        """What the user wrote last; empty where none is found."""
        return newest_text(body)

    def _who_answers(
        self, body: JsonObject, snapshot: ConfigSnapshot
    ) -> tuple[ModelChoice, UserSettings | None]:
        """None in place of settings that cannot be read: that is said when the request has its turn."""
        choice = self.choose_model(body, snapshot)
        try:
            return choice, choice.settings(snapshot)
        except ConfigError:
            return choice, None

    def receive_body(self) -> tuple[bytes, JsonObject]:
        """The body as it came, and read, with the model of its address. Raises ClientRequestError for one
        that is no JSON object.
        """
        data = read_body(request.environ, request.max_content_length)
        if len(data) >= LARGE_BYTES:
            current_life().at_end(heap.trim_soon)
        return data, self.body_of(data)

    def body_of(self, data: bytes) -> JsonObject:
        """A body, read, with the model of its address. Raises ClientRequestError."""
        return named_by_address(json_body(data))

    def wishes(self, body: JsonObject) -> Mapping[str, Wish]:
        """What the client wants of the model, read-only and not checked (more-fronts.md 13)."""
        return read_wishes(body, self.wish_fields)

    @abstractmethod
    def read_question(self, body: JsonObject, user: UserSettings) -> ClientQuestion:
        """The question of a body; whether it is streamed, and its wishes, are filled in.

        Raises ClientRequestError.
        """

    def choose_model(self, body: JsonObject, snapshot: ConfigSnapshot) -> ModelChoice:
        """Who answers a body. Raises NotFound, ClientRequestError."""
        return choose(body.get("model"), snapshot)

    def key(self, body: JsonObject, headers: Mapping[str, Any]) -> str | None:
        """The API key of the client. `headers`: names as WSGI spells them."""
        return key_of_request(headers)

    def place(self, body: JsonObject, user: UserSettings) -> WorkflowPlace | None:
        """The workflow that a body names by its file; None: the user's settings say which one answers."""
        return None

    def open_run(
        self,
        context: RequestContext,
        question: ClientQuestion,
        headers: Mapping[str, str],
        place: WorkflowPlace | None,
    ) -> Batches:
        """The run that answers, as `open_answer`."""
        return open_answer(context, question, headers, place)

    def headers_read(self, user: UserSettings, life: RequestLife) -> dict[str, str]:
        """The headers that the user's settings or the protocol read, as the client sent them."""
        return _headers_read(user, life)

    def check(self, body: JsonObject) -> None:
        """Raise ClientRequestError for what is wrong before the user is known."""

    def instead(self, body: JsonObject) -> JsonObject | None:
        """An answer that needs no workflow, or None."""
        return None

    def facts(self, facts: AnswerFacts, body: JsonObject, question: ClientQuestion) -> AnswerFacts:
        """The facts of an answer, with what the protocol repeats of the body or tells before the answer."""
        return facts

    def intercept_facts(self, facts: AnswerFacts, body: JsonObject) -> AnswerFacts:
        """The facts of an answer to Open WebUI's tool picker (16.1)."""
        return copy_with(facts, unmeasured=True)

    def delete(self, request_id: str | None = None) -> Any:
        """Cancel a request of this route (13)."""
        return cancel(request_id)

    def post(self) -> Response:
        g.current_request_id = current_request_id()
        leave = _setup_phase.enter()
        try:
            return self._answer(leave)
        except BaseException:
            leave()
            raise

    def _answer(self, leave: Callable[[], None]) -> Response:
        data, body = self.receive_body()
        self.check(body)
        environ = request.environ  # each look at Flask's `request` costs 2 microseconds of the 2,000 here
        stream, life = self.streams(body, environ), life_of(environ)
        if life.trace is not None:
            life.trace.note_asked_name(body.get("model"))
        context, user = self._context(body, stream, life, leave)
        headers = self.headers_read(user, life)
        if context.trace is not None:
            context.trace.name(
                context,
                front=self.wire.front or self.api_type,
                stream=stream,
                asked=data,
                said=self.user_text(body),
                headers=headers,
            )
        del data  # an answer may take long, and a body may be large
        with enter_request(context):
            if (answer := self.instead(body)) is not None:
                leave()
                return json_response(answer)
            return self._respond(self._job(context, user, body, stream, headers), stream)

    def _context(
        self, body: JsonObject, stream: bool, life: RequestLife, leave: Callable[[], None]
    ) -> tuple[RequestContext, UserSettings]:
        """The facts of the request and its user. Nothing of its body is logged before they stand."""
        snapshot, environ = self.snapshot(), request.environ
        choice = self.choose_model(body, snapshot)
        user, key = choice.settings(snapshot), self.key(body, environ)
        g.privacy = privacy = is_private(user, key)
        refuse_two_ciphers(life.asker, user)
        task = self.task(body, environ, stream)
        context = g.request_context = life.request = RequestContext(
            request_id=life.request_id,
            user=choice.user,
            api_type=self.api_type,
            api_key=key,
            workflow_folder=choice.workflow,
            raw_endpoint=choice.endpoint,
            alias=choice.alias,
            fell_back=choice.fell_back,
            asker=life.asker,
            privacy=privacy,
            suppress_reasoning=self.suppresses_reasoning(body),
            task=task,
            include_usage=wants_usage(body),
            progress=self.progress(body, user) if stream and task is None else NO_PROGRESS,
            snapshot=snapshot,
            arrived=life.arrived,
            setup_done=leave,
            trace=life.trace,
        )
        return context, user

    def _job(
        self,
        context: RequestContext,
        user: UserSettings,
        body: JsonObject,
        stream: bool,
        headers: dict[str, str],
    ) -> AnswerJob:
        """`headers`: as `headers_read`."""
        facts = AnswerFacts(
            context.request_id,
            context.model_name,
            include_usage=wants_usage(body),
            arrived=context.arrived,
            workflow_usage=context.usage.numbers,
            progress=context.progress,
        )
        wire, life = self.wire, current_life()
        if is_tool_selection(self.task_messages(body), user):
            return AnswerJob(context, self.intercept_facts(facts, body), wire, life, _no_tools)
        question = copy_with(self.read_question(body, user), stream=stream, wishes=self.wishes(body))
        lowered = {name.lower(): value for name, value in headers.items()}
        facts = self.facts(facts, body, question)
        task = f" task={context.task}" if context.task else ""
        logger.info(
            "request %s: %s, model %s, %d messages, stream=%s%s",
            context.request_id,
            request.path,
            context.resolved_name,
            len(question.messages),
            stream,
            task,
        )

        place = self.place(body, user)

        def run() -> Batches:
            return self.open_run(context, question, lowered, place)

        return AnswerJob(context, facts, wire, life, run)

    def _respond(self, job: AnswerJob, stream: bool) -> Response:
        if not stream:
            return json_response(whole_body(job), headers=_usage_header(job.facts))
        body = AnswerStream(job)
        try:
            body.wait_for_output()
        except BaseException:
            body.close()
            raise
        headers = {**STREAM_HEADERS, "Content-Type": job.wire.mimetype}
        return Response(body, headers=headers, direct_passthrough=True)


def _headers_read(user: UserSettings, life: RequestLife) -> dict[str, str]:
    """Those that are there of the headers that the user's settings, the key's entry and Open WebUI's tasks
    name; none that holds a key.
    """
    entry, sent = life.asker.entry, request.headers
    names = (user.discussion_id_from_header, "" if entry is None else entry.turns_by, TASK_HEADER)
    return {name: sent[name] for name in names if name and name in sent and not SECRET_NAME.search(name)}


def _usage_header(facts: AnswerFacts) -> dict[str, str]:
    """What all calls behind a whole answer took. Source: more-fronts.md 9."""
    usage = facts.usage_beside()
    return {USAGE_HEADER: compact_json(usage["workflow_usage"])} if usage else {}


def _no_tools() -> Batches:
    """The run that answers Open WebUI's tool picker: no tool, no model."""
    return iter([[{"token": TOOL_ANSWER, "finish_reason": "stop"}]])


# --------------------------------------------------------------------------
# GET `/metrics`. No protocol of a client: it stands beside the front ends, never gated, behind the same
# doors.


METRICS = "headrace.metrics"
"""The key of the application's extensions that holds its `Metrics`."""
LIMITS = "headrace.limits"
"""The key of the application's extensions that holds its `KeyLimiter`."""


class MetricsAPI(MethodView):
    """The numbers of the application that is asked: those of all, for a key that has the right."""

    def get(self) -> Response:
        asker: Asker = request.environ.get(ASKER, ANYBODY)
        if asker.entry is not None and not asker.entry.metrics:
            raise Forbidden(f"the key {asker.name} may not read the metrics; its entry needs `metrics`")
        metrics: Metrics = current_app.extensions[METRICS]
        content_type, body = metrics.exposition(request.headers.get("Accept", ""))
        return Response(body, content_type=content_type)


class UsageAPI(MethodView):
    """GET `/v1/usage`: the numbers of the key that asks, and nobody else's. Source: keys.md 6."""

    def get(self) -> Response:
        asker: Asker = request.environ.get(ASKER, ANYBODY)
        if asker.entry is None:
            abort(404)
        limiter: KeyLimiter = current_app.extensions[LIMITS]
        numbers = limiter.numbers(asker.entry)
        told = {
            "object": "usage",
            "name": asker.name,
            "day": numbers.day,
            "requests": numbers.requests,
            "prompt_tokens": numbers.prompt_tokens,
            "completion_tokens": numbers.completion_tokens,
            "running": numbers.running,
            "waiting": numbers.waiting,
            "limits": limits_json(asker.entry.limits),
            "remaining": {"requestsPerMinute": numbers.left_requests, "tokensPerDay": numbers.left_tokens},
        }
        return json_response(told)


class MetricsRoute(BaseApiHandler):
    """Those of the server, and of a key."""

    protocol = PLAIN
    routes = (*routes_to(MetricsAPI, METRICS_PATH), *routes_to(UsageAPI, USAGE_PATH))
