"""What a run did, node by node, for whoever observes: metrics, a recorder, sums.

Plain values, written by the one thread that works on them and read by anyone: a reader may see a run half
told, never a broken one. Knows no protocol, no node and no backend; never refers to messages, contexts,
handlers or streams, so a run that is kept keeps no conversation alive but the texts that it was asked to
keep. Nobody observes: there is no trace, and each seam costs the look at one attribute. Nothing is told for
each token. Source: spec console.md 3.
"""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol

from Middleware.common.costs import Cost
from Middleware.common.errors import RequestCancelled
from Middleware.common.request_context import RequestContext, shown_name
from Middleware.config.loader import outdated_files
from Middleware.services.chat_marks import mark_of_chat
from Middleware.services.kept_bodies import asked_to_hold, kept_body
from Middleware.services.node_trace import NOT_YET, CallTrace, NodeTrace, Wait
from Middleware.utilities.sensitive_logging_utils import loggable_error

logger = logging.getLogger(__name__)

SAID_CHARS = 80
"""So much is kept of what a user wrote, to tell runs apart by it."""


def _beginning(text: str) -> str:
    """On one line."""
    return " ".join(text[: 2 * SAID_CHARS].split())[:SAID_CHARS]


class TextOnItsWay(Protocol):
    """An answer that goes out in pieces."""

    def pieces(self) -> int: ...

    def text(self) -> str: ...


class RunObserver(Protocol):
    """`keeps_text`: it wants prompts and answers too. An observer that has `changes` is told of these alone.

    `note_change` is called in the working thread and must be quick. `what`: `arrived`, `begun` (it got its
    slot), `named` (its user is known), `node`, `call`, `call_ended`, `first_text`, `node_ended`, `answered`,
    `ended`, and beside those of the specification `first_thought` (a call's model has begun to think),
    `waiting` (it is known who waits for a slot), `wait` (a call begins or ends to wait for its turn) and
    `settled` (behind `ended`: no call goes on for the next turn either, the costs are final).
    `node`: the one that it is about, None for the run itself; a call is the last of its node that changed
    (`NodeTrace.calls`).
    """

    keeps_text: bool

    def note_change(self, run: RunTrace, what: str, node: NodeTrace | None) -> None: ...


NO_HEADERS: Mapping[str, str] = MappingProxyType({})


class AgainOf(NamedTuple):
    """Which run is repeated. `wall`: Unix seconds of its arrival."""

    id: str
    wall: float


