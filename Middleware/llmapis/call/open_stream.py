"""A stream whose backend has answered: pulled batch by batch, closed in whatever way it ends.

A generator that was never started runs no `finally`; this object cleans up all the same. Source: spec
backends.md 15.4."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass

from Middleware.common.errors import BackendError, RequestCancelled
from Middleware.common.types import Batch
from Middleware.llmapis.call.call_log import CallLog
from Middleware.llmapis.call.stream_reader import StreamReader
from Middleware.llmapis.wire.abort import AbortHandle
from Middleware.llmapis.wire.http import DRAIN_S, Answer

CLOSE_DRAIN_S = 0.02


class OpenStream(Iterator[Batch]):
    """Batches of one stream; `[]` is a tick. A cancelled stream just ends. `closed()` is called once, at the
    end."""

    def __init__(
        self,
        answer: Answer,
        reader: StreamReader,
        handle: AbortHandle,
        log: CallLog,
        closed: Callable[[], None],
    ) -> None:
        self._ending = _Ending(answer, reader, handle, log, closed)
        # The generator knows the ending but not this object, so that dropping this object ends the call at
        # once.
        self._batches = _pull(answer, reader, handle, log, self._ending)

    @property
    def whole(self) -> bool:
        """Claims that the server answered in one piece instead of streaming."""
        return self._ending.reader.whole

    def __next__(self) -> Batch:
        return next(self._batches)

    def close(self) -> None:
        """Stop. Before the finishing dict this is a cancellation: the backend is told to stop as well.

        From another thread than the one that is pulling: that one ends the call, as soon as it wakes up.
        """
        if inspect.getgeneratorstate(self._batches) == inspect.GEN_RUNNING:
            self._ending.handle.abort()
            return
        self._ending.end("closed", CLOSE_DRAIN_S)
        self._batches.close()

    def __del__(self) -> None:
        self._ending.end("dropped", 0.0)


@dataclass(slots=True)
class _Ending:
    """What is done once, at the end of a stream, whichever way it ends."""

    answer: Answer
    reader: StreamReader
    handle: AbortHandle
    log: CallLog
    closed: Callable[[], None]
    over: bool = False

    def end(self, outcome: str, drain_s: float) -> None:
        if self.over:
            return
        self.over = True
        finish = self.reader.finish_reason
        if outcome in ("closed", "dropped") and finish is None:
            self.handle.abort()
        self.answer.close(drain_s=drain_s if self.reader.ended else 0.0)
        self.log.usage, self.log.truncated = self.reader.state.usage or None, self.reader.truncated
        if self.reader.failure is not None:
            self.log.failed(self.reader.failure)
        self.log.write(finish or outcome)
        self.closed()


def _pull(
    answer: Answer, reader: StreamReader, handle: AbortHandle, log: CallLog, ending: _Ending
) -> Generator[Batch, None, None]:
    outcome = "cancelled"
    try:
        for data in answer.reads():
            handle.check()
            batch: Batch = []
            if data:
                batch = reader.feed(data)
                if reader.ended:
                    batch += reader.finish()
                if batch:
                    log.saw(batch)
            elif reader.finishing:
                break
            yield batch
            if reader.ended:
                break
        if batch := reader.finish():
            log.saw(batch)
            yield batch
        outcome = str(reader.finish_reason)
    except RequestCancelled:
        return
    except BackendError as error:
        outcome = error.kind
        log.failed(error)
        yield reader.broken(error)
    finally:
        ending.end(outcome, DRAIN_S)
