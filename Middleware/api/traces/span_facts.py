"""A run that ended as the spans of one trace: names, times, attributes. Pure; knows no library.

What costs time (masks, texts as JSON) waits until a span is sent: `finish` does it. Nothing here refers to
the run or its nodes, so a span that waits keeps no texts but its own. Source: spec workbench.md 8.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any
from urllib.parse import urlsplit

from Middleware.api.console.run_texts import answer_text, answering_node, secrets_of
from Middleware.api.traces import conventions as words
from Middleware.api.traces.messages import CallTexts, mask_of_run, text_attributes
from Middleware.api.wsgi.metrics import outcome_of
from Middleware.common.errors import KIND_STATUS
from Middleware.services.answers import FINISH_REASONS, cache_numbers
from Middleware.services.kept_bodies import kept_body
from Middleware.services.node_trace import CallTrace, NodeTrace
from Middleware.services.run_trace import RunTrace
from Middleware.utilities.text_utils import without_halves

OF_REQUEST = -1
"""In place of the index of a parent: the span of the request itself."""

_TO_MODELS = ("model", "prefill")
_FAILED_RUNS = ("failed", "refused")
_FAILED_NODES = ("failed", "went_on", "refused")
_GOOD_ENDS = FINISH_REASONS | {"", "None", "done", "cancelled", "closed", "dropped"}
_UNKNOWN = "_OTHER"
"""The conventions' word for an error whose kind is not known."""
_MOST_COUNT = 2**53
"""A larger number of tokens is none."""

Event = tuple[str, int, dict[str, Any]]
"""Name, Unix nanoseconds, attributes."""


@dataclass(slots=True)
class SpanFacts:
    """One span. `begun`, `ended`: Unix nanoseconds. `parent`: index in the list of the trace's spans.
    `error`: kind of a failure, empty: it did not fail; `said`: the sentence about it. `texts`: None: they are
    not to be sent. `secrets`: what no reader may see. What becomes attributes and events when it is sent:
    `perhaps`: those of its values that are not empty; `usage`: numbers as they were reported; `times`: name
    of an event -> when it was on the run's `clock`, 0.0: it was not.
    """

    name: str
    kind: str
    begun: int
    ended: int
    attributes: dict[str, Any]
    parent: int = OF_REQUEST
    events: list[Event] = field(default_factory=list)
    error: str = ""
    said: str = field(default="", repr=False)
    perhaps: Mapping[str, Any] | None = None
    usage: Mapping[str, Any] | None = None
    clock: _Clock | None = None
    times: Mapping[str, float] | None = None
    texts: CallTexts | None = field(default=None, repr=False)
    secrets: Collection[str] = field(default=(), repr=False)

    def finish(self, hidden: Iterable[str]) -> None:
        """Make it as it is sent: texts as attributes, nothing secret, and all of it text that UTF-8 can hold.
        `hidden`: secrets of the server."""
        if self.perhaps is not None:
            self.attributes.update({key: value for key, value in self.perhaps.items() if value})
        _put_usage(self.attributes, self.usage)
        if self.clock is not None and self.times is not None:
            self.events += _events(self.clock, self.times)
        if self.error:
            self.attributes[words.ERROR_TYPE] = self.error
        if self.said or self.events or self.texts is not None:
            mask = mask_of_run(self.secrets, hidden)
            self.said = without_halves(mask(self.said))
            for _, _, attributes in self.events:
                if words.MESSAGE in attributes:
                    attributes[words.MESSAGE] = without_halves(mask(attributes[words.MESSAGE]))
            if self.texts is not None:
                self.attributes.update(text_attributes(self.texts, mask))
                self.texts = None
        self.name = without_halves(self.name)
        for key, value in self.attributes.items():
            if value.__class__ is str:
                self.attributes[key] = without_halves(value)


class _Clock:
    """Times of a run as Unix nanoseconds: from the wall clock at its arrival on, whatever that clock does."""

    def __init__(self, run: RunTrace) -> None:
        self._wall = int(run.wall * 1e9) - int(run.arrived * 1e9)
        self._end = run.ended

    def __call__(self, monotonic: float) -> int:
        return self._wall + int(monotonic * 1e9)

    def end_of(self, begun: float, ended: float) -> int:
        """What has no end of its own ends with its run."""
        return self(max(begun, ended or self._end))


# --------------------------------------------------------------------------


@dataclass(slots=True)
class TraceSpans:
    """The spans of a run, that of the request first. `places`: id of a node -> index of its span; `calls`:
    identities of the calls that have one."""

    spans: list[SpanFacts]
    places: dict[int, int]
    calls: set[int]


def count_spans(run: RunTrace) -> int:
    """How many spans the trace of a run has."""
    return 1 + sum(1 + len(node.calls) for node in run.nodes)