@dataclass(slots=True, eq=False)
class RunTrace:
    """One generation request.

    `wall`: Unix seconds of its arrival; the other times are of `time.monotonic()`, 0.0 = not yet. `queued`:
    its body had come, and it asked for a slot; `begun`: it got it; `first_text`: the first text at the
    client's door. `front`: how people call the client's protocol. `workflow`: the first that ran;
    `answering`: the one that was chosen to answer. `usage`: of the answer; `all_usage`: of all calls behind
    it, as the client is told them, None: no model answered; `whole_usage`: the same with the nodes after the
    answer. `costs`: of all calls so far, those that the client is not told of too, a sum for each currency.
    `key`: the name of the client's key, empty: it has none. `state`: `waiting`, `running`, `answering`,
    `finishing` (the client has its answer, nodes run on), `done`, `failed`, `cancelled`, `refused` (ended
    before a workflow began). `error`: what the client was told. `asked`: the client's body, where
    `keeps_text`, whole to ASKED_LIMIT; `headers`: those of its headers that a setting or the protocol reads,
    by name, never one with a key. `again_of`: the run that this one repeats, whole, from a node, or one call
    of it; None: none. `fell_back`: the model name that was asked, where nobody has it and the user's default
    answers; empty: it is somebody's. `secrets`: what nobody who looks may read, the client's key; never that
    of a private run. `nodes`: in the order of their start, nested ones too. `said`: the beginning of what the
    user wrote last, on one line, where texts are kept. `outdated`: of each file that it uses in its last good
    version, as a later edit has an error, a sentence that says so. `counter()`: pieces of the answer so far,
    `text_so_far()` its text, where `keeps_text`; None when it is not going out. `caller`: W3C's `traceparent`
    and `tracestate` as its client sent them; empty: it sent none. `discussion`: the id of the conversation;
    empty: it has none, or nobody may know: then `chat_mark` tells it from others; `chat_folder`: of the
    client's key, in which it is kept; `turn`: how many messages of the user it has. `bytes_kept`, `pinned`,
    `seq`: of a recorder.
    """

    id: str
    path: str
    observers: Observers = field(repr=False)
    wall: float = field(default_factory=time.time)
    arrived: float = field(default_factory=time.monotonic)
    queued: float = NOT_YET
    begun: float = NOT_YET
    first_text: float = NOT_YET
    answered: float = NOT_YET
    ended: float = NOT_YET
    user: str = ""
    key: str = ""
    workflow: str = ""
    answering: str = ""
    model: str = ""
    front: str = ""
    api_type: str = ""
    stream: bool = False
    fell_back: str = ""
    chat_folder: str | None = field(default=None, repr=False)
    chat_mark: str = ""
    turn: int = 0
    task: str | None = None
    private: bool = False
    keeps_text: bool = False
    state: str = "waiting"
    status: int | None = None
    error: str = ""
    cancelled_by: str = ""
    finish_reason: str | None = None
    usage: Mapping[str, Any] | None = None
    all_usage: Mapping[str, Any] | None = None
    whole_usage: Mapping[str, Any] | None = None
    costs: tuple[Cost, ...] = ()
    asked: bytes = field(default=b"", repr=False)
    asked_left_out: int = 0
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    again_of: AgainOf | None = None
    secrets: tuple[str, ...] = field(default=(), repr=False)
    nodes: list[NodeTrace] = field(default_factory=list, repr=False)
    said: str = field(default="", repr=False)
    outdated: Mapping[str, str] = field(default_factory=dict, repr=False)
    counter: Callable[[], int] | None = field(default=None, repr=False)
    text_so_far: Callable[[], str] | None = field(default=None, repr=False)
    caller: tuple[str, str] = ("", "")
    discussion: str = ""
    bytes_kept: int = 0
    pinned: bool = False
    seq: int = 0

    def tell(self, what: str, node: NodeTrace | None = None) -> None:
        self.observers.tell(self, what, node)

    def enter_line(self) -> None:
        """It asks for a slot, and waits if there is none."""
        self.queued = time.monotonic()

    def begin(self) -> None:
        """It got its slot."""
        self.begun, self.state = time.monotonic(), "running"
        self.tell("begun")

    def note_waiting(self, request: RequestContext, *, front: str, stream: bool, text: str) -> None:
        """Whose it is, while it waits for a slot. `text`: what the user wrote last."""
        self._note_asker(request, front=front, stream=stream)
        if not request.privacy and self.observers.keep_text:
            self.said = _beginning(text)
        self.tell("waiting")

    def note_asked_name(self, name: object) -> None:
        """The model name in the client's body, until it is known whom it means: one that is refused keeps
        it."""
        if isinstance(name, str):
            self.model = shown_name(name)

    def _note_asker(self, request: RequestContext, *, front: str, stream: bool) -> None:
        if request.fell_back:
            self.fell_back = self.fell_back or self.model
        self.user, self.model, self.api_type = request.user, request.resolved_name, request.api_type
        self.front, self.stream, self.task, self.private = front, stream, request.task, request.privacy
        if request.api_key and not request.privacy:
            self.secrets = (request.api_key,)

    def note_chat(self, discussion: str, folder: str | None, turn: int) -> None:
        """Where its chat is. `folder`: of the client's key, None: it has none; `turn`: how many messages of
        the user it has. Source: spec workbench.md 14.
        """
        self.turn = turn
        if self.private:
            self.chat_mark = mark_of_chat(self.user, discussion)
        else:
            self.chat_folder = folder

    def name(
        self,
        request: RequestContext,
        *,
        front: str,
        stream: bool,
        asked: bytes,
        said: str = "",
        headers: Mapping[str, str] = NO_HEADERS,
    ) -> None:
        """Whose it is and what it is; from now on it is settled whether texts are kept. `said`: what the user
        wrote last. `headers`: as of the trace.
        """
        self._note_asker(request, front=front, stream=stream)
        self.keeps_text = not request.privacy and self.observers.keep_text
        if self.keeps_text:
            self.asked, self.asked_left_out = asked_to_hold(asked)
            self.headers = headers
        self.said = _beginning(said) if self.keeps_text else ""
        self.outdated = outdated_files(request)
        self.tell("named")

    def runs(self, workflow: str, *, answers: bool, discussion: str | None = None) -> None:
        """A workflow that no node called begins. `discussion`: the id of its conversation; None: it has
        none."""
        if discussion and not self.private:
            self.discussion = discussion
        self.workflow = self.workflow or workflow
        if answers:
            self.answering = workflow

    def node(self, node: NodeTrace) -> TracedNode:
        """A node begins."""
        self.nodes.append(node)
        self.tell("node", node)
        return TracedNode(self, node)

    def note_first_text(self, sent: TextOnItsWay | None, node: NodeTrace | None = None) -> None:
        """The first text of the answer leaves. `sent`: what counts it, None: it leaves in one piece. `node`:
        who gives it, None: none does."""
        if self.first_text:
            return
        self.first_text, self.state = time.monotonic(), "answering"
        if sent is not None:
            self.counter, self.text_so_far = sent.pieces, sent.text if self.keeps_text else None
        if node is not None and node.state == "running":
            node.state = "answering"
        self.tell("first_text", node)

    def answer(self) -> None:
        """The client has its whole answer."""
        if not self.answered:
            self.answered, self.state = time.monotonic(), "finishing"
            self.counter = self.text_so_far = None
            self.tell("answered")

    def end(self, state: str) -> None:
        self.ended, self.state = time.monotonic(), state
        self.counter = self.text_so_far = None
        self.tell("ended")

    def settle(self) -> None:
        """It has ended, and so has what was read ahead for the next turn."""
        self.tell("settled")


