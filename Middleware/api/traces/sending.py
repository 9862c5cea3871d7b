"""Runs as traces of OpenTelemetry, sent by OTLP: the only place that knows the library, the extra `otel`.

A run becomes spans when it has ended; the SDK's batch thread sends them, and no answer ever waits for it.
What can wait no longer is dropped, a whole trace at a time. While the collector fails nothing is made for it
but a few tries, and one WARNING a minute. Nothing of the library's own state is touched: no global provider,
no context. Source: spec workbench.md 8.
"""

from __future__ import annotations

import atexit
import logging
import os
import re
import sys
import threading
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any

from opentelemetry.attributes import BoundedAttributes
from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.propagate import extract
from opentelemetry.sdk.resources import SERVICE_NAME, SERVICE_VERSION, Resource
from opentelemetry.sdk.trace import Event, ReadableSpan, SpanLimits, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExportResult
from opentelemetry.sdk.trace.sampling import DEFAULT_ON
from opentelemetry.sdk.util import BoundedList
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import SpanContext, SpanKind, Status, StatusCode, TraceFlags, get_current_span

from Middleware.api.traces.conventions import SCHEMA_URL, TEXTS_LEFT_OUT
from Middleware.api.traces.messages import CallTexts
from Middleware.api.traces.span_facts import (
    OF_REQUEST,
    SpanFacts,
    TraceSpans,
    count_spans,
    late_spans,
    trace_of,
    workflow_name,
)
from Middleware.common.constants import VERSION
from Middleware.common.secrets import mask_secrets, shown_url
from Middleware.services.node_trace import NodeTrace
from Middleware.services.run_trace import RunTrace

logger = logging.getLogger(__name__)

MOST_WAITING = 2048
"""So many spans wait to be sent; a run whose spans find no room has no trace."""
MOST_WHILE_FAILING = 64
"""So many wait while the collector fails, where a single one is tried and the others are nearly always lost:
to make a run's costs its answer 3 % of CPU, for nothing."""
MOST_TEXT_BYTES = 32 << 20
"""So much may wait of their texts; spans that come then are sent without texts."""
PAUSE_S = 15.0
"""After a failure nothing is tried for so long."""
TELL_EVERY_S = 60.0
CLOSE_S = 3.0
_MOST_STATE = 512
"""A longer `tracestate` is left out. Source: W3C Trace Context 3.3.1.5."""
_BATCH, _BATCH_BESIDE_A_LOOP = 512, 64
_LARGEST = 2**31 - 1
_NUMBERS = {"MAX_QUEUE_SIZE": 1, "MAX_EXPORT_BATCH_SIZE": 1, "SCHEDULE_DELAY": 1, "EXPORT_TIMEOUT": 0}
"""What the batch thread is told by the environment, behind `OTEL_BSP_`, and the least of each."""
_LIBRARY_LOGS = ("opentelemetry.sdk", "opentelemetry.exporter")
_CAUSE = re.compile(r"Caused by .*: ([^'\")]+)['\")]")
"""The last of the causes that `requests` lists."""
_MOST_SAID = 200


_SAMPLED = TraceFlags(TraceFlags.SAMPLED)
_NOBODY = Context()
"""What stands above a trace whose client sent no context."""


class _Contexts:
    """Those of the spans of one trace: of the request's, `root`, at once, of the others when they are sent.
    `parent`: the client's, None: it has none.
    """

    __slots__ = ("_ids", "_made", "parent", "root")

    def __init__(self, root: Any, parent: Any, ids: Any) -> None:
        self.root, self.parent, self._ids = root, parent, ids
        self._made: dict[int, Any] = {0: root, OF_REQUEST: root}

    def at(self, place: int) -> Any:
        made = self._made.get(place)
        if made is None:
            root, own = self.root, self._ids.generate_span_id()
            made = SpanContext(root.trace_id, own, False, root.trace_flags, root.trace_state)
            self._made[place] = made
        return made


@dataclass(slots=True, eq=False)
class WaitingSpan:
    """What the batch thread holds of a span: it asks for `context` alone, to know that the trace is wanted.
    `place`: in its trace, 0: that of the request.
    """

    context: Any
    contexts: _Contexts
    place: int
    facts: SpanFacts


@dataclass(slots=True)
class _OpenTrace:
    """Of a run that ended but is not settled: what calls that end later are hung up at."""

    spans: TraceSpans
    contexts: _Contexts