def trace_of(run: RunTrace, *, with_texts: bool) -> TraceSpans:
    """The trace of a run that has ended. What is still being read ahead for the next turn is left out.
    `with_texts`: as far as the run keeps them."""
    clock, shows = _Clock(run), with_texts and run.keeps_text and not run.private
    made = TraceSpans([_request_span(run, clock, shows)], {}, set())
    for node in list(run.nodes):
        place = made.places[id(node)] = len(made.spans)
        parent = made.places.get(id(node.parent), OF_REQUEST)
        made.spans.append(_node_span(run, node, clock, parent))
        for call in list(node.calls):
            if call.ended or call.kind != "prefill":
                made.calls.add(id(call))
                made.spans.append(_call_span(run, node, call, clock, place, shows))
    return made


def late_spans(run: RunTrace, known: TraceSpans, *, with_texts: bool) -> list[SpanFacts]:
    """The calls that ended behind their run. Their parents are places in `known`."""
    if len(known.calls) == sum(len(node.calls) for node in list(run.nodes)):  # nearly every run
        return []
    clock, shows = _Clock(run), with_texts and run.keeps_text and not run.private
    return [
        _call_span(run, node, call, clock, known.places[id(node)], shows)
        for node in list(run.nodes)
        for call in list(node.calls)
        if call.ended and id(call) not in known.calls and id(node) in known.places
    ]


# --------------------------------------------------------------------------
# The request.


def workflow_name(run: RunTrace) -> str:
    """`<user>/<workflow>`; of one that was refused, as far as it is known."""
    return "/".join(filter(None, (run.user, run.answering or run.workflow)))


def _request_span(run: RunTrace, clock: _Clock, shows: bool) -> SpanFacts:
    name = workflow_name(run)
    attributes: dict[str, Any] = {
        words.OPERATION_NAME: words.INVOKE_WORKFLOW,
        words.REQUEST_ID: run.id,
        words.STATE: run.state,
    }
    perhaps = {
        words.WORKFLOW_NAME: run.answering or run.workflow,
        words.CONVERSATION_ID: "" if run.private else run.discussion,
        words.USER: run.user,
        words.ASKED_MODEL: run.model,
        words.FRONT: run.front,
        words.TASK: run.task,
        words.CANCELLED_BY: run.cancelled_by,
        words.STATUS_CODE: run.status,
        words.AGAIN_OF: run.again_of and run.again_of.id,
    }
    usage = run.whole_usage or run.all_usage
    if usage is not None:
        attributes[words.CALLS] = usage["calls"]
    span = SpanFacts(
        f"{words.INVOKE_WORKFLOW} {name}".rstrip(),
        words.SERVER,
        clock(run.arrived),
        clock.end_of(run.arrived, run.ended),
        attributes,
        perhaps=perhaps,
        usage=usage,
        clock=clock,
        times={words.FIRST_TEXT: run.first_text, words.ANSWERED: run.answered},
    )
    if run.state in _FAILED_RUNS:
        span.error, span.said = _kind_of_run(run), run.error
    if shows:
        span.texts = _texts_of(run)
    if span.said or shows:
        span.secrets = secrets_of(run)
    return span


def _texts_of(run: RunTrace) -> CallTexts:
    """What the client sent, and what it got."""
    body, left_out = kept_body(run.asked)
    node = answering_node(run)
    called = node is not None and isinstance(node.output, dict)
    answer = node.output if node is not None and called else answer_text(run)
    thoughts = () if node is None else tuple(node.thoughts)
    return CallTexts(body, left_out + run.asked_left_out, answer, thoughts, run.finish_reason or "")


def _kind_of_run(run: RunTrace) -> str:
    """That of the node that failed, else the status that its client was told."""
    kinds = (node.error_kind for node in reversed(run.nodes) if node.state == "failed")
    told = str(run.status) if run.status is not None and run.status >= 400 else ""
    return next(filter(None, kinds), told) or _UNKNOWN


# --------------------------------------------------------------------------
# A node.


def _node_span(run: RunTrace, node: NodeTrace, clock: _Clock, parent: int) -> SpanFacts:
    attributes: dict[str, Any] = {
        words.NODE_TYPE: node.type,
        words.NODE_NUMBER: node.number,
        words.NODE_STATE: node.state,
        words.NODE_WORKFLOW: node.workflow,
    }
    perhaps = {
        words.NODE_GROUP: node.group,
        words.NODE_ANSWERS: node.answers,
        words.NODE_STEPS: node.steps,
        words.NODE_LIMIT: node.limit,
    }
    begun, ended = clock(node.begun), clock.end_of(node.begun, node.ended)
    span = SpanFacts(
        node.title or node.type, words.INTERNAL, begun, ended, attributes, parent=parent, perhaps=perhaps
    )
    span.events = [(words.WARNING, ended, {words.MESSAGE: said}) for said in list(node.warnings)]
    if node.state in _FAILED_NODES:
        span.error, span.said = node.error_kind or node.state, node.error
    if span.said or span.events:
        span.secrets = secrets_of(run)
    return span


# --------------------------------------------------------------------------
# A call.


