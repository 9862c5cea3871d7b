"""The category of a message by its meaning: its vector is compared with those of the routing file's examples.

It never fails a request and never holds it up for long: whatever goes wrong, is slow or isn't clear is left
to the categorisation workflow. Source: spec agents.md 8.
"""

from __future__ import annotations

import logging
import math
import threading
import time
import uuid
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import Context
from dataclasses import dataclass
from functools import cache
from typing import Generic, TypeVar

from Middleware.common.errors import ConfigError, MiddlewareError, RequestCancelled, let_go
from Middleware.common.request_context import ClientQuestion, RequestContext, enter_request
from Middleware.config.loader import ConfigSnapshot
from Middleware.config.users import UserSettings
from Middleware.config.workflows import ByMeaning, Category, Routing
from Middleware.llmapis.embedding_service import BATCH_SIZE, EmbeddingService
from Middleware.services.cancellation_service import cancellation_service
from Middleware.services.data_folders import route_database_of
from Middleware.services.node_trace import NodeTrace
from Middleware.services.route_vectors import RouteVectors, vector_key
from Middleware.services.run_trace import RunTrace, TracedNode
from Middleware.utilities.sensitive_logging_utils import loggable_error
from Middleware.workflows.dispatch.prompt_assembly import HourlyWarnings
from Middleware.workflows.managers.meaning_scores import Examples, Scores, text_to_compare
from Middleware.workflows.processors.run import RequestState

logger = logging.getLogger(__name__)

T = TypeVar("T")

LIMIT_S = 2.0
"""So long a request waits for the vector of its message, and so long for those of the examples."""
REST_S = 30.0
"""So long an endpoint that was too slow is left alone."""
_MINUTE_S = 60.0
_MOST_KEPT = 64
"""Sets of examples that are held in memory; the one that was used longest ago goes first."""
_NODE_TYPE = "Routing"

EMBEDDING_FAULTS = (MiddlewareError, ValueError, OSError)


class Errand(Generic[T]):
    """Work in a thread of its own, so that whoever wants its result can stop waiting for it.

    `work(id)`: by this id it can be cancelled. `result`, `error`: how it ended.
    """

    def __init__(self, work: Callable[[str], T], clock: Callable[[], float] = time.monotonic) -> None:
        self.id, self.begun = str(uuid.uuid4()), clock()
        self.result: T | None = None
        self.error: Exception | None = None
        self.ended = False
        self._work: Callable[[str], T] | None = work
        self._changed = threading.Condition()

    def start(self, request: RequestContext | None = None) -> Errand[T]:
        """`request`: on whose behalf it works; None: nobody's."""
        threading.Thread(
            target=Context().run, args=(self._run, request), name="by-meaning", daemon=True
        ).start()
        return self

    def _run(self, request: RequestContext | None) -> None:
        work, self._work = self._work, None
        try:
            if work is not None:
                self.result = _work_for(request, work, self.id)
        except Exception as error:  # handed to whoever waits
            let_go(error)
            self.error = error
        finally:
            cancellation_service.acknowledge_cancellation(self.id)
            with self._changed:
                self.ended = True
                self._changed.notify_all()

    def wait(self, limit_s: float, request_id: str) -> bool:
        """Whether it has ended in time. Raises RequestCancelled when the request is cancelled meanwhile."""

        def is_over() -> bool:
            return self.ended or cancellation_service.is_cancelled(request_id)

        cancellation_service.register_abort_callback(request_id, self._wake)
        try:
            with self._changed:
                self._changed.wait_for(is_over, limit_s)
        finally:
            cancellation_service.unregister_abort_callback(request_id, self._wake)
        if cancellation_service.is_cancelled(request_id):
            raise RequestCancelled
        return self.ended

    def _wake(self) -> None:
        with self._changed:
            self._changed.notify_all()

    def stop(self) -> None:
        """Nobody waits for it any more."""
        if not self.ended:
            cancellation_service.cancel_scope(self.id)


def _work_for(request: RequestContext | None, work: Callable[[str], T], own_id: str) -> T:
    if request is None:
        return work(own_id)
    with enter_request(request.beside()):
        return work(own_id)


