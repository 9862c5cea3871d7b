"""What is true for one client request, made at the edge and passed down. Never a module global.

The context variable mirrors it for log lines and for names that are called without it (spec frontend-api.md
1); threads that work for a request run in a copied context (`contextvars.copy_context()`).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

from Middleware.common.asker import ANYBODY, Asker
from Middleware.common.costs import Cost, CostSum, amounts_of
from Middleware.common.types import JsonObject, Messages


def _nothing() -> None:
    """Default of `RequestContext.setup_done`."""


NO_PROGRESS = "off"
"""Value of `progressOutput`: clients are not shown which node runs."""


class EndpointReach:
    """Whether the first backend that a request calls could be reached. Told by the call, asked by the edge.

    `missing`: a connection to it failed, and none has been made since the request began.
    """

    __slots__ = ("_made", "missing")

    def __init__(self) -> None:
        self.missing = self._made = False

    def note_failure(self) -> None:
        self.missing = not self._made

    def note_success(self) -> None:
        self._made, self.missing = True, False


class AnswerState:
    """How far the one answer of a request is: told where that happens, asked wherever its batches pass.

    `begun`: something of it has left its node. `complete`: its finish chunk has. `sent`: whoever writes or
    gathers it for the client has had the finish chunk. `is_last`: no node runs after it. `over`: the run
    ended or failed before it was complete.
    """

    __slots__ = ("begun", "complete", "is_last", "over", "sent")

    def __init__(self) -> None:
        self.begun = self.complete = self.sent = self.is_last = self.over = False

    def finish(self, *, is_last: bool) -> None:
        """The finish chunk goes to the client now."""
        self.sent, self.is_last = True, is_last


class UsageSum:
    """What all calls to generation backends took that gave an answer. Calls that run at the same time may
    add; whoever frames the answer asks. Once it is closed, what more calls take is in `all_numbers` alone.
    Source: more-fronts.md 9.
    """

    __slots__ = ("_calls", "_closed", "_completion", "_cost", "_guard", "_held", "_prompt", "_told")

    def __init__(self) -> None:
        self._prompt = self._completion = self._calls = 0
        self._cost = CostSum()
        self._held: int | None = 0
        self._closed = False
        self._told: JsonObject | None = None
        self._guard = threading.Lock()

    def add(self, usage: Mapping[str, Any], cost: Cost | None = None) -> None:
        """One call; `usage` has `prompt_tokens` and `completion_tokens`, and `cached_tokens` if its backend
        said how much of the prompt it held. `cost`: None: its endpoint has no price."""
        held = usage.get("cached_tokens")
        with self._guard:
            self._prompt += usage["prompt_tokens"]
            self._completion += usage["completion_tokens"]
            self._held = None if self._held is None or held is None else self._held + held
            self._calls += 1
            self._cost.add(cost)

    def close(self) -> None:
        """The answer is complete: calls of the nodes after it are not its price."""
        with self._guard:
            if not self._closed:
                self._closed, self._told = True, self._numbers()

    def numbers(self) -> JsonObject | None:
        """`{"prompt_tokens", "completion_tokens", "calls"}`, in this order, `cached_tokens` if that is
        known of all calls, and `cost` if any of them has a price; None: no model has answered."""
        with self._guard:
            return self._told if self._closed else self._numbers()

    def all_numbers(self) -> JsonObject | None:
        """The same, with the calls of the nodes after the answer."""
        with self._guard:
            return self._numbers()

    def _numbers(self) -> JsonObject | None:
        """The lock is held."""
        if not self._calls:
            return None
        return {
            "prompt_tokens": self._prompt,
            "completion_tokens": self._completion,
            "calls": self._calls,
            **({} if self._held is None else {"cached_tokens": self._held}),
            **({"cost": amounts_of(costs)} if (costs := self._cost.costs()) else {}),
        }


_MOST_SHOWN = 200
"""Letters of a client's name in logs."""


def shown_name(name: str) -> str:
    """A client's name for logs and traces, on one line."""
    shown = name[:_MOST_SHOWN]
    if shown.isprintable():
        return shown
    return "".join(letter if letter.isprintable() else "?" for letter in shown)


RAW = "raw/"
"""Begins the name of an endpoint that is asked without a workflow, behind `<user>:`. No workflow's name has a
slash."""


def target_name(user: str, workflow: str | None = None, endpoint: str = "") -> str:
    """The model name of a user, of one of its workflows, or of one of its endpoints."""
    if endpoint:
        return f"{user}:{RAW}{endpoint}"
    return f"{user}:{workflow}" if workflow else user


