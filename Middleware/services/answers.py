"""The facts of one answer: whose it is, what a whole one holds, its numbers, its tool calls in each shape.

Knows no framing: which JSON carries these facts is told in `response_builder_service.py`. Source: spec
frontend-api.md 10.2, 10.4, 10.6 and 11.4.
"""

from __future__ import annotations

import json
import logging
import time
import uuid
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from Middleware.common.request_context import NO_PROGRESS, AnswerState, current_request
from Middleware.common.types import Batch, JsonObject
from Middleware.utilities.model_json import object_of
from Middleware.utilities.text_utils import estimate_tokens

logger = logging.getLogger(__name__)

METRICS = (
    "total_duration",
    "load_duration",
    "prompt_eval_count",
    "prompt_eval_duration",
    "eval_count",
    "eval_duration",
)
REPORTED_TIMES = ("prompt_duration_ns", "completion_duration_ns")
"""The backend's own times, beside the counts of its usage."""
CACHE_COUNTS = ("cached_tokens", "cache_write_tokens")
"""How much of a prompt the backend still held, and how much of it was written to be held: beside the counts
of its usage, where it said so. Source: prompt-reuse.md 3.1."""

FINISH_REASONS = frozenset({"stop", "length", "tool_calls", "content_filter"})
CUTTING_REASONS = frozenset({"length", "content_filter"})
"""The answer may have ended in the middle, even of a tool call. A client that reads them asks again; one that
reads `tool_calls` runs what it was given."""


@dataclass(frozen=True, slots=True)
class AnswerFacts:
    """What every unit of one answer repeats.

    `arrived`, `started` (workflow): monotonic seconds; `created`: Unix seconds; `unmeasured`: no model was
    asked, so all numbers are 0. `prompt_estimate`: tokens of the question, where they are told first. `echo`:
    fields of the request that the answer repeats. `done`: called once with the final object. `sent`: a list
    that is given each text of a stream as it goes out. `workflow_usage()`: the sum over all calls of the run,
    None = no model was asked. `progress`: how the client is shown that a node starts.
    """

    request_id: str
    model: str
    created: int = field(default_factory=lambda: int(time.time()))
    include_usage: bool = False
    arrived: float = field(default_factory=time.monotonic)
    started: float = field(default_factory=time.monotonic)
    unmeasured: bool = False
    prompt_estimate: int = 0
    echo: JsonObject = field(default_factory=dict, repr=False)
    done: Callable[[JsonObject], object] | None = field(default=None, repr=False)
    sent: list[str] | None = field(default=None, repr=False)
    workflow_usage: Callable[[], JsonObject | None] | None = field(default=None, repr=False)
    progress: str = NO_PROGRESS

    def usage_beside(self) -> JsonObject:
        """`{"workflow_usage": {...}}`, to stand beside an answer's own numbers; empty: no model was asked."""
        usage = self.workflow_usage() if self.workflow_usage is not None else None
        return {} if usage is None else {"workflow_usage": usage}

    @classmethod
    def current(cls, request_id: str | None = None) -> AnswerFacts:
        """The facts of the current request; outside one: an empty model name."""
        request = current_request()
        if request is None:
            return cls(request_id or str(uuid.uuid4()), "")
        return cls(request_id or request.request_id, request.model_name, arrived=request.arrived)


def steps_of(batch: Batch) -> list[JsonObject]:
    """The nodes that a batch says start: `{"number", "of", "title", "depth"}`. Empty: it says something
    else, or nothing. Source: more-fronts.md 8.
    """
    return [chunk["progress"] for chunk in batch if "progress" in chunk]


def step_line(step: JsonObject) -> str:
    """`[2/5] Recall`, without its depth and without a line end."""
    return f"[{step['number']}/{step['of']}] {step['title']}"


@dataclass(slots=True)
class Pace:
    """When output went by, monotonic seconds: for the durations of an answer."""

    first: float | None = None
    last: float | None = None

    def mark(self) -> None:
        self.last = time.monotonic()
        if self.first is None:
            self.first = self.last

    def metrics(
        self, facts: AnswerFacts, usage: JsonObject, reported: JsonObject | None = None
    ) -> JsonObject:
        """Ollama's six numbers, in the order of its own server, and how much of the prompt was held, where
        that is known. Durations in nanoseconds, at least 1.

        `reported`: what the backend told; its own times are the true ones. An answer that came in one piece
        took all the time since the workflow started."""
        if facts.unmeasured:
            return dict.fromkeys(METRICS, 0)
        now = time.monotonic()
        first = now if self.first is None else self.first
        last = now if self.last is None else self.last
        began = first if last > first else facts.started
        times = {name: _count((reported or {}).get(name)) for name in REPORTED_TIMES}
        held = cache_numbers(reported).get("cached_tokens")
        return {
            "total_duration": _nanoseconds(now - facts.arrived),
            "load_duration": _nanoseconds(facts.started - facts.arrived),
            "prompt_eval_count": usage["prompt_tokens"],
            **({} if held is None else {"prompt_eval_cached_count": held}),
            "prompt_eval_duration": times[REPORTED_TIMES[0]] or _nanoseconds(first - facts.started),
            "eval_count": usage["completion_tokens"],
            "eval_duration": times[REPORTED_TIMES[1]] or _nanoseconds(last - began),
        }