# --------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class MeaningModel:
    """The model that makes the vectors, and the examples of a routing file that it makes them of.

    `keys`: of each example with its prefix, the key that its vector is kept under, by category.
    """

    wanted: ByMeaning
    service: EmbeddingService
    store: RouteVectors
    keys: tuple[tuple[str, tuple[tuple[str, str], ...]], ...]

    @classmethod
    def of(
        cls,
        routing: Routing,
        wanted: ByMeaning,
        user: UserSettings,
        snapshot: ConfigSnapshot,
        trace: TracedNode | None = None,
    ) -> MeaningModel:
        """Raises ConfigError for an endpoint that is missing or not for embeddings."""
        service = EmbeddingService(wanted.embedding_endpoint_name, user=user, snapshot=snapshot, trace=trace)
        keys = tuple(
            (category.name, tuple((text, _key_of(service, wanted.prefix + text)) for text in category.texts))
            for category in routing.categories
            if category.texts
        )
        return cls(wanted, service, RouteVectors(route_database_of(user)), keys)

    @property
    def endpoint(self) -> str:
        return self.service.endpoint.name

    @property
    def server(self) -> str:
        """Who is asked, whatever the endpoint is called."""
        return _server_of(self.service)

    def examples(self, request_id: str) -> Examples | None:
        """The examples with their vectors; those that are not kept are made. None: it was cancelled.

        Raises BackendError, ValueError for an unusable answer.
        """
        texts = {key: self.wanted.prefix + text for _, pairs in self.keys for text, key in pairs}
        vectors = self.store.find(texts)
        if not self._make((key for key in texts if key not in vectors), texts, vectors, request_id):
            return None
        if len(set(map(len, vectors.values()))) > 1:  # another model answers by the same name
            vectors.clear()
            if not self._make(texts, texts, vectors, request_id):
                return None
            if len(set(map(len, vectors.values()))) > 1:
                raise ValueError("the vectors have different lengths")
        return Examples.of([(name, [(t, vectors[key]) for t, key in pairs]) for name, pairs in self.keys])

    def _make(
        self,
        keys: Iterable[str],
        texts: Mapping[str, str],
        vectors: dict[str, array[float]],
        request_id: str,
    ) -> bool:
        """Add vectors of these keys to `vectors`, and keep them. False: it was cancelled."""
        missing = list(keys)
        for start in range(0, len(missing), BATCH_SIZE):
            part = missing[start : start + BATCH_SIZE]
            made = self.service.get_embeddings([texts[key] for key in part], request_id)
            if made is None:
                return False
            new = {key: _as_stored(vector) for key, vector in zip(part, made, strict=True)}
            self.store.keep(new)
            vectors |= new
        return True

    def vector_of(self, text: str, request_id: str) -> array[float] | None:
        """Of a message. None: it was cancelled. Raises as `examples`."""
        made = self.service.get_embeddings([self.wanted.prefix + text], request_id)
        return None if made is None else _as_stored(made[0])

    def forget(self) -> None:
        """What is kept was made by another model, whose vectors look different."""
        self.store.forget(key for _, pairs in self.keys for _, key in pairs)


def _server_of(service: EmbeddingService) -> str:
    return " ".join(service.endpoint.addresses)


def _key_of(service: EmbeddingService, text: str) -> str:
    return vector_key(_server_of(service), service.endpoint.model, text)


def _as_stored(vector: Iterable[float]) -> array[float]:
    """As it is kept, so that a restart changes no score. Raises ValueError for a number that is too big."""
    numbers = array("f", vector)
    if not all(map(math.isfinite, numbers)):
        raise ValueError("an embedding contains a number that is too big")
    return numbers


# --------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Asking:
    """A message of one request that is to be compared."""

    model: MeaningModel
    request: RequestContext
    text: str
    trace: TracedNode | None

    def warn(self, message: str) -> None:
        if self.trace is not None and not self.trace.run.private:
            self.trace.node.warnings.append(message)