class TraceWriter:
    """Sends the runs that it observes. `with_texts`: prompts and answers, too; never those of private users.
    `hidden`: keys of the server. Raises ValueError for settings that the library refuses.
    """

    changes = ("ended", "settled")

    def __init__(self, *, with_texts: bool = False, hidden: Collection[str] = ()) -> None:
        self.keeps_text = with_texts
        self._hidden = tuple(hidden)
        self._scope = InstrumentationScope("headrace", VERSION, SCHEMA_URL)
        self._log = LibraryLog()
        try:
            self._provider = TracerProvider(resource=_resource(), shutdown_on_exit=False)
            self._limits = SpanLimits()
            self._begin()
        except BaseException:
            self._log.close()
            raise
        if self._log.last:
            logger.warning("traces: %s", self._log.last)

    def _begin(self) -> None:
        """In this process nothing waits and no thread runs."""
        self._pid, self._lock = os.getpid(), threading.Lock()
        self._spans = self._text_bytes = 0
        self._most, self._batch = _queue_and_batch()
        self._processor: Any = None
        self._resource: KnownResource | None = None
        self._open: dict[RunTrace, _OpenTrace] = {}
        self._exporter = CarefulExporter(self._take_out, self._readable, self._log)

    @property
    def waiting(self) -> int:
        """Spans that wait to be sent."""
        return self._spans

    def note_change(self, run: RunTrace, what: str, node: NodeTrace | None) -> None:
        if self._pid != os.getpid():  # a server may fork when it has answered already
            self._begin()
        if what == "ended":
            self._end(run)
        elif what == "settled" and (known := self._open.pop(run, None)) is not None:
            late = late_spans(run, known.spans, with_texts=self.keeps_text)
            if late and self._make_room(len(late)):
                self._add(late, known.contexts, len(known.spans.spans))

    def _end(self, run: RunTrace) -> None:
        root, parent = self._sampled(run)
        if root is None or not self._make_room(count := min(count_spans(run), self._most)):
            return
        try:
            made = trace_of(run, with_texts=self.keeps_text)
        except Exception:  # one odd run must not end the traces
            logger.exception("a run could not be made a trace")
            self._give_back(count)
            return
        del made.spans[count:]
        if len(made.spans) < count:
            self._give_back(count - len(made.spans))
        contexts = _Contexts(root, parent, self._provider.id_generator)
        self._add(made.spans, contexts, 0)
        self._open[run] = _OpenTrace(made, contexts)

    def _sampled(self, run: RunTrace) -> tuple[Any, Any]:
        """The contexts of the request's span and of its parent; `(None, ...)`: this run has no trace."""
        above, parent = _client_span(*run.caller) if run.caller[0] else (_NOBODY, None)
        ids, sampler, state = self._provider.id_generator, self._provider.sampler, None
        trace_id = ids.generate_trace_id() if parent is None else parent.trace_id
        if parent is not None or sampler is not DEFAULT_ON:  # which takes all that nobody stands above
            name = workflow_name(run)
            chosen = sampler.should_sample(above, trace_id, name, SpanKind.SERVER, {}, ())
            if not chosen.decision.is_sampled():
                return None, parent
            state = chosen.trace_state
        return SpanContext(trace_id, ids.generate_span_id(), False, _SAMPLED, state), parent

    def _make_room(self, count: int) -> bool:
        """False: too many spans wait already."""
        with self._lock:
            most = max(count, MOST_WHILE_FAILING) if self._exporter.is_failing else self._most
            if self._spans + count > min(most, self._most) or self._exporter.is_closing:
                self._exporter.note_lost(count)
                return False
            if self._processor is None:
                self._start()
            self._spans += count
            return True

    def _give_back(self, count: int) -> None:
        """So many spans that room was made for did not come: what goes on has none yet."""
        with self._lock:
            self._spans -= count

    def _start(self) -> None:
        """Not before there is work: a server may fork after it was put together. The lock is held."""
        batch = self._batch or (_BATCH_BESIDE_A_LOOP if _in_a_loop() else _BATCH)
        self._processor = BatchSpanProcessor(
            self._exporter, max_queue_size=self._most, max_export_batch_size=min(batch, self._most)
        )
        atexit.register(self.close)

    def _add(self, spans: Sequence[SpanFacts], contexts: _Contexts, place: int) -> None:
        """`place`: of the first of them in their trace."""
        root, on_end = contexts.root, self._processor.on_end
        for number, facts in enumerate(spans, place):
            if facts.texts is not None:
                self._hold_texts(facts, facts.texts)
            on_end(WaitingSpan(root, contexts, number, facts))

    def _hold_texts(self, facts: SpanFacts, texts: CallTexts) -> None:
        with self._lock:
            if self._text_bytes + texts.size > MOST_TEXT_BYTES:
                facts.texts, facts.attributes[TEXTS_LEFT_OUT] = None, True
            else:
                self._text_bytes += texts.size

    def _take_out(self, batch: Sequence[WaitingSpan]) -> None:
        """These wait no longer."""
        with self._lock:
            self._spans -= len(batch)
            self._text_bytes -= sum(one.facts.texts.size for one in batch if one.facts.texts is not None)

    def _readable(self, waiting: WaitingSpan) -> Any:
        """The span as the library sends it."""
        facts, contexts, limits = waiting.facts, waiting.contexts, self._limits
        facts.finish(self._hidden)
        events = [
            Event(
                name,
                _bounded(attributes, limits.max_event_attributes, limits.max_attribute_length),
                time,
            )
            for name, time, attributes in facts.events
        ]
        return ReadableSpan(
            name=facts.name,
            context=contexts.at(waiting.place),
            parent=contexts.at(facts.parent) if waiting.place else contexts.parent,
            resource=self._own_resource(),
            attributes=_bounded(
                facts.attributes, limits.max_span_attributes, limits.max_span_attribute_length
            ),
            events=BoundedList.from_seq(limits.max_events, events),
            kind=SpanKind[facts.kind],
            status=Status(StatusCode.ERROR, facts.said or None) if facts.error else Status(),
            start_time=facts.begun,
            end_time=facts.ended,
            instrumentation_scope=self._scope,
        )

    def _own_resource(self) -> Any:
        """That of the provider, which makes another one when the process is forked."""
        told = self._provider.resource
        if self._resource is None or self._resource.told is not told:
            self._resource = KnownResource(told)
        return self._resource

    def close(self, timeout_s: float = CLOSE_S) -> None:
        """Send what waits, and end. What cannot be sent in this time is lost."""
        atexit.unregister(self.close)
        with self._lock:
            processor, self._processor = self._processor, None
        if processor is None or self._pid != os.getpid():
            self._exporter.shutdown()
        elif self._exporter.is_ready_to_close(timeout_s):
            processor.force_flush()
            processor.shutdown()
        self._log.close()