def _nanoseconds(seconds: float) -> int:
    return max(1, int(seconds * 1e9))


@dataclass(slots=True)
class WholeAnswer:
    """A complete answer.

    `tool_calls`: OpenAI shape, complete calls; `usage`: as the finish chunk gave it, or None.
    """

    text: str = ""
    thinking: str = ""
    tool_calls: list[JsonObject] = field(default_factory=list)
    finish_reason: str = "stop"
    usage: JsonObject | None = None
    pace: Pace = field(default_factory=Pace)


class AnswerCollector:
    """Batches of a run -> one `WholeAnswer`. Only what comes up to the finish chunk counts. `state`: how far
    it is; its own where none is given."""

    def __init__(self, state: AnswerState | None = None) -> None:
        self.state = AnswerState() if state is None else state
        self._texts: list[str] = []
        self._thoughts: list[str] = []
        self._calls = ToolCallCollector()
        self._finish: str | None = None
        self._usage: JsonObject | None = None
        self._pace = Pace()

    def add(self, batch: Batch) -> bool:
        """True when the answer is complete."""
        for chunk in batch:
            if chunk["token"]:
                self._texts.append(chunk["token"])
            if thinking := chunk.get("thinking"):
                self._thoughts.append(thinking)
            self._calls.add(chunk.get("tool_calls") or ())
            self._usage = chunk.get("usage") or self._usage
            if chunk["finish_reason"] is not None:
                self._finish = chunk["finish_reason"]
                self.state.finish(is_last=chunk.get("last", False))
                break
        if batch:
            self._pace.mark()
        return self.state.sent

    def answer(self) -> WholeAnswer:
        calls = self._calls.complete(self._finish)
        reason = client_finish_reason(self._finish, bool(calls))
        text, thinking = "".join(self._texts), "".join(self._thoughts)
        return WholeAnswer(text, thinking, calls, reason, self._usage, self._pace)


class ToolCallCollector:
    """Tool-call fragments by index -> complete calls.

    A name overwrites, text is appended, an object replaces. `with_extras`: other keys of a call stay with it
    (Gemini's `extra_content`).
    """

    def __init__(self, *, with_extras: bool = False) -> None:
        self._calls: dict[Any, JsonObject] = {}
        self._with_extras = with_extras

    def __bool__(self) -> bool:
        return bool(self._calls)

    def add(self, fragments: Iterable[Any]) -> None:
        for fragment in fragments:
            if not isinstance(fragment, dict):
                continue
            key = fragment.get("index")
            call = self._calls.setdefault(
                ("given", len(self._calls)) if key is None else key,
                {"id": None, "name": "", "arguments": "", "extras": {}},
            )
            if self._with_extras:
                call["extras"].update(
                    (name, value) for name, value in fragment.items() if name not in _OF_A_CALL
                )
            function = fragment.get("function")
            function = function if isinstance(function, dict) else {}
            call["id"] = fragment.get("id") or call["id"]
            call["name"] = function.get("name") or call["name"]
            arguments = function.get("arguments")
            if isinstance(arguments, str) and isinstance(call["arguments"], str):
                call["arguments"] += arguments
            elif arguments is not None:
                call["arguments"] = arguments

    def complete(self, reason: str | None = None) -> list[JsonObject]:
        """OpenAI shape, without `index`: `{"id", "type": "function", "function":
        {"name", "arguments": text}}`.

        `reason`: how the answer ended. Calls that it may have cut are left out.
        """
        calls = [
            {
                "id": call["id"] or f"call_{uuid.uuid4().hex[:24]}",
                "type": "function",
                "function": {"name": call["name"], "arguments": _as_text(call["arguments"])},
                **call["extras"],
            }
            for call in self._calls.values()
        ]
        return finished_calls(calls, reason)


_OF_A_CALL = frozenset(("index", "id", "type", "function"))


def _as_text(arguments: Any) -> str:
    return arguments if isinstance(arguments, str) else compact_json(arguments)


def finished_calls(calls: Iterable[JsonObject], reason: str | None) -> list[JsonObject]:
    """Of calls in OpenAI shape those that came whole, with `{}` for empty arguments.

    An answer that was cut (`CUTTING_REASONS`) keeps only calls whose arguments are a JSON object.
    """
    if reason in CUTTING_REASONS:
        return [call for call in calls if not is_cut_call(call)]
    for call in calls:
        if not call["function"]["arguments"].strip():
            call["function"]["arguments"] = "{}"
    return list(calls)