class MeaningRouter:
    """What all requests of the process share: examples that are at hand or being made, and endpoints that
    were too slow. Thread-safe. `clock`: seconds that only grow."""

    def __init__(self, clock: Callable[[], float] = time.monotonic, limit_s: float = LIMIT_S) -> None:
        self._clock, self._limit_s = clock, limit_s
        self._guard = threading.Lock()
        self._examples: dict[object, Examples] = {}
        self._making: dict[object, Errand[Examples | None]] = {}
        self._resting: dict[str, float] = {}
        self._warnings = HourlyWarnings(clock, every_s=_MINUTE_S)

    def is_resting(self, model: MeaningModel) -> bool:
        """Whether the endpoint was too slow a moment ago."""
        return self._clock() < self._resting.get(model.server, 0.0)

    def scores(self, asking: _Asking) -> Scores | None:
        """How near the message is to each category. None: that cannot be said now; a warning tells why.

        Raises RequestCancelled.
        """
        examples = self._examples_of(asking)
        if examples is None:
            return None
        if not examples.tell_apart:
            self._warn(asking, "the examples of different categories are too much alike to tell them apart")
            return None
        vector = self._vector_of(asking)
        if vector is None:
            return None
        if len(vector) != examples.dimension:
            asking.model.forget()
            with self._guard:
                self._examples.pop(self._place(asking.model), None)
            self._warn(asking, "it gives other vectors than before; those of the examples are made again")
            return None
        return examples.scores(vector)

    def _vector_of(self, asking: _Asking) -> array[float] | None:
        model, text = asking.model, asking.text
        errand = Errand(lambda own_id: model.vector_of(text, own_id), self._clock).start(asking.request)
        try:
            in_time = errand.wait(self._limit_s, asking.request.request_id)
        finally:
            errand.stop()
        if not in_time:
            self._resting[model.server] = self._clock() + REST_S
            self._warn(
                asking, f"it took longer than {self._limit_s:g} s, so it is left alone for {REST_S:g} s"
            )
        return self._outcome(errand, asking) if in_time else None

    def _examples_of(self, asking: _Asking) -> Examples | None:
        """Those at hand, else those that are made now, if that does not take too long."""
        place = self._place(asking.model)
        with self._guard:
            if (known := self._examples.pop(place, None)) is not None:
                self._examples[place] = known
                return known
            errand = self._making.get(place)
            if errand is None:
                errand = self._making[place] = Errand(self._maker(place, asking.model), self._clock).start()
        left = errand.begun + self._limit_s - self._clock()
        if not errand.wait(max(0.0, left), asking.request.request_id):
            self._warn(asking, "the vectors of the examples are still being made")
            return None
        return self._outcome(errand, asking)

    def _maker(self, place: object, model: MeaningModel) -> Callable[[str], Examples | None]:
        def make(own_id: str) -> Examples | None:
            try:
                made = model.examples(own_id)
                if made is not None:
                    self._keep(place, made)
                return made
            finally:
                with self._guard:
                    self._making.pop(place, None)

        return make

    def _keep(self, place: object, made: Examples) -> None:
        with self._guard:
            self._examples[place] = made
            if len(self._examples) > _MOST_KEPT:
                del self._examples[next(iter(self._examples))]

    @staticmethod
    def _place(model: MeaningModel) -> object:
        return model.store.database, model.keys

    def _outcome(self, errand: Errand[T], asking: _Asking) -> T | None:
        """What it brought. A failure is told, and costs the request nothing."""
        error = errand.error
        if error is None:
            return errand.result
        if not isinstance(error, EMBEDDING_FAULTS):
            logger.error("routing by meaning failed", exc_info=error)
        self._warn(asking, f"{loggable_error(error)}", type(error).__name__)
        return None

    def _warn(self, asking: _Asking, why: str, kind: str = "") -> None:
        """`kind`: what a failure is, where its words may differ from time to time."""
        endpoint = asking.model.endpoint
        message = f"routing by meaning: endpoint '{endpoint}': {why}; the categorisation workflow decides"
        asking.warn(message)
        if self._warnings.is_due(asking.request.user, f"{endpoint} {kind or why}"):
            logger.warning("%s", message)

    def warn_of_file(self, user: str, message: str) -> None:
        """Something is wrong with how the routing file or its endpoint is set up."""
        if self._warnings.is_due(user, message):
            logger.warning("routing by meaning: %s", message)


@cache
def process_meaning() -> MeaningRouter:
    """The one of this process."""
    return MeaningRouter()


# --------------------------------------------------------------------------


def category_by_meaning(state: RequestState, routing: Routing, question: ClientQuestion) -> Category | None:
    """The category that the newest message surely belongs to; None: the categorisation workflow decides.

    Raises RequestCancelled.
    """
    wanted = routing.by_meaning
    if wanted is None:
        return None
    user, router = state.user, process_meaning()
    text = text_to_compare(question.messages, wanted, has_tags=user.chat_complete_add_user_assistant)
    if text is None:
        return None
    if sum(bool(category.texts) for category in routing.categories) < 2:
        router.warn_of_file(user.name, f"{routing.file}: it needs two categories with texts")
        return None
    with _traced(state.run_trace, routing) as trace:
        try:
            model = MeaningModel.of(routing, wanted, user, state.snapshot, trace)
        except ConfigError as error:
            router.warn_of_file(user.name, f"{routing.file}: {error}")
            return None
        if router.is_resting(model):
            return None
        state.request.setup_done()
        scores = router.scores(_Asking(model, state.request, text, trace))
        return None if scores is None else _decided(routing, wanted, scores, trace)


def _decided(
    routing: Routing, wanted: ByMeaning, scores: Scores, trace: TracedNode | None
) -> Category | None:
    name = scores.taken(wanted)
    if trace is not None:
        trace.node.title = str(scores)
        if trace.run.keeps_text:
            trace.node.output = name or ""
    category = next((one for one in routing.categories if one.name == name), None)
    if category is None:
        logger.info("%s: not clear, so the categorisation workflow decides", scores)
    else:
        logger.info("%s: workflow '%s'", scores, category.workflow)
    return category


@contextmanager
def _traced(run: RunTrace | None, routing: Routing) -> Iterator[TracedNode | None]:
    """Inside the block the routing is seen as a node of the run. None: nobody observes."""
    if run is None:
        yield None
        return
    node = NodeTrace(routing.file, 1, _NODE_TYPE, "by meaning", of=1)
    traced = run.node(node)
    if routing.by_meaning is not None:
        node.endpoint = routing.by_meaning.embedding_endpoint_name
    try:
        yield traced
    except RequestCancelled:
        node.state = "cancelled"
        raise
    finally:
        node.end()
        traced.tell("node_ended")