class TracedNode(NamedTuple):
    """A node and its run: what travels down to the calls."""

    run: RunTrace
    node: NodeTrace

    def tell(self, what: str) -> None:
        self.run.tell(what, self.node)

    @property
    def last_model_call(self) -> CallTrace | None:
        """The call whose text is the node's."""
        return self.node.last_model_call

    @property
    def waits(self) -> list[Wait]:
        """Of the calls that are made with this."""
        return self.node.waits

    def begin_wait(self, what: str) -> None:
        """A call of the node must wait. `what`: for what, as of `Wait`."""
        self.node.waits.append(Wait(what))
        self.tell("wait")

    def end_wait(self) -> None:
        """It waits no more, if it did."""
        waits = self.waits
        if waits and not waits[-1].ended:
            waits[-1].ended = time.monotonic()
            self.tell("wait")

    def note_first_text(self, sent: TextOnItsWay | None) -> None:
        """The first text of the answer leaves."""
        self.run.note_first_text(sent, self.node)

    def call(self, call: CallTrace) -> TracedCall:
        """A call begins. It is told when it is sent."""
        self.node.calls.append(call)
        return TracedCall(self, call)

    def note_thought(self) -> None:
        """The text of its last call to a model holds a thought."""
        if (call := self.last_model_call) is not None:
            TracedCall(self, call).note_thought()

    def thought_nothing(self) -> None:
        """What looked like a thought of its last call to a model was text."""
        if (call := self.last_model_call) is not None:
            call.thought = NOT_YET

    def note_answer(self, text: str, thinking: str) -> None:
        """The whole answer of its last call to a model, as it came; whoever cleans it tells what became of
        it."""
        if self.run.keeps_text:
            self.note_cleaning(text, text, [thinking] if thinking else [], None)

    def note_cleaning(
        self, raw: str, cleaned: str, thoughts: list[str], cleaning: tuple[Any, ...] | None
    ) -> None:
        """What cleaning made of the text of its last call."""
        if (call := self.last_model_call) is not None:
            call.note_cleaning(raw, cleaned, thoughts, cleaning)


class TracedBranch(TracedNode):
    """One of several chains of calls that a node makes at the same time: it knows its own."""

    @cached_property
    def calls(self) -> list[CallTrace]:
        return []

    @cached_property
    def waits(self) -> list[Wait]:
        return []

    @property
    def last_model_call(self) -> CallTrace | None:
        return next((call for call in reversed(self.calls) if call.kind == "model"), None)

    def call(self, call: CallTrace) -> TracedCall:
        self.calls.append(call)
        return super().call(call)

    def begin_wait(self, what: str) -> None:
        wait = Wait(what)
        self.waits.append(wait)
        self.node.waits.append(wait)
        self.tell("wait")


class TracedCall(NamedTuple):
    """A call and where it belongs."""

    at: TracedNode
    call: CallTrace

    def note_body(self, url: str, body: bytes, headers: Mapping[str, str], *, amended: bool = False) -> None:
        """The body goes out, or goes out again; one that is `amended` takes the place of the first, and the
        node says so."""
        call = self.call
        if amended and not self.at.run.private:
            self.at.node.warnings.append(
                f"endpoint '{call.endpoint}' refused a request body and was sent another one"
            )
        call.url, call.sent, call.tries = url, time.monotonic(), call.tries + 1
        if self.at.run.keeps_text:
            call.headers = headers
            call.body, call.body_left_out = kept_body(body)
        self.at.tell("call")

    def note_thought(self) -> None:
        """A thought was heard. Only the first is told."""
        if not self.call.thought:
            self.call.thought = time.monotonic()
            self.at.tell("first_thought")

    def end(self, outcome: str, now: float = NOT_YET) -> None:
        """`now`: when it ended; not given: now."""
        self.call.ended, self.call.outcome = now or time.monotonic(), outcome
        self.at.tell("call_ended")


