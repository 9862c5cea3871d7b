"""A stream whose backend has answered: pulled batch by batch, closed in whatever way it ends.

A generator that was never started runs no `finally`; this object cleans up all the same. Source: spec
backends.md 15.4."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator

from Middleware.common.errors import BackendError, RequestCancelled
from Middleware.common.types import Batch, Batches
from Middleware.llmapis.handlers.base.call_log import CallLog
from Middleware.llmapis.handlers.base.stream_reader import StreamReader
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
        self._answer, self._reader, self._handle, self._log, self._closed = (
            answer,
            reader,
            handle,
            log,
            closed,
        )
        self._over = False
        self._batches = self._pull()

    def __next__(self) -> Batch:
        return next(self._batches)

    def close(self) -> None:
        """Stop. Before the finishing dict this is a cancellation: the backend is told to stop as well."""
        self._end("closed", CLOSE_DRAIN_S)
        self._batches.close()

    def __del__(self) -> None:
        self._end("dropped", 0.0)

    def _pull(self) -> Generator[Batch, None, None]:
        reader, log, outcome = self._reader, self._log, "cancelled"
        try:
            for data in self._answer.reads():
                self._handle.check()
                if data:
                    batch = reader.feed(data)
                    if reader.ended:
                        batch += reader.finish()
                    if batch:
                        log.saw(batch)
                elif reader.finishing:
                    break
                else:
                    batch = []
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
            yield reader.broken(error)
        finally:
            self._end(outcome, DRAIN_S)

    def _end(self, outcome: str, drain_s: float) -> None:
        if self._over:
            return
        self._over = True
        finish = self._reader.finish_reason
        if outcome in ("closed", "dropped") and finish is None:
            self._handle.abort()
        self._answer.close(drain_s=drain_s if self._reader.ended else 0.0)
        self._log.usage = self._reader.state.usage or None
        self._log.write(finish or outcome)
        self._closed()


def close_batches(batches: Batches) -> None:
    """Close a stream that can be closed; a plain iterator (a demo model's, an empty one) needs nothing."""
    close = getattr(batches, "close", None)
    if close is not None:
        close()
