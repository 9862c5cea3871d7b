"""The calls of one step, made side by side: each in a thread of its own that can be given up.

The thread of the loop waits for them and gives a sign of life meanwhile. A call that is given up is cancelled
by its own id, so what it asked of others ends; a Python script goes on unheard. Source: spec agents.md 1,
3.10; workflows.md 16.14.
"""

from __future__ import annotations

import contextvars
import logging
import queue
import threading
import time
import traceback
from collections import deque
from collections.abc import Generator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace

from Middleware.common.errors import RequestCancelled
from Middleware.common.request_context import enter_request
from Middleware.common.types import Batch
from Middleware.services.cancellation_service import cancellation_service
from Middleware.services.node_trace import NOT_YET, CallTrace
from Middleware.services.run_trace import TracedCall, json_text
from Middleware.workflows.agents.agent_tool import AgentTool, ToolFailed
from Middleware.workflows.agents.tool_calls import ReadCall
from Middleware.workflows.models.execution_context import ExecutionContext

logger = logging.getLogger(__name__)

TICK_S = 0.5
OK, FAILED, TIMEOUT, REFUSED, CANCELLED = "ok", "failed", "timeout", "refused", "cancelled"
"""Outcomes of a call."""
OUT_OF_TIME = "out of time"


@dataclass(slots=True, eq=False)
class ToolJob:
    """One call, and what came of it. `result`: as the tool gave it, not cut; of a failure its sentence.
    `outcome`: "": it is not over. `given_up`: the node has no time left for it."""

    call: ReadCall
    result: str = ""
    outcome: str = ""
    given_up: bool = False
    begun: float = NOT_YET
    seconds: float = 0.0
    part: str = ""
    trace: TracedCall | None = field(default=None, repr=False)

    @property
    def failed(self) -> bool:
        return self.outcome != OK


class ToolRunner:
    """`most`: how many calls run at once. `raises`: the first failure ends the others."""

    def __init__(self, context: ExecutionContext, most: int, *, raises: bool) -> None:
        self._context, self._most, self._raises = context, most, raises

    def run(self, jobs: Sequence[ToolJob], deadline: float | None) -> Generator[Batch, None, None]:
        """Make the calls, in their order as far as there is room. `deadline`: of `time.monotonic()`: what is
        not over by then is given up. Ends early when the request is cancelled, or when one has failed and
        that is to be raised."""
        calls = _Calls(self._context, jobs, self._most)
        request_id = self._context.request_id
        cancellation_service.register_abort_callback(request_id, calls.wake)
        try:
            while calls.start_some():
                if self._context.is_cancelled():
                    return
                left = TICK_S if deadline is None else min(TICK_S, deadline - time.monotonic())
                if left <= 0:
                    calls.give_up(OUT_OF_TIME)
                    return
                job = calls.wait(left)
                if job is None:
                    yield []
                elif job.failed and self._raises:
                    return
        finally:
            cancellation_service.unregister_abort_callback(request_id, calls.wake)
            calls.give_up("")