def _queue_and_batch() -> tuple[int, int | None]:
    """How many spans may wait, and how many are sent at once if the environment says it.

    Raises ValueError for numbers that the batch thread, which begins with the first run, could not work with.
    """
    asked: dict[str, int] = {}
    for name, least in _NUMBERS.items():
        text = os.environ.get(f"OTEL_BSP_{name}", "").strip()
        if text and not (text.isdecimal() and len(text) <= 10 and least <= int(text) <= _LARGEST):
            raise ValueError(f"OTEL_BSP_{name} is {text[:60]!r}, allowed: a whole number from {least} on")
        if text:
            asked[name] = int(text)
    queue, batch = asked.get("MAX_QUEUE_SIZE", MOST_WAITING), asked.get("MAX_EXPORT_BATCH_SIZE")
    if batch is not None and batch > queue:
        raise ValueError(f"OTEL_BSP_MAX_EXPORT_BATCH_SIZE is {batch}, but at most {queue} spans wait")
    return min(queue, MOST_WAITING), batch


def _client_span(traceparent: str, tracestate: str) -> tuple[Any, Any]:
    """What a client sent, as the library's context, and its span in it; `(..., None)`: it is none."""
    carrier = {"traceparent": traceparent, "tracestate": tracestate[: _MOST_STATE + 1]}
    if len(tracestate) > _MOST_STATE:
        del carrier["tracestate"]
    above = extract(carrier, Context())
    parent = get_current_span(above).get_span_context()
    return above, parent if parent.is_valid else None


def _bounded(attributes: dict[str, Any], most: int | None, length: int | None) -> Any:
    """Within the limits of the environment; where there are none this takes no time."""
    if length is None and (most is None or len(attributes) <= most):
        return attributes
    return BoundedAttributes(most, attributes, immutable=True, max_value_len=length)


class KnownResource(Resource):  # type: ignore[misc]  # no types in a tree without the extra
    """A resource whose hash, which the encoder asks for with each span, is made once."""

    def __init__(self, told: Any) -> None:
        super().__init__(told.attributes, told.schema_url)
        self.told, self._hash = told, hash(told)

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return self is other


def _resource() -> Any:
    """The environment's words for this program come first."""
    told, ours = Resource.create(), {SERVICE_NAME: "headrace", SERVICE_VERSION: VERSION}
    named = {key for key in told.attributes if key != SERVICE_NAME}
    if not str(told.attributes.get(SERVICE_NAME, "")).startswith("unknown_service"):
        named.add(SERVICE_NAME)
    return told.merge(Resource({key: value for key, value in ours.items() if key not in named}))


def _in_a_loop() -> bool:
    """Whether threads are greenlets here: the work for a batch then holds up every stream of the process."""
    monkey = sys.modules.get("gevent.monkey")
    return monkey is not None and bool(monkey.is_module_patched("threading"))


