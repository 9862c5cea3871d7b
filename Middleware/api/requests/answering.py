"""A run -> the answer of one HTTP request, whole or streamed: where the engine's batches meet the client.

Streamed: a background thread pulls the run until its first output; from then on the server's own thread pulls
it. Whatever happens, a stream ends properly, and what runs on after the answer is used up in the background.
Knows no routes and no engine: it is given a function that opens the run. Source: spec frontend-api.md 11 and
12.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from contextvars import Context, copy_context
from dataclasses import dataclass, field

from Middleware.api.requests.request_life import HUNG_UP, RequestLife, outdated_first, reply_to
from Middleware.common.errors import EarlyTermination, MiddlewareError, RequestCancelled, let_go
from Middleware.common.request_context import NO_PROGRESS, RequestContext, enter_request
from Middleware.common.types import Batch, Batches, JsonObject, close_batches
from Middleware.config.loader import outdated_files
from Middleware.protocols.base import (
    AnswerCollector,
    AnswerFacts,
    ErrorReply,
    Framer,
    WireFormat,
    encode_unit,
)
from Middleware.services.answers import steps_of, usage_numbers
from Middleware.services.cancellation_service import cancellation_service

logger = logging.getLogger(__name__)


# --------------------------------------------------------------------------
# Threads for work that outlives or precedes an answer: reused while idle, never waited for at exit.


Task = Callable[[], object]
IDLE_S = 30.0


class BackgroundThreads:
    """Any number of daemon threads; one that is idle for `idle_s` seconds ends."""

    def __init__(self, idle_s: float = IDLE_S) -> None:
        self._idle_s = idle_s
        self._tasks: deque[Task] = deque()
        self._changed = threading.Condition()
        self._idle = 0

    def run(self, task: Task) -> None:
        """Start the task at once, in an idle thread or a new one. What it raises is logged."""
        with self._changed:
            self._tasks.append(task)
            if self._idle >= len(self._tasks):
                self._changed.notify()
                return
        threading.Thread(target=self._work, name="answer", daemon=True).start()

    @property
    def idle(self) -> int:
        """How many threads wait for a task."""
        return self._idle

    def _work(self) -> None:
        while True:
            with self._changed:
                if not self._tasks:
                    self._idle += 1
                    self._changed.wait_for(lambda: bool(self._tasks), timeout=self._idle_s)
                    self._idle -= 1
                if not self._tasks:
                    return
                task = self._tasks.popleft()
            try:
                task()
            except Exception:
                logger.exception("a background task failed")
            del task


# --------------------------------------------------------------------------

HEARTBEAT_S = 1.0
UNREACHED_S = 5.0
"""So long a failure can still become an HTTP error while the first backend cannot be reached (11.1)."""

_STEP_S = 0.05
_NEARLY_S = 0.9
"""A tick comes after about a second of silence: less than this since the last write is no silence."""

_threads = BackgroundThreads()


@dataclass(frozen=True, slots=True)
class AnswerJob:
    """One request to be answered. Made inside the request's context; `open()` begins the run."""

    request: RequestContext
    facts: AnswerFacts
    wire: WireFormat
    life: RequestLife
    open: Callable[[], Batches]
    context: Context = field(default_factory=copy_context)

    def reply_to(self, error: BaseException) -> ErrorReply:
        outdated = list(outdated_files(self.request).values())
        return reply_to(error, self.request.request_id, privacy=self.request.privacy, outdated=outdated)

    @property
    def cancelled(self) -> bool:
        return cancellation_service.is_cancelled(self.request.request_id)


def whole_answer(job: AnswerJob) -> JsonObject:
    """The JSON body. Raises what the run raises, and RequestCancelled."""
    collector = AnswerCollector(job.request.answer)
    batches: Batches = iter(())
    try:
        batches = job.open()
        for batch in batches:
            if batch:
                job.request.setup_done()
                if collector.add(batch):
                    break
        if job.cancelled and not collector.state.sent:
            raise RequestCancelled
    except EarlyTermination as stop:
        collector.add([{"token": stop.locked_message, "finish_reason": "stop"}])
    except BaseException:
        close_batches(batches)
        raise
    finally:
        job.request.setup_done()
        job.life.stop_watching()
    job.life.answer()
    answer = collector.answer()
    job.life.first = answer.pace.first
    job.life.tokens = usage_numbers(answer.usage, answer.text + answer.thinking)["completion_tokens"]
    body = job.wire.whole(answer, job.facts)
    if job.facts.done is not None:
        job.facts.done(body)
    _use_up(job, batches)
    return body


