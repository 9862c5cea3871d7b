"""A stream whose backend has answered: pulled batch by batch, closed in whatever way it ends.

A generator that was never started runs no `finally`; this object cleans up all the same. Source: spec
backends.md 15.4."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Generator, Iterator
from dataclasses import dataclass

from Middleware.common.errors import BackendError, RequestCancelled
from Middleware.common.types import Batch
from Middleware.llmapis.backend_errors import told_error
from Middleware.llmapis.call.chunk_forms import is_visible
from Middleware.llmapis.call.outgoing_call import OutgoingCall
from Middleware.llmapis.call.stream_reader import StreamReader
from Middleware.llmapis.wire.http import DRAIN_S, Answer

logger = logging.getLogger(__name__)

CLOSE_DRAIN_S = 0.02


class OpenStream(Iterator[Batch]):
    """Batches of one stream; `[]` is a tick. A cancelled stream just ends.

    An answer whose tool call is no good is asked for once more, as long as none of it has been given."""

    def __init__(self, call: OutgoingCall, answer: Answer) -> None:
        self._ending = _Ending(call, answer, call.reader(answer))
        # The generator knows the ending but not this object, so that dropping this object ends the call at
        # once.
        self._batches = _pull(self._ending)

    @property
    def is_whole(self) -> bool:
        """Whether the server answered in one piece instead of streaming."""
        return self._ending.reader.whole

    def __next__(self) -> Batch:
        return next(self._batches)

    def close(self) -> None:
        """Stop. Before the finishing dict this is a cancellation: the backend is told to stop as well.

        From another thread than the one that is pulling: that one ends the call, as soon as it wakes up.
        """
        if inspect.getgeneratorstate(self._batches) == inspect.GEN_RUNNING:
            self._ending.call.handle.abort()
            return
        self._ending.end("closed", CLOSE_DRAIN_S)
        self._batches.close()

    def __del__(self) -> None:
        self._ending.end("dropped", 0.0)


@dataclass(slots=True)
class _Ending:
    """What is read, and what is done once, at the end of a stream, whichever way it ends."""

    call: OutgoingCall
    answer: Answer
    reader: StreamReader
    over: bool = False

    def ask_again(self, why: BackendError) -> None:
        """Another answer in the place of this one. Raises BackendError, RequestCancelled."""
        logger.warning("%s; once more", why)
        self.answer.close()
        self.answer = self.call.post()
        self.reader = self.call.reader(self.answer)

    def end(self, outcome: str, drain_s: float) -> None:
        if self.over:
            return
        self.over = True
        log, reader = self.call.log, self.reader
        if outcome in ("closed", "dropped") and reader.finish_reason is None:
            self.call.handle.abort()
        self.answer.close(drain_s=drain_s if reader.ended else 0.0)
        log.usage, log.truncated = reader.state.usage or None, reader.truncated
        if reader.failure is not None:
            log.note_failure(reader.failure)
        log.write(reader.finish_reason or outcome)
        self.call.unregister()


def _pull(ending: _Ending) -> Generator[Batch, None, None]:
    outcome, given = "cancelled", False
    again = ending.call.asks_again
    try:
        while True:
            try:
                for batch in _read_batches(ending):
                    if ending.reader.bad_call and not given:
                        raise told_error(ending.call.endpoint, batch[-1]["error"])
                    yield batch
                    given = given or any(map(is_visible, batch))
                break
            except BackendError as error:
                is_slip = ending.reader.bad_call and error.kind == "protocol_error"
                if given or not again or not is_slip:
                    raise
                again = False
                ending.ask_again(error)
        outcome = str(ending.reader.finish_reason)
    except RequestCancelled:
        return
    except BackendError as error:
        outcome = error.kind
        ending.call.log.note_failure(error)
        if not given and ending.reader.bad_call:
            raise
        yield ending.reader.connection_failed(error)
    finally:
        ending.end(outcome, DRAIN_S)


def _read_batches(ending: _Ending) -> Iterator[Batch]:
    """The batches of one answer, to its end. Raises BackendError, RequestCancelled."""
    reader, call = ending.reader, ending.call
    for data in ending.answer.read_pieces():
        call.handle.check()
        batch: Batch = []
        if data:
            batch = reader.feed(data)
            if reader.ended:
                batch += reader.finish()
            if batch:
                call.log.note_batch(batch)
        elif reader.finishing:
            break
        yield batch
        if reader.ended:
            break
    if batch := reader.finish():
        call.log.note_batch(batch)
        yield batch
