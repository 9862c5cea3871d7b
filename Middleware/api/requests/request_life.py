"""How long a request's work lasts: until its last holder lets go; then everything it had is given back.

Holders are the HTTP response and, when nodes run on after the answer, the thread that runs them. Knows
neither protocols nor workflows. Source: spec frontend-api.md 12.4 and 15.4.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Hashable, Iterable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any

from flask import current_app

from Middleware.api.client_watch import Watch
from Middleware.common.asker import ANYBODY, NO_NAME, Asker
from Middleware.common.costs import cost_text
from Middleware.common.errors import (
    ClientRequestError,
    ConfigError,
    MiddlewareError,
    RateLimited,
    RequestCancelled,
    ServerBusy,
    Unauthorized,
)
from Middleware.common.request_context import RequestContext, enter_request
from Middleware.config.loader import outdated_files
from Middleware.protocols.base import ErrorReply
from Middleware.services.cancellation_service import ASKED_TO, cancellation_service
from Middleware.services.key_limits import KeyRequest
from Middleware.services.run_trace import RunTrace
from Middleware.utilities.sensitive_logging_utils import without_quotes
from Middleware.utilities.text_utils import sentence_of

logger = logging.getLogger(__name__)


# --------------------------------------------------------------------------
# An exception -> what the client is told of it: status, sentence, headers. Pure.


NO_FAULT_OF_FILES = (ClientRequestError, ServerBusy, RateLimited, RequestCancelled)


def reply_to(
    error: BaseException, request_id: str, *, privacy: bool = False, outdated: Iterable[str] = ()
) -> ErrorReply:
    """What to tell the client about a failure. `privacy`: nothing that may quote a prompt. `outdated`: the
    sentences about files whose last good version was used, which come first: the error may be theirs.
    """
    before = "" if isinstance(error, NO_FAULT_OF_FILES) else outdated_first(outdated)
    said = f"{before}{sentence_for_client(error, privacy=privacy)} (request {request_id})"
    if not isinstance(error, MiddlewareError):
        headers = {"x-should-retry": "false"}
        return ErrorReply(500, said, headers=headers, request_id=request_id)
    if isinstance(error, ClientRequestError):
        challenge = error.challenge if isinstance(error, Unauthorized) else ""
        asked = {"WWW-Authenticate": challenge} if challenge else {}
        return ErrorReply(
            error.status_hint, said, error.param, error.code, headers=asked, request_id=request_id
        )
    may_retry = isinstance(error, ServerBusy) or (isinstance(error, RateLimited) and not error.is_for_day)
    headers = {} if may_retry else {"x-should-retry": "false"}
    if error.retry_after_s is not None and error.status_hint in (429, 503):
        headers["Retry-After"] = str(max(1, round(error.retry_after_s)))
    code = 503 if isinstance(error, ServerBusy) else error.code
    return ErrorReply(error.status_hint, said, code=code, headers=headers, request_id=request_id)


def outdated_first(outdated: Iterable[str]) -> str:
    """What is said before anything else of a request that used old versions of files; "" if it did not."""
    return "".join(f"{sentence_of(' '.join(said.split()))}. " for said in outdated)


def sentence_for_client(error: BaseException, *, privacy: bool = False) -> str:
    """What went wrong, in one sentence. `privacy`: nothing that may quote a prompt."""
    if not isinstance(error, MiddlewareError):
        return f"internal error ({type(error).__name__}); see the server's log for details"
    quotes_nobody = isinstance(error, ConfigError)
    said = error.cause_first() if quotes_nobody or not privacy else without_quotes(error)
    return sentence_of(" ".join(said.split())) or type(error).__name__


# --------------------------------------------------------------------------

REQUEST_ID = "headrace.request_id"
"""The key of the WSGI environment that holds a request's id."""
LIFE = "headrace.life"
"""The key of the WSGI environment that holds a request's life."""


HUNG_UP = "the client hung up"


def _always_valid() -> None:
    """Default of `RequestLife.check_key`."""