def whole_body(job: AnswerJob) -> JsonObject:
    """As `whole_answer`; of a run that failed the protocol's own body, where it has one for that."""
    try:
        return whole_answer(job)
    except Exception as error:
        if job.wire.failure is None or isinstance(error, RequestCancelled):
            raise
        let_go(error)
        return job.wire.failure(_error_reply(job, error), job.facts)


def _error_reply(job: AnswerJob, failure: BaseException) -> ErrorReply:
    """What the client is told of a failure in place of its answer; the log is told too."""
    job.life.end = "failed"
    log_failure(job.request.request_id, failure, job.request)
    reply = job.reply_to(failure)
    job.life.note_error(reply.message)
    return reply


class _Lead:
    """The part of a run before its first output, pulled by a background thread."""

    def __init__(self, job: AnswerJob) -> None:
        self.ready = threading.Event()
        self.news = threading.Event()
        """Set when `steps` has something to give, and when `ready` is."""
        self.batches: Batches = iter(())
        self.first: Batch | None = None
        self.failure: BaseException | None = None
        self._job = job
        self._lock = threading.Lock()
        self._steps: list[JsonObject] = []
        self._handed_over = False
        self._abandoned: Callable[[], None] | None = None

    def begin(self) -> None:
        _threads.run(self._work)

    def _work(self) -> None:
        """Pull inside the request's context and hand over outside of it: a context takes one thread at a
        time, and whoever is told enters it at once."""
        try:
            self._job.context.run(self._pull)
        except BaseException as error:  # nobody else could tell the one who waits
            self.failure = error
        self._hand_over()

    def _pull(self) -> None:
        try:
            self.batches = self._job.open()
            self.first = self._first_output()
        finally:
            self._job.request.setup_done()

    def _first_output(self) -> Batch | None:
        """Nodes that start are told, but they are no output: a quick failure stays an HTTP error."""
        for batch in filter(None, self.batches):
            if not (steps := steps_of(batch)):
                return batch
            with self._lock:
                self._steps += steps
            self.news.set()
        return None

    def steps(self) -> list[JsonObject]:
        """The nodes that have started since the last time."""
        self.news.clear()
        with self._lock:
            steps, self._steps = self._steps, []
        return steps

    def _hand_over(self) -> None:
        with self._lock:
            self._handed_over = True
            abandoned = self._abandoned
        self.ready.set()
        self.news.set()
        if abandoned is not None:
            abandoned()

    def when_free(self, action: Callable[[], None]) -> None:
        """Call `action` once nobody pulls any more: now, or in the background thread when it is done."""
        with self._lock:
            if not self._handed_over:
                self._abandoned = action
                return
        action()


