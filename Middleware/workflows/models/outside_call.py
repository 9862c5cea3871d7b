"""What a node asks of the world outside, told to whoever observes its run. Source: spec console.md 3.3."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from Middleware.common.errors import RequestCancelled
from Middleware.services.run_trace import CallTrace, TracedCall
from Middleware.utilities.sensitive_logging_utils import told
from Middleware.workflows.models.execution_context import ExecutionContext


class OutsideCall:
    """One such call, while it lasts."""

    def __init__(self, trace: TracedCall | None = None) -> None:
        self._trace = trace

    def came(self, answer: object, status: int | None = None) -> None:
        """What it brought: a text, bytes, or what cannot be shown. `status`: of HTTP, or of a program."""
        if self._trace is None:
            return
        self._trace.call.status = status
        if self._trace.at.run.keeps_text:
            text = answer.decode("utf-8", "replace") if isinstance(answer, bytes) else answer
            self._trace.call.raw = text if isinstance(text, str) else None


_UNSEEN = OutsideCall()


@contextmanager
def outside_call(
    context: ExecutionContext, kind: str, name: str, *, place: str = "", body: bytes = b""
) -> Iterator[OutsideCall]:
    """Inside the block the node makes a call of this kind (`http`, `command`, `mcp`, `script`).

    `name`: whom it calls; `place`: the whole address, which may hold what people wrote: as `body`, it is kept
    only where texts are.
    """
    trace = context.trace
    if trace is None:
        yield _UNSEEN
        return
    call = trace.call(CallTrace(kind, "", name, ""))
    call.sends(place if trace.run.keeps_text and place else name, body, {})
    outcome = "done"
    try:
        yield OutsideCall(call)
    except RequestCancelled:
        outcome = "cancelled"
        raise
    except Exception as error:
        outcome, call.call.error = type(error).__name__, told(error)
        raise
    finally:
        call.end(outcome)