def _call_span(
    run: RunTrace, node: NodeTrace, call: CallTrace, clock: _Clock, parent: int, shows: bool
) -> SpanFacts:
    attributes: dict[str, Any] = {} if call.kind == "model" else {words.CALL_KIND: call.kind}
    perhaps = None
    if call.outcome != call.finish_reason:
        attributes[words.CALL_OUTCOME] = call.outcome
    if call.kind in _TO_MODELS or call.kind == "embedding":
        operation = words.EMBEDDINGS if call.kind == "embedding" else words.CHAT
        name = call.model or call.answered_by
        perhaps = _put_model_call(attributes, call)
    else:
        operation, name = words.EXECUTE_TOOL, call.tool or call.backend
        attributes[words.TOOL_NAME] = name
    attributes[words.OPERATION_NAME] = operation
    span = SpanFacts(
        f"{operation} {name}".rstrip(),
        words.CLIENT,
        clock(call.begun),
        clock.end_of(call.begun, call.ended),
        attributes,
        parent=parent,
        error=_kind_of_call(call),
        said=call.error,
        perhaps=perhaps,
        usage=call.usage if operation != words.EXECUTE_TOOL else None,
        clock=clock,
        times=_first_outputs(run, node, call),
        secrets=(*run.secrets, *call.secrets),
    )
    if shows:
        answer = call.raw if call.cleaned is None else call.cleaned
        finish, is_tool = call.finish_reason or "", operation == words.EXECUTE_TOOL
        span.texts = CallTexts(call.body, call.body_left_out, answer, tuple(call.thoughts), finish, is_tool)
    if not span.error:
        span.said = ""
    return span


def _put_model_call(attributes: dict[str, Any], call: CallTrace) -> dict[str, Any]:
    """Gives what is an attribute only if it is not empty."""
    provider, host, port = _server_of(call.url or call.address, call.backend)
    perhaps = {
        words.PROVIDER_NAME: provider,
        words.REQUEST_MODEL: call.model,
        words.RESPONSE_MODEL: call.answered_by,
        words.SERVER_ADDRESS: host,
        words.SERVER_PORT: port,
        words.CALL_ENDPOINT: call.endpoint,
        words.CALL_BACKUP_OF: call.backup_of,
        words.CALL_CHOSEN: call.chosen,
    }
    if call.tries > 1:
        attributes[words.CALL_TRIES] = call.tries
    if call.finish_reason:
        attributes[words.FINISH_REASONS] = (call.finish_reason,)
    if call.kind == "embedding":
        return perhaps
    attributes[words.REQUEST_STREAM] = call.stream
    if call.max_tokens:
        attributes[words.REQUEST_MAX_TOKENS] = call.max_tokens
    if call.first:
        attributes[words.FIRST_CHUNK_S] = call.first - call.begun
    for name, value in call.numbers.items():
        key = words.REQUEST_NUMBERS[name]
        if not abs(value) <= _MOST_COUNT:
            continue
        if key not in words.WHOLE_NUMBERS:
            attributes[key] = float(value)
        elif float(value).is_integer():
            attributes[key] = int(value)
    return perhaps


def _first_outputs(run: RunTrace, node: NodeTrace, call: CallTrace) -> dict[str, float]:
    """When its first thought and its first text came. Behind a thought the text of the call that answers is
    known alone: it is the client's."""
    thought, text = call.thought, 0.0 if call.thought else call.first
    if thought and node.answers and call is node.last_model_call and run.first_text >= thought:
        text = run.first_text
    return {words.FIRST_THOUGHT: thought, words.FIRST_TEXT: text}


def _kind_of_call(call: CallTrace) -> str:
    """Empty: it did not fail."""
    outcome = outcome_of(call)
    if outcome in KIND_STATUS:
        return outcome
    if outcome in _GOOD_ENDS or call.outcome in _GOOD_ENDS:
        return ""
    return call.outcome


@lru_cache(maxsize=256)
def _server_of(url: str, backend: str) -> tuple[str, str, int | None]:
    """The provider, and host and port of the address; nothing else of it."""
    host, port = _place(url)
    for end, provider in words.PROVIDER_OF_HOST.items():
        if host == end or host.endswith(f".{end}"):
            return provider, host, port
    return words.PROVIDER_OF_TYPE.get(backend, words.OTHER_PROVIDER), host, port


def _place(url: str) -> tuple[str, int | None]:
    """Host and port of an address; nothing else of it."""
    try:
        parts = urlsplit(url)
        port = parts.port or {"https": 443, "http": 80}.get(parts.scheme)
        return parts.hostname or "", port if parts.hostname else None
    except ValueError:
        return "", None


# --------------------------------------------------------------------------


def _put_usage(attributes: dict[str, Any], usage: Mapping[str, Any] | None) -> None:
    if not usage:
        return
    cached = cache_numbers(usage)
    counts = {
        words.INPUT_TOKENS: usage.get("prompt_tokens"),
        words.OUTPUT_TOKENS: usage.get("completion_tokens"),
        words.CACHE_READ_TOKENS: cached.get("cached_tokens"),
        words.CACHE_WRITE_TOKENS: cached.get("cache_write_tokens"),
    }
    attributes.update({key: count for key, count in counts.items() if _is_count(count)})


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _MOST_COUNT


def _events(clock: _Clock, times: Mapping[str, float]) -> list[Event]:
    """Those that came, in the order of their times."""
    came = sorted((time, name) for name, time in times.items() if time)
    return [(name, clock(time), {}) for time, name in came]