class AnswerStream:
    """The body of a streamed response: iterated once by the server, then closed."""

    def __init__(self, job: AnswerJob) -> None:
        self._job = job
        self._framer: Framer = job.wire.framer(job.facts)
        self._lead = _Lead(job)
        self._answer = self._framer.state = job.request.answer
        self._closed = False
        job.life.hold()
        self._lead.begin()

    def wait_for_output(self) -> None:
        """Wait until there is something to send, at most one heartbeat long, or longer while nothing has been
        reached yet.

        Raises what failed until then, unless the protocol tells a failure in the answer itself.
        """
        end = time.monotonic() + UNREACHED_S
        ready, reach = self._lead.ready, self._job.request.reach
        ready.wait(HEARTBEAT_S)
        while reach.missing and not ready.is_set() and time.monotonic() < end:
            ready.wait(_STEP_S)
        failure = None if self._job.wire.failure else self._lead.failure
        if failure is not None and not isinstance(failure, RequestCancelled | EarlyTermination):
            raise failure

    def __iter__(self) -> Iterator[bytes]:
        pieces = self._pieces()
        return _pace_pieces(pieces, self._job.wire.pause_s) if self._job.wire.pause_s else pieces

    def _pieces(self) -> Iterator[bytes]:
        framer, lead, answer = self._framer, self._lead, self._answer
        yield from map(encode_unit, self._before_output())
        pull, batches = self._job.context.run, lead.batches
        batch, failure = lead.first, lead.failure
        sent = time.monotonic()
        shows_progress = self._job.facts.progress != NO_PROGRESS
        while batch is not None and failure is None:
            units = framer.units(batch)
            if shows_progress and (steps := steps_of(batch)):
                units = [*framer.progress_units(steps), *units]
            if answer.sent:
                self._job.life.answer()
            for unit in units:
                yield encode_unit(unit)
            if answer.sent:
                break
            if units:
                sent = time.monotonic()
            elif time.monotonic() - sent >= _NEARLY_S:
                yield encode_unit(framer.heartbeat())
                sent = time.monotonic()
            try:
                batch = pull(next, batches, None)
            except Exception as error:
                failure = error
        answer.over = not answer.sent
        for unit in self._ending(failure):
            yield encode_unit(unit)

    def _before_output(self) -> Iterator[str]:
        """Units while nodes work and nothing has been said: which one starts, else a sign of life."""
        framer, lead = self._framer, self._lead
        steps = lead.steps()
        while not lead.ready.is_set():
            yield from framer.progress_units(steps) or [framer.heartbeat()]
            lead.news.wait(HEARTBEAT_S)
            steps = lead.steps()
        yield from framer.progress_units([*steps, *lead.steps()])

    def _ending(self, failure: BaseException | None) -> list[str]:
        """The units that end the stream, whatever ended it."""
        framer = self._framer
        if failure is not None:
            let_go(failure)
        framer.is_cut_off = isinstance(failure, RequestCancelled) or (failure is None and self._job.cancelled)
        if isinstance(failure, EarlyTermination | RequestCancelled):
            if isinstance(failure, RequestCancelled):
                self._job.life.end = "cancelled"
            text = failure.locked_message if isinstance(failure, EarlyTermination) else ""
            return [*framer.units([{"token": text, "finish_reason": "stop"}]), *framer.end()]
        if failure is not None:
            return framer.error(_error_reply(self._job, failure))
        return [*([] if self._answer.sent else framer.finish_units("stop")), *framer.end()]

    def close(self) -> None:
        """The response has ended, or the client has gone. Called by the server in every case."""
        if self._closed:
            return
        self._closed = True
        self._job.life.first, self._job.life.tokens = self._framer.pace.first, self._framer.output_tokens
        if self._answer.sent and not self._answer.over:
            _use_up(self._job, self._lead.batches)
            self._job.life.release()
            return
        left = not self._answer.over
        if left:
            self._job.life.end = "cancelled" if self._lead.failure is None else "failed"
        if left and self._lead.failure is None:
            cancellation_service.request_cancellation(self._job.request.request_id, HUNG_UP)
        self._lead.when_free(self._give_up)

    def _give_up(self) -> None:
        try:
            self._job.context.copy().run(close_batches, self._lead.batches)
        finally:
            self._lead.failure = None
            self._job.life.release()


def _pace_pieces(pieces: Iterator[bytes], pause_s: float) -> Iterator[bytes]:
    """The same pieces, at least `pause_s` apart."""
    due = 0.0
    for piece in pieces:
        wait = due - time.monotonic()
        if wait > 0:
            time.sleep(wait)
        yield piece
        due = time.monotonic() + pause_s


def _use_up(job: AnswerJob, batches: Batches) -> None:
    """Run the nodes after the responder in the background. Their failure is logged only. Where there are
    none, what is left is quick and done here.
    """
    job.life.hold()

    def rest() -> None:
        try:
            for _ in batches:
                pass
        except (EarlyTermination, RequestCancelled) as stop:
            logger.info("request %s stopped after its answer: %s", job.request.request_id, stop)
        except Exception as error:
            let_go(error)
            logger.exception("request %s failed after its answer", job.request.request_id)
        finally:
            job.life.release()

    context = job.context.copy()
    if job.request.answer.is_last:
        context.run(rest)
    else:
        _threads.run(lambda: context.run(rest))


def log_failure(request_id: str, failure: BaseException, request: RequestContext | None) -> None:
    """One line for what is expected to fail, a traceback for what is not; told in the log of its user."""
    expected = isinstance(failure.__cause__ or failure, MiddlewareError)
    with nullcontext() if request is None else enter_request(request):
        logger.error(
            "request %s failed: %s%s",
            request_id,
            outdated_first(outdated_files(request).values()),
            failure,
            exc_info=None if expected else failure,
        )
