"""The numbers of this process in Prometheus' text: an observer of runs that counts.

The only place that knows `prometheus_client`. Every application has a registry of its own. With
`PROMETHEUS_MULTIPROC_DIR` set the numbers of all processes that share the folder are shown together. Labels
are names of the configuration and of loaded models, and our own words, never what a client wrote, and their
number is bounded.
Source: docs/metrics.md.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, TypeVar

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector
from prometheus_client.exposition import choose_encoder
from prometheus_client.multiprocess import MultiProcessCollector

from Middleware.api.wsgi.doors import on_one_line
from Middleware.common.constants import VERSION
from Middleware.common.costs import MILLION
from Middleware.common.errors import KIND_STATUS
from Middleware.common.secrets import shown_url
from Middleware.services.answers import FINISH_REASONS, cache_numbers
from Middleware.services.node_trace import CallTrace, NodeTrace
from Middleware.services.run_trace import RunTrace

SHARED_FOLDER = "PROMETHEUS_MULTIPROC_DIR"
MOST_NAMES = 200
"""So many pairs of user and workflow, so many endpoints and addresses have series of their own."""
OTHER = "other"

_SECONDS = (0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300)
_READING = (*_SECONDS, 600, 1200)
_WAITS = (0.01, 0.1, 0.5, 1, 5, 10, 30, 60, 300, 900)
_ENDS = FINISH_REASONS | {"cancelled", "closed"}
_TO_BACKENDS = ("model", "embedding")
_SAME = {"dropped": "closed", "error": "stream_error"}
_WHO = {
    "the client hung up": "hung_up",
    "DELETE": "delete",
    "a newer request with its key": "newer_request",
    "the console": "console",
    "the server stops": "server_stops",
}


_Mode = Literal["livesum", "livemax", "livemostrecent"]
_Metric = TypeVar("_Metric", Counter, Histogram)


class _Bounded:
    """Values of labels while there are few of them; those that come later are `other`.

    What is no letter of a line becomes `?`: readers of the format cut it into lines at more than line feeds.
    """

    def __init__(self, most: int = MOST_NAMES) -> None:
        self._most = most
        self._known: dict[tuple[str, ...], tuple[str, ...]] = {}

    def __call__(self, *names: str) -> tuple[str, ...]:
        shown = self._known.get(names)
        if shown is None:
            if len(self._known) >= self._most:
                return (OTHER,) * len(names)
            shown = self._known[names] = tuple(map(on_one_line, names))
        return shown


class _Series:
    """The series of a metric, by its labels: remembered here, because the library looks them up slowly."""

    def __init__(self) -> None:
        self._known: dict[tuple[Any, ...], Any] = {}

    def __call__(self, metric: _Metric, *labels: str) -> _Metric:
        series: _Metric | None = self._known.get((metric, labels))
        if series is None:
            series = self._known[metric, labels] = metric.labels(*labels)
        return series


class _Maker:
    """Makes series. `registry`: where they are counted."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._registry = registry

    def counter(self, name: str, text: str, *labels: str) -> Counter:
        return Counter(name, text, labels, registry=self._registry)

    def histogram(self, name: str, text: str, buckets: tuple[float, ...], *labels: str) -> Histogram:
        return Histogram(name, text, labels, buckets=buckets, registry=self._registry)

    def gauge(
        self,
        name: str,
        text: str,
        *labels: str,
        mode: _Mode = "livesum",
    ) -> Gauge:
        """`mode`: how the values of several processes become one."""
        return Gauge(name, text, labels, registry=self._registry, multiprocess_mode=mode)


_STEPS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 64, 100)
_OF_TOOLS = frozenset(("ok", "failed", "timeout", "refused"))


class _OfAgents:
    """Agents and the tools that they call."""

    def __init__(self, make: _Maker) -> None:
        self.steps = make.histogram(
            "headrace_agent_steps", "How many times an agent asked its model.", _STEPS
        )
        self.calls = make.counter(
            "headrace_tool_calls_total", "Calls of tools by agents that ended.", "tool", "outcome"
        )


