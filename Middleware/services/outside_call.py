"""What a node asks of the world outside, told to whoever observes its run. Source: spec console.md 3.3."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from Middleware.common.errors import RequestCancelled
from Middleware.services.run_trace import CallTrace, TracedCall, TracedNode
from Middleware.utilities.sensitive_logging_utils import loggable_error


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