def is_cut_call(call: JsonObject) -> bool:
    """Whether a call in OpenAI shape has arguments that are no whole JSON object."""
    return object_of(call["function"]["arguments"]) is None


def compact_json(value: Any) -> str:
    """JSON as the house writes it to clients: no blanks, UTF-8 not escaped, order kept."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def whole_openai_calls(calls: Iterable[Any]) -> list[JsonObject]:
    """Calls of a whole answer in OpenAI shape: ids always there, arguments always text, no `index`.

    Idempotent.
    """
    collector = ToolCallCollector()
    collector.add({k: v for k, v in call.items() if k != "index"} for call in calls if isinstance(call, dict))
    return collector.complete()


def ollama_calls(calls: Iterable[Any]) -> list[JsonObject]:
    """Calls in Ollama shape: `{"id", "function": {"index", "name", "arguments": object}}`. Idempotent.

    Empty arguments are `{}`. A call whose arguments are no object is left out with a warning, entries that
    are no objects without one.
    """
    shaped: list[JsonObject] = []
    for call in calls:
        if not isinstance(call, dict):
            continue
        function = call.get("function")
        function = function if isinstance(function, dict) else {}
        arguments = arguments_object(function.get("arguments"))
        if arguments is None:
            continue
        place = {"index": function.get("index", len(shaped)), "name": function.get("name") or ""}
        made: JsonObject = {"function": {**place, "arguments": arguments}}
        shaped.append({"id": call["id"], **made} if call.get("id") else made)
    return shaped


def arguments_object(arguments: Any) -> JsonObject | None:
    """The arguments of a call as an object, empty ones as `{}`.

    None, with a warning, for what is none: a tool that is run with `{}` in the place of its arguments does
    something that nobody asked for.
    """
    if arguments is None or (isinstance(arguments, str) and not arguments.strip()):
        return {}
    value = object_of(arguments) if isinstance(arguments, str) else arguments
    if isinstance(value, dict):
        return value
    logger.warning("a tool call was left out of the answer, because its arguments are not a JSON object")
    return None


def client_finish_reason(reason: str | None, has_tool_calls: bool) -> str:
    """One of `FINISH_REASONS`: one that cuts the answer stays, else `tool_calls` when any was sent; what a
    client does not know is `stop`."""
    if reason in CUTTING_REASONS:
        return str(reason)
    if has_tool_calls:
        return "tool_calls"
    return reason if reason in FINISH_REASONS and reason != "tool_calls" else "stop"


def ollama_done_reason(reason: str) -> str:
    """`length` on a token limit, else `stop`."""
    return "length" if reason == "length" else "stop"


def usage_numbers(usage: JsonObject | None, text: str) -> dict[str, int]:
    """The three numbers, never absent: reported ones, else 0 for the prompt and an estimate of `text`."""
    usage = usage or {}
    prompt, completion = _count(usage.get("prompt_tokens")), _count(usage.get("completion_tokens"))
    prompt = 0 if prompt is None else prompt
    completion = estimate_tokens(text) if completion is None else completion
    return {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion}


def cache_numbers(usage: Mapping[str, Any] | None) -> dict[str, int]:
    """`cached_tokens` and `cache_write_tokens`, each only where a backend said it: unknown is not 0."""
    told = usage or {}
    return {name: count for name in CACHE_COUNTS if (count := _count(told.get(name))) is not None}


def openai_usage_object(usage: JsonObject | None, text: str) -> JsonObject:
    """`usage` as OpenAI's clients read it: the three numbers, and what is known of the cache beside them."""
    numbers, cache = usage_numbers(usage, text), cache_numbers(usage)
    return {**numbers, "prompt_tokens_details": cache} if cache else dict(numbers)


def full_usage(
    usage: JsonObject | None, said: Callable[[], str], prompt_tokens: Callable[[], int] | None
) -> JsonObject:
    """What a backend reported, with estimates in place of the counts that it did not give.

    `said()`: all that the model wrote; `prompt_tokens()`: estimate of the prompt, None = no model was called.
    Source: frontend-api.md 10.6.
    """
    full = dict(usage or {})
    if _count(full.get("prompt_tokens")) is None:
        full["prompt_tokens"] = prompt_tokens() if prompt_tokens else 0
    if _count(full.get("completion_tokens")) is None:
        full["completion_tokens"] = estimate_tokens(said())
    if _count(full.get("total_tokens")) is None:
        full["total_tokens"] = full["prompt_tokens"] + full["completion_tokens"]
    return full


def _count(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None