class _Calls:
    """The calls of a step while they run."""

    def __init__(self, context: ExecutionContext, jobs: Sequence[ToolJob], most: int) -> None:
        self._context, self._most = context, most
        self._threads = context.spare_threads()
        self._waiting = deque(jobs)
        self._running: list[ToolJob] = []
        self._taken = 0
        self._over: queue.Queue[ToolJob | None] = queue.Queue()

    def wake(self) -> None:
        self._over.put(None)

    def start_some(self) -> bool:
        """Start what there is room for. False: all are over."""
        while self._waiting and self._has_room():
            job = self._waiting.popleft()
            self._running.append(job)
            self._start(job)
        return bool(self._running)

    def _has_room(self) -> bool:
        """One call may always run: the thread of the loop only waits."""
        if not self._running:
            return True
        if len(self._running) >= self._most or not self._threads.acquire(blocking=False):
            return False
        self._taken += 1
        return True

    def wait(self, seconds: float) -> ToolJob | None:
        """The next call that is over; None: none was in this time."""
        try:
            job = self._over.get(timeout=seconds)
        except queue.Empty:
            return None
        if job is None or job not in self._running:
            return None
        self._running.remove(job)
        self._give_back()
        return job

    def _give_back(self) -> None:
        while self._taken > max(0, len(self._running) - 1):
            self._taken -= 1
            self._threads.release()

    def give_up(self, sentence: str) -> None:
        """Nobody waits any more. `sentence`: why, for the model; empty: nobody asks."""
        for job in [*self._running, *self._waiting]:
            job.given_up = True
            _end(job, sentence, TIMEOUT if sentence else CANCELLED)
            if job in self._running:  # what comes of it now is dropped
                cancellation_service.cancel_scope(job.part)
        self._running.clear()
        self._waiting.clear()
        self._give_back()

    def _start(self, job: ToolJob) -> None:
        stack = ExitStack()
        job.part = stack.enter_context(cancellation_service.scope(self._context.request_id))
        job.begun = time.monotonic()
        job.trace = begin_trace(self._context, job.call.tool, job.call.name, job.call.arguments_text)
        work = contextvars.copy_context().run
        name = f"tool {job.call.name}"
        worker = threading.Thread(target=work, args=(self._work, job, stack), name=name, daemon=True)
        try:
            worker.start()
        except RuntimeError as error:  # the machine has no more threads
            stack.close()
            _end(job, f"it could not be started: {error}", FAILED)
            self._over.put(job)

    def _work(self, job: ToolJob, stack: ExitStack) -> None:
        result, outcome = "", CANCELLED
        try:
            with enter_request(replace(self._context.request, request_id=job.part)):
                assert job.call.tool.call is not None
                result, outcome = job.call.tool.call(job.call.arguments), OK
        except ToolFailed as failure:
            result, outcome = str(failure), TIMEOUT if failure.is_timeout else FAILED
        except RequestCancelled:
            result = "it was cancelled"
        except Exception as error:
            _log_fault(job.call.name, error)
            result, outcome = type(error).__name__, FAILED
        finally:
            stack.close()
            _end(job, result, outcome)
            self._over.put(job)


def _log_fault(name: str, error: Exception) -> None:
    """What nobody expected: its kind and its place. Its words may be what the tool read."""
    frames = "".join(traceback.format_tb(error.__traceback__))
    logger.error("the tool %r of an agent failed with %s\n%s", name, type(error).__name__, frames)


def _end(job: ToolJob, result: str, outcome: str) -> None:
    """A call is over, once: what comes of one that was given up is dropped."""
    if job.outcome:
        return
    job.outcome, job.result = outcome, result
    job.seconds = time.monotonic() - job.begun if job.begun else 0.0
    if job.trace is not None:
        end_trace(job.trace, result, outcome)


# --------------------------------------------------------------------------
# What is told of a call to whoever observes the run.


def begin_trace(
    context: ExecutionContext, tool: AgentTool | None, name: str, arguments: str
) -> TracedCall | None:
    """A call of a tool begins. `tool`: None: there is none of this name."""
    if context.trace is None:
        return None
    kind = "tool" if tool is None else tool.kind
    known = "" if tool is None else tool.name
    trace = context.trace.call(CallTrace(kind, "", known or "a tool that is not there", "", tool=known))
    place = (tool.place or known) if tool is not None and context.trace.run.keeps_text else known
    trace.note_body(place, json_text({"tool": name, "arguments": arguments}).encode("utf-8", "replace"), {})
    return trace


def end_trace(trace: TracedCall, result: str, outcome: str) -> None:
    call = trace.call
    if trace.at.run.keeps_text:
        call.raw = result
    if outcome in (FAILED, TIMEOUT) and not trace.at.run.private:
        call.error = result
    trace.end("done" if outcome == OK else outcome)