class _OfServer:
    """The process, its slots and its queue."""

    def __init__(self, make: _Maker) -> None:
        self.build = make.gauge("headrace_build_info", "Running processes, by version.", "version")
        self.slots = make.gauge(  # the processes have them in common
            "headrace_slots",
            "Requests that can run at once (--concurrency); 0 means no limit.",
            mode="livemax",
        )
        self.running = make.gauge("headrace_requests_running", "Generation requests that hold a slot.")
        self.waiting = make.gauge("headrace_queue_length", "Generation requests that are waiting for a slot.")
        self.wait = make.histogram("headrace_queue_wait_seconds", "Time from arrival to the slot.", _WAITS)


class _OfRuns:
    """Requests and their answers, by user and workflow."""

    def __init__(self, make: _Maker) -> None:
        run = ("user", "workflow")
        self.requests = make.counter(
            "headrace_requests_total", "Generation requests that ended.", *run, "front", "outcome"
        )
        self.cancelled = make.counter(
            "headrace_cancellations_total", "Requests that were cancelled.", *run, "by"
        )
        self.first = make.histogram(
            "headrace_first_token_seconds", "Time from arrival to the first text.", _SECONDS, *run
        )
        self.seconds = make.histogram(
            "headrace_answer_seconds", "Time from arrival to the whole answer.", _SECONDS, *run
        )
        self.tokens = make.counter(
            "headrace_answer_tokens_total", "Tokens as reported to clients.", *run, "kind"
        )
        self.all_tokens = make.counter(
            "headrace_workflow_tokens_total", "Tokens of all calls behind the answers.", *run, "kind"
        )
        self.all_calls = make.counter(
            "headrace_workflow_calls_total",
            "Calls to models that gave an answer, as reported to clients.",
            *run,
        )


class _OfBackends:
    """Calls to backends, by endpoint."""

    def __init__(self, make: _Maker) -> None:
        self.calls = make.counter(
            "headrace_backend_calls_total", "Calls to backends that ended.", "endpoint", "kind", "outcome"
        )
        self.at_addresses = make.counter(
            "headrace_address_calls_total",
            "Calls to endpoints with several addresses that ended, by address.",
            "endpoint",
            "address",
            "outcome",
        )
        self.errors = make.counter(
            "headrace_backend_errors_total", "Calls to backends that failed.", "endpoint", "error"
        )
        self.seconds = make.histogram(
            "headrace_backend_seconds", "Time from the start of a call to its end.", _SECONDS, "endpoint"
        )
        self.first = make.histogram(
            "headrace_backend_first_output_seconds",
            "Time from the start of a call to the first piece of its stream.",
            _SECONDS,
            "endpoint",
        )
        self.tokens = make.counter(
            "headrace_backend_tokens_total", "Tokens as reported by backends.", "endpoint", "kind"
        )
        self.prompt_tokens = make.counter(
            "headrace_prompt_tokens_total",
            "Tokens of prompts, by whether the backend still held them, where it says so.",
            "endpoint",
            "held",
        )
        self.cost = make.counter(
            "headrace_cost_total",
            "What calls to endpoints with a price have cost, in units of the currency.",
            "user",
            "endpoint",
            "currency",
        )
        self.loaded = make.gauge(
            "headrace_model_loaded",
            "Models that servers had loaded when the console asked last; 0: no more.",
            "endpoint",
            "model",
            mode="livemostrecent",
        )
        self.prompt_seconds = make.histogram(
            "headrace_prompt_seconds", "Time that backends took to read a prompt.", _READING, "endpoint"
        )


class _OfKeys:
    """What keys of the keys file do, by their names in it."""

    def __init__(self, make: _Maker) -> None:
        self._make = make
        self._wrong: Counter | None = None
        self.requests = make.counter(
            "headrace_key_requests_total",
            "Counted requests of keys that ended or were refused.",
            "key",
            "outcome",
        )
        self.refused = make.counter(
            "headrace_key_refused_total", "Requests that were over a limit of their key.", "key", "limit"
        )
        self.tokens = make.counter(
            "headrace_key_tokens_total", "Tokens of all calls for requests of keys.", "key", "kind"
        )

    @property
    def wrong(self) -> Counter:
        """Made when it is needed: without keys there is no such number."""
        if self._wrong is None:
            self._wrong = self._make.counter(
                "headrace_wrong_keys_total", "Requests that came with a key that is none."
            )
        return self._wrong