# --------------------------------------------------------------------------


class CarefulExporter:
    """Stands between the SDK's batch thread and its exporter: makes spans of what waited, holds still while
    the collector fails, and speaks of it. `take_out(batch)` is told what waits no longer."""

    def __init__(
        self,
        take_out: Callable[[Sequence[WaitingSpan]], None],
        readable: Callable[[WaitingSpan], Any],
        log: LibraryLog,
    ) -> None:
        self._take_out, self._readable, self._log = take_out, readable, log
        self._exporter = OTLPSpanExporter()
        self._ready = threading.Condition()
        self._sending = self._closing = False
        self._end = 0.0
        self._trouble = _Trouble()

    @property
    def is_closing(self) -> bool:
        return self._closing

    @property
    def is_failing(self) -> bool:
        """Whether the last that was tried was not taken."""
        return self._trouble.since > 0

    def note_lost(self, count: int) -> None:
        """So many spans found no room."""
        self._trouble.lost += count

    def export(self, batch: Sequence[WaitingSpan]) -> Any:
        """In the batch thread. Its pause after a failure ends when the server does; then one span is tried,
        and the others are made only if that is taken."""
        self._take_out(batch)
        if self._closing and time.monotonic() > self._end:
            self._trouble.lost += len(batch)
            return SpanExportResult.FAILURE
        with self._ready:
            self._sending = True
        try:
            result = self._send(batch[:1]) if self._trouble.since else SpanExportResult.SUCCESS
            if result is SpanExportResult.SUCCESS:
                result = self._send(batch[1:] if self._trouble.since else batch)
        finally:
            with self._ready:
                self._sending = False
                self._ready.notify_all()
        if result is SpanExportResult.SUCCESS:
            self._trouble.over()
        else:
            self._trouble.note(self._log.last, len(batch))
            with self._ready:
                self._ready.wait_for(lambda: self._closing, PAUSE_S)
        return result

    def _send(self, batch: Sequence[WaitingSpan]) -> Any:
        if not batch:
            return SpanExportResult.SUCCESS
        self._log.last = ""
        spans = []
        for waiting in batch:
            try:
                spans.append(self._readable(waiting))
            except Exception:  # one odd span must not cost the others
                logger.exception("a span could not be made")
        return self._exporter.export(spans)

    def is_ready_to_close(self, timeout_s: float) -> bool:
        """Waits until nothing is being sent. False: the collector is away, so nothing more is sent."""
        with self._ready:
            self._closing = True
            self._ready.notify_all()
            is_idle = self._ready.wait_for(lambda: not self._sending, timeout_s)
        if not is_idle or self._trouble.since:
            self.shutdown()
            return False
        self._end = time.monotonic() + timeout_s
        self._exporter = OTLPSpanExporter(timeout=timeout_s)
        return True

    def shutdown(self) -> None:
        self._closing = True
        self._exporter.shutdown()

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        return True


class _Trouble:
    """What is said of a collector that fails. `since`: monotonic seconds of the first failure, 0.0: it does
    not. `lost`: spans."""

    def __init__(self) -> None:
        self.since = self._told = 0.0
        self.lost = 0

    def note(self, why: str, lost: int) -> None:
        now = time.monotonic()
        self.since, self.lost = self.since or now, self.lost + lost
        if self._told and now - self._told < TELL_EVERY_S:
            return
        self._told = now
        logger.warning(
            "traces cannot be sent to %s: %s; %d spans are lost so far",
            _collector(),
            why or "it gave no reason",
            self.lost,
        )

    def over(self) -> None:
        if self.since:
            logger.info("traces are sent again; %d spans were lost", self.lost)
            self.since, self.lost = 0.0, 0


def _collector() -> str:
    names = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
    return shown_url(next((os.environ[name] for name in names if os.environ.get(name)), ""))


class LibraryLog(logging.Handler):
    """Keeps what the library says of a failure in place of its log lines. `last`: empty: nothing."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.last = ""
        self._loggers = [logging.getLogger(name) for name in _LIBRARY_LOGS]
        for log in self._loggers:
            log.addHandler(self)
            log.propagate = False

    def emit(self, record: logging.LogRecord) -> None:
        """The first line says most; those about its further tries follow."""
        if not self.last:
            said = mask_secrets(" ".join(record.getMessage().split()))
            cause = _CAUSE.search(said)
            self.last = (cause[1] if cause else said)[:_MOST_SAID]

    def close(self) -> None:
        for log in self._loggers:
            log.removeHandler(self)
            log.propagate = not any(isinstance(one, LibraryLog) for one in log.handlers)
        super().close()