@dataclass(frozen=True, slots=True)
class RequestContext:
    """One client request.

    `snapshot` is the consistent view of the config tree that the request began with (a `ConfigSnapshot`;
    `common` does not look into it). `setup_done()` is called, any number of times, before the request begins
    to wait for a backend; `reach` says whether its first one is there; `answer`: how far the answer is;
    `usage`: what its calls took, as the client is told it; `spent`: what all of them cost, those behind the
    answer and embeddings too.
    `workflow_folder` is the shared workflow folder that the model field picked; `raw_endpoint`: the endpoint
    that answers without a workflow, empty: a workflow does; `alias`: the client's name for any of this, where
    it is none of ours; `fell_back`: nobody has the name that was asked, and the user's default answers.
    `progress`: how the client is shown that a node starts, `NO_PROGRESS`: not at all.
    `trace`: what the run does, for whoever observes it (a `RunTrace`; None: nobody does). `node`: whose
    script runs (a `TracedNode`), for the calls to models that it makes; else None.
    """

    request_id: str
    user: str
    api_type: str
    api_key: str | None = field(default=None, repr=False)
    workflow_folder: str | None = None
    raw_endpoint: str = ""
    alias: str = field(default="", repr=False)
    fell_back: bool = False
    asker: Asker = field(default=ANYBODY, repr=False)
    privacy: bool = False
    suppress_reasoning: bool = False
    task: str | None = None
    include_usage: bool = False
    progress: str = NO_PROGRESS
    snapshot: Any = field(default=None, repr=False)
    arrived: float = field(default_factory=time.monotonic)
    setup_done: Callable[[], None] = field(default=_nothing, repr=False)
    trace: Any = field(default=None, repr=False, compare=False)
    node: Any = field(default=None, repr=False, compare=False)
    reach: EndpointReach = field(default_factory=EndpointReach, repr=False, compare=False)
    answer: AnswerState = field(default_factory=AnswerState, repr=False, compare=False)
    usage: UsageSum = field(default_factory=UsageSum, repr=False, compare=False)
    spent: CostSum = field(default_factory=CostSum, repr=False, compare=False)

    @property
    def model_name(self) -> str:
        """The name that answers carry: the client's own if it is an alias; else `<user>:<workflow>` or
        `<user>:raw/<endpoint>` while one was picked, else `<user>`.
        """
        return self.alias or self._target_name

    @property
    def _target_name(self) -> str:
        return target_name(self.user, self.workflow_folder, self.raw_endpoint)

    @property
    def resolved_name(self) -> str:
        """The name for logs and traces, on one line: `claude-sonnet-4-5 -> coder` for an alias."""
        if not self.alias:
            return self._target_name
        return f"{shown_name(self.alias)} -> {self._target_name}"

    def beside(self) -> RequestContext:
        """The same for work that is done beside the request: what it is told and asked of that work concerns
        it no more."""
        return replace(
            self,
            setup_done=_nothing,
            trace=None,
            node=None,
            reach=EndpointReach(),
            answer=AnswerState(),
            usage=UsageSum(),
        )


_CURRENT: ContextVar[RequestContext | None] = ContextVar("request", default=None)


def current_request() -> RequestContext | None:
    return _CURRENT.get()


@contextmanager
def enter_request(request: RequestContext) -> Iterator[RequestContext]:
    """Inside the block `request` is the current one."""
    token = _CURRENT.set(request)
    try:
        yield request
    finally:
        _CURRENT.reset(token)


# --------------------------------------------------------------------------
# What a client asked, as one value: made at the edge and handed on as it is, down to the backend.


WISH_NAMES = (
    "max_tokens",
    "stop",
    "temperature",
    "top_p",
    "top_k",
    "min_p",
    "seed",
    "presence_penalty",
    "frequency_penalty",
    "repetition_penalty",
    "logit_bias",
    "response_format",
    "parallel_tool_calls",
)
"""What a node can take of a client's own parameters (`clientParameters`). Source: more-fronts.md 13."""


@dataclass(frozen=True, slots=True, repr=False)
class Wish:
    """One parameter as the client sent it, not looked at yet. `field`: what the client calls it."""

    value: Any
    field: str

    def __repr__(self) -> str:
        return f"Wish({self.field})"  # the value may be text of the user


@dataclass(frozen=True, slots=True)
class ClientQuestion:
    """One question. `messages`: oldest first, shared by all runs of the request, never changed in place.
    `has_conversation`: the client sent messages; blank ones are left out and may be all that it sent.
    `stream`: the client wants the answer piece by piece. `tools`, `tool_choice`: in OpenAI's form, None =
    not given. `discussion_id`: of the conversation; None = a tag in the messages may name it. `inputs`: item
    i is `agent<i>Input` of the workflow that answers. `wishes`: what the client asks of the model, by name;
    nodes say which they take.
    """

    messages: Messages = field(repr=False)
    stream: bool = False
    tools: list[JsonObject] | None = field(default=None, repr=False)
    tool_choice: Any = field(default=None, repr=False)
    discussion_id: str | None = None
    wishes: Mapping[str, Wish] = field(default_factory=lambda: MappingProxyType({}), repr=False)
    inputs: tuple[str, ...] = field(default=(), repr=False)
    has_conversation: bool = field(default=False, repr=False)

    def without_tools(self) -> ClientQuestion:
        """The same for a run that may call none."""
        return replace(self, tools=None, tool_choice=None)