class RequestLife:
    """Begins with one holder.

    `at_end` callables run once, the last registered first, when the last holder released. For the line at the
    end of the answer: `request` (None: refused before its user was known), `status` (HTTP), `end` (how an
    answer ended that is not whole), `first` (monotonic seconds of the first output), `tokens` (of output).
    `trace`: None: nobody observes. `asker`: who sent it. `check_key()` raises Unauthorized once the key that
    it came with is none any more: asked when it has its turn. `waits`: for its turn.
    """

    def __init__(self, request_id: str, asker: Asker = ANYBODY) -> None:
        self.request_id = request_id
        self.asker = asker
        self.check_key: Callable[[], None] = _always_valid
        self.arrived = time.monotonic()
        self.answered = self.waits = False
        self.request: RequestContext | None = None
        self.status = ""
        self.end = ""
        self.first: float | None = None
        self.tokens = 0
        self.watch: Watch | None = None
        self.trace: RunTrace | None = None
        self.limited: KeyRequest | None = None
        self._lock = threading.Lock()
        self._holders = 1
        self._told_cost: str | None = None
        self._endings: list[Callable[[], object]] = []

    def tell(self, method: str, path: str) -> None:
        """The one line at the end of an answer, in the log of its user."""
        with self._lock:
            cost = self._told_cost = _cost_of(self.request)
        first = "-" if self.first is None or not self.tokens else f"{self.first - self.arrived:.2f} s"
        with nullcontext() if self.request is None else enter_request(self.request):
            logger.info(
                "request %s: %s%s %s: %s in %.2f s, first token %s, %d tokens%s%s%s%s",
                self.request_id,
                outdated_first(outdated_files(self.request).values()),
                method,
                path,
                self.status or "no answer",
                time.monotonic() - self.arrived,
                first,
                self.tokens,
                _of_workflow(self.request),
                cost,
                f", {self.end}" if self.end else "",
                _of_key(self.asker),
            )

    def at_end(self, ending: Callable[[], object]) -> None:
        self._endings.append(ending)

    def hold(self) -> None:
        with self._lock:
            self._holders += 1

    def release(self) -> None:
        with self._lock:
            self._holders -= 1
            if self._holders:
                return
        self.stop_watching()
        while self._endings:
            ending = self._endings.pop()
            try:
                ending()
            except Exception:
                logger.exception("the resources of request %s could not be released", self.request_id)

    def answer(self) -> None:
        """The client has its whole answer, or it is about to leave."""
        self.stop_watching()
        if self.trace is not None:
            self._note_usage(self.trace)
            self.trace.answer()

    def note_error(self, error: str) -> None:
        """The client is told of a failure."""
        if self.trace is not None:
            self.trace.error = error

    def end_trace(self) -> None:
        """All work of the request has ended; what has become of it. What is read ahead for the next turn may
        go on, and is paid for, too."""
        trace = self.trace
        if trace is None:
            return
        self._note_usage(trace)
        trace.status = int(self.status) if self.status.isdigit() else None
        with nullcontext() if self.request is None else enter_request(self.request):
            trace.end(self._state_at_end(trace))
        if self.request is None:
            trace.settle()
        else:
            self.request.spent.when_final(lambda: self._settle(trace))

    def _settle(self, trace: RunTrace) -> None:
        """Nothing is paid for any more."""
        self._note_usage(trace)
        self._tell_later_cost()
        trace.settle()

    def _tell_later_cost(self) -> None:
        """What was added behind the answer since its line in the log."""
        with self._lock:
            told, cost = self._told_cost, _cost_of(self.request)
        if told is not None and cost != told:
            with nullcontext() if self.request is None else enter_request(self.request):
                logger.info("request %s: with all calls after its answer%s", self.request_id, cost)

    def _state_at_end(self, trace: RunTrace) -> str:
        is_refused = self.outcome == "failed" and not trace.nodes and not self.end
        return "refused" if is_refused else self.outcome

    @property
    def outcome(self) -> str:
        """What the client got, in the end: `done`, `failed` or `cancelled`."""
        status = int(self.status) if self.status.isdigit() else None
        if self.end == "cancelled" or status == 499:
            return "cancelled"
        return "failed" if self.end or status is None or status >= 400 else "done"

    def _note_usage(self, trace: RunTrace) -> None:
        """What all calls took."""
        if self.request is not None:
            trace.all_usage = self.request.usage.numbers()
            trace.whole_usage = self.request.usage.all_numbers()
            trace.costs = self.request.spent.costs()

    def stop_watching(self) -> None:
        """The answer is complete: from now on the client may go."""
        self.answered = True
        if self.watch is not None:
            self.watch.stop()


def _of_workflow(request: RequestContext | None) -> str:
    """What all calls to models took, as the client is told it; nothing where none has answered."""
    took = request.usage.numbers() if request is not None else None
    if took is None:
        return ""
    return f", workflow {took['prompt_tokens']} + {took['completion_tokens']} in {took['calls']} calls"


def _of_key(asker: Asker) -> str:
    """Whose key it came with; nothing where there is no keys file."""
    return f", key {asker.shown_name or NO_NAME}" if asker.owner else ""


def _cost_of(request: RequestContext | None) -> str:
    """What all calls so far have cost; nothing where none has a price."""
    cost = cost_text(request.spent.costs()) if request is not None else ""
    return f", cost {cost}" if cost else ""


class HeldBody:
    """A response body that calls `release` once when the server closes it. Costs nothing for each piece."""

    def __init__(self, body: Iterable[bytes], release: Callable[[], None]) -> None:
        self._body, self._release = body, release
        self._closed = False

    def __iter__(self) -> Iterator[bytes]:
        return iter(self._body)

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        close: Callable[[], Any] | None = getattr(self._body, "close", None)
        try:
            if close is not None:
                close()
        finally:
            self._release()


# --------------------------------------------------------------------------
# Running requests by a name that their client gave them, so that another request of it can speak of them.


@dataclass(frozen=True, slots=True)
class NamedRequest:
    """`sent`: the texts of its answer that went out so far."""

    life: RequestLife
    sent: list[str] = field(default_factory=list, repr=False)


class NamedRequests:
    """Name -> the requests that run under it. A name may be given more than once. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running: dict[Hashable, list[NamedRequest]] = {}

    def add(self, name: Hashable, life: RequestLife) -> NamedRequest:
        """The request has this name until its life ends."""
        named = NamedRequest(life)
        with self._lock:
            self._running.setdefault(name, []).append(named)
        life.at_end(lambda: self._remove(name, named))
        return named

    def _remove(self, name: Hashable, named: NamedRequest) -> None:
        with self._lock:
            rest = [one for one in self._running[name] if one is not named]
            if rest:
                self._running[name] = rest
            else:
                del self._running[name]

    def of(self, name: Hashable) -> list[NamedRequest]:
        """Those whose answer is not complete, oldest first."""
        with self._lock:
            return [one for one in self._running.get(name, ()) if not one.life.answered]

    def cancel(self, name: Hashable) -> bool:
        """Cancel them. False: there was none."""
        found = self.of(name)
        for one in found:
            cancellation_service.request_cancellation(one.life.request_id, ASKED_TO)
        return bool(found)

    def __len__(self) -> int:
        return len(self._running)


def named_of(front_end: str) -> NamedRequests:
    """Those of the current application that came through this front end."""
    made: NamedRequests = current_app.extensions.setdefault(f"headrace.named.{front_end}", NamedRequests())
    return made