class Observers:
    """Who observes the runs of one application. One that raises is logged once and dropped for good."""

    def __init__(self) -> None:
        self._all: tuple[tuple[RunObserver, Collection[str] | None], ...] = ()
        self._of_change: dict[str, tuple[RunObserver, ...]] = {}
        self._guard = threading.Lock()

    @property
    def keep_text(self) -> bool:
        return any(observer.keeps_text for observer, _ in self._all)

    def observe(self, observer: RunObserver) -> Callable[[], None]:
        """Tell `observer` of all runs that begin from now on. Gives the function that ends it."""
        with self._guard:
            self._set((*self._all, (observer, getattr(observer, "changes", None))))
        return lambda: self._drop(observer)

    def begin(self, request_id: str, path: str) -> RunTrace | None:
        """A request arrived. None: nobody observes."""
        if not self._all:
            return None
        run = RunTrace(request_id, path, self)
        run.tell("arrived")
        return run

    def tell(self, run: RunTrace, what: str, node: NodeTrace | None) -> None:
        observers = self._of_change.get(what)
        for observer in self._find(what) if observers is None else observers:
            try:
                observer.note_change(run, what, node)
            except Exception:  # an observer must never harm an answer
                self._drop(observer)
                logger.exception("%s failed and will not observe further runs", type(observer).__name__)

    def _find(self, what: str) -> tuple[RunObserver, ...]:
        """Who is told of this change."""
        with self._guard:
            found = tuple(one for one, changes in self._all if changes is None or what in changes)
            self._of_change[what] = found
        return found

    def _drop(self, observer: RunObserver) -> None:
        with self._guard:
            self._set(tuple(one for one in self._all if one[0] is not observer))

    def _set(self, observers: tuple[tuple[RunObserver, Collection[str] | None], ...]) -> None:
        """The lock is held."""
        self._all, self._of_change = observers, {}


# --------------------------------------------------------------------------
# What a node asks of the world outside, told to whoever observes its run. Source: spec console.md 3.3.


class OutsideCall:
    """One such call, while it lasts."""

    def __init__(self, trace: TracedCall | None = None) -> None:
        self._trace = trace

    def note_answer(self, answer: object, status: int | None = None) -> None:
        """What it brought: a text, bytes, or a value that is shown as its text. `status`: of HTTP, or of a
        program."""
        if self._trace is None:
            return
        self._trace.call.status = status
        if self._trace.at.run.keeps_text:
            self._trace.call.raw = _text_of(answer)


def _text_of(answer: object) -> str:
    if isinstance(answer, str):
        return answer
    return answer.decode("utf-8", "replace") if isinstance(answer, bytes) else json_text(answer)


def json_text(value: object) -> str:
    """A value as compact JSON; what JSON has no form for as its own text."""
    try:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=str)
    except (TypeError, ValueError, RecursionError):  # odd keys, a circle, too deep
        return str(value)


_UNSEEN = OutsideCall()


@contextmanager
def outside_call(
    trace: TracedNode | None,
    kind: str,
    name: str,
    *,
    place: str = "",
    body: bytes = b"",
    secrets: Iterable[str] = (),
) -> Iterator[OutsideCall]:
    """Inside the block a node makes a call of this kind (`http`, `command`, `mcp`, `script`). `trace`: None:
    nobody observes, or nobody knows the node.

    `name`: whom it calls; `place`: the whole address, which may hold what people wrote: as `body`, it is kept
    only where texts are. `secrets`: what nobody who looks may read.
    """
    if trace is None:
        yield _UNSEEN
        return
    call = trace.call(CallTrace(kind, "", name, "", secrets=tuple(secrets)))
    call.note_body(place if trace.run.keeps_text and place else name, body, {})
    outcome = "done"
    try:
        yield OutsideCall(call)
    except RequestCancelled:
        outcome = "cancelled"
        raise
    except Exception as error:
        outcome, call.call.error = type(error).__name__, loggable_error(error)
        raise
    finally:
        call.end(outcome)