@contextmanager
def _shared_folder() -> Iterator[None]:
    """The library opens files there as soon as there is something to count. Raises SystemExit."""
    folder = os.environ.get(SHARED_FOLDER)
    try:
        if folder:
            Path(folder).mkdir(parents=True, exist_ok=True)
        yield
    except OSError as error:
        raise SystemExit(f"{SHARED_FOLDER} must name a folder that can be written to: {error}") from error


class Metrics:
    """Counts the runs that it observes. `slots`: how many may run at once, 0 = any number.

    Raises SystemExit, one sentence, when the folder that processes share cannot be used.
    """

    keeps_text = False

    def __init__(self, slots: int = 0) -> None:
        self.registry = CollectorRegistry()
        make = _Maker(self.registry)
        with _shared_folder():
            self._server, self._runs, self._backends = _OfServer(make), _OfRuns(make), _OfBackends(make)
            self._agents = _OfAgents(make)
            self._keys = _OfKeys(make)
            self._server.build.labels(VERSION).set(1)
        self._server.slots.set(slots)
        self._run_names, self._endpoints, self._series = _Bounded(), _Bounded(), _Series()
        self._addresses, self._payers, self._models = _Bounded(), _Bounded(), _Bounded()
        self._tools = _Bounded()
        self._loaded: set[tuple[str, ...]] = set()
        if not os.environ.get(SHARED_FOLDER):
            ProcessCollector(registry=self.registry)
        self._acts: dict[str, Callable[[RunTrace, NodeTrace | None], None]] = {
            "arrived": self._count_arrival,
            "begun": self._count_start,
            "first_text": self._first_text,
            "answered": self._count_first_text,
            "call_ended": self._call_ended,
            "node_ended": self._node_ended,
            "ended": self._count_end,
        }

    @property
    def changes(self) -> Collection[str]:
        """What it counts."""
        return self._acts.keys()

    def note_loaded(self, models: Iterable[tuple[str, str]]) -> None:
        """`(endpoint, model)` of all that is loaded now."""
        now = {self._models(*one) for one in models}
        for gone in self._loaded - now:
            self._backends.loaded.labels(*gone).set(0)
        for labels in now:
            self._backends.loaded.labels(*labels).set(1)
        self._loaded = now

    def note_key_refusal(self, key: str, limit: str) -> None:
        """A request was over this limit of its key."""
        self._series(self._keys.requests, key, "refused").inc()
        self._series(self._keys.refused, key, limit).inc()

    def note_key_request(self, key: str, outcome: str, prompt: int, completion: int) -> None:
        """A counted request of a key has ended. `prompt`, `completion`: tokens of all its calls."""
        self._series(self._keys.requests, key, outcome).inc()
        for kind, count in (("prompt", prompt), ("completion", completion)):
            if count:
                self._series(self._keys.tokens, key, kind).inc(count)

    def note_wrong_key(self) -> None:
        """A request came with a key that is none."""
        self._keys.wrong.inc()

    def exposition(self, accept: str = "") -> tuple[str, bytes]:
        """`(content type, body)` for a request whose `Accept` is this."""
        registry = self.registry
        if os.environ.get(SHARED_FOLDER):
            registry = CollectorRegistry()
            MultiProcessCollector(registry)  # type: ignore[no-untyped-call]
        encoder, content_type = choose_encoder(accept)
        return content_type, encoder(registry)

    def note_change(self, run: RunTrace, what: str, node: NodeTrace | None) -> None:
        act = self._acts.get(what)
        if act is not None:
            act(run, node)

    def _of(self, run: RunTrace) -> tuple[str, ...]:
        return self._run_names(run.user, run.answering or run.workflow)

    def _count_arrival(self, run: RunTrace, node: NodeTrace | None) -> None:
        self._server.waiting.inc()

    def _count_start(self, run: RunTrace, node: NodeTrace | None) -> None:
        self._server.waiting.dec()
        self._server.running.inc()
        self._server.wait.observe(run.begun - run.arrived)

    def _first_text(self, run: RunTrace, node: NodeTrace | None) -> None:
        self._series(self._runs.first, *self._of(run)).observe(run.first_text - run.arrived)

    def _count_first_text(self, run: RunTrace, node: NodeTrace | None) -> None:
        self._series(self._runs.seconds, *self._of(run)).observe(run.answered - run.arrived)

    def _count_end(self, run: RunTrace, node: NodeTrace | None) -> None:
        self._leave_queue(run)
        numbers, names = self._runs, self._of(run)
        self._series(numbers.requests, *names, run.front, run.state).inc()
        if run.state == "cancelled":
            self._series(numbers.cancelled, *names, _WHO.get(run.cancelled_by, OTHER)).inc()
        for kind in ("prompt", "completion"):
            count = _tokens(run.usage, kind)
            if count:
                self._series(numbers.tokens, *names, kind).inc(count)
            if run.all_usage is not None:
                self._series(numbers.all_tokens, *names, kind).inc(run.all_usage[f"{kind}_tokens"])
        if run.all_usage is not None:
            self._series(numbers.all_calls, *names).inc(run.all_usage["calls"])

    def _leave_queue(self, run: RunTrace) -> None:
        """It has its slot, or its place in the queue, no more."""
        if run.begun:
            self._server.running.dec()
        else:
            self._server.waiting.dec()
            self._server.wait.observe(run.ended - run.arrived)

    def _node_ended(self, run: RunTrace, node: NodeTrace | None) -> None:
        """A node's calls are counted when it ends: they all have ended then."""
        for call in node.calls if node is not None else ():
            if call.kind in _TO_BACKENDS:
                self._call(run, call)
            elif call.tool is not None:
                self._count_tool_call(call.tool, call.outcome)
        if node is not None and node.steps:
            self._agents.steps.observe(node.steps)

    def _count_tool_call(self, tool: str, outcome: str) -> None:
        """One that was cancelled came to nothing, and is not counted. What a model made up is `other`."""
        told = "ok" if outcome == "done" else outcome
        if told in _OF_TOOLS:
            [name] = self._tools(tool) if tool else (OTHER,)
            self._series(self._agents.calls, name, told).inc()

    def _call_ended(self, run: RunTrace, node: NodeTrace | None) -> None:
        """A prompt that is read ahead is so before the node begins or when it has ended."""
        if node is not None and node.calls and (call := node.calls[-1]).kind == "prefill":
            self._call(run, call)

    def _call(self, run: RunTrace, call: CallTrace) -> None:
        numbers, [endpoint], outcome = self._backends, self._endpoints(call.endpoint), outcome_of(call)
        self._series(numbers.calls, endpoint, call.kind, outcome).inc()
        if call.address:
            place = self._addresses(call.endpoint, shown_url(call.address))
            self._series(numbers.at_addresses, *place, outcome).inc()
        if outcome in KIND_STATUS:
            self._series(numbers.errors, endpoint, outcome).inc()
        if call.ended:
            self._series(numbers.seconds, endpoint).observe(call.ended - call.begun)
        if call.first:
            self._series(numbers.first, endpoint).observe(call.first - call.begun)
        for kind in ("prompt", "completion"):
            count = _tokens(call.usage, kind)
            if count:
                self._series(numbers.tokens, endpoint, kind).inc(count)
        self._count_prompt(call, endpoint)
        if call.cost is not None:
            payer = self._payers(run.user, call.endpoint, call.cost.currency)
            self._series(numbers.cost, *payer).inc(call.cost.millionths / MILLION)

    def _count_prompt(self, call: CallTrace, endpoint: str) -> None:
        """What the backend held of it and what it read, and for how long. What it did not say is not 0."""
        numbers = self._backends
        held = cache_numbers(call.usage).get("cached_tokens")
        if held is not None:
            read = max(0, _tokens(call.usage, "prompt") - held)
            self._series(numbers.prompt_tokens, endpoint, "yes").inc(held)
            self._series(numbers.prompt_tokens, endpoint, "no").inc(read)
        if call.prompt_s is not None:
            self._series(numbers.prompt_seconds, endpoint).observe(call.prompt_s)


def outcome_of(call: CallTrace) -> str:
    """How a call ended, in one of few words: a finish reason, `cancelled`, `closed`, a kind of failure."""
    outcome = _SAME.get(call.outcome, call.outcome)
    if call.kind == "embedding" and outcome.endswith(" texts"):
        return "stop"
    return outcome if outcome in _ENDS or outcome in KIND_STATUS else OTHER


def _tokens(usage: object, kind: str) -> int:
    """A number that a backend reported; anything that is no count is 0."""
    count = usage.get(f"{kind}_tokens") if isinstance(usage, dict) else None
    return count if isinstance(count, int) and count > 0 else 0
