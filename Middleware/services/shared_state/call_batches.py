"""Calls of many threads to one server far away: those that wait are sent together, in order.

Whoever asks sends what has gathered until then, its own call and those of others, and waits once for all.
What nobody waits for is taken along, or sent by a thread of its own.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any


class BatchedCall:
    """One call. `name`, `words`: what is asked. `answer`: of the server, an exception when it failed.
    `awaited`: somebody waits for it.
    """

    __slots__ = ("answer", "awaited", "is_done", "name", "words")

    def __init__(self, name: str, words: Sequence[Any], *, awaited: bool) -> None:
        self.name, self.words, self.awaited = name, words, awaited
        self.answer: Any = None
        self.is_done = False


class CallBatches:
    """`send(calls)`: the answer of each, in order, an exception for one that failed; raises what fails them
    all.
    """

    def __init__(self, send: Callable[[Sequence[BatchedCall]], Sequence[Any]]) -> None:
        self._send = send
        self._guard = threading.Lock()
        self._sending = threading.Lock()
        self._gathered: list[BatchedCall] = []
        self._posted = threading.Event()
        self._poster: threading.Thread | None = None
        self._missed: Exception | None = None
        """Of a call that nobody waited for."""

    def ask(self, name: str, words: Sequence[Any]) -> Any:
        """The answer. Raises what the call raised, or one before that nobody waited for."""
        with self._guard:
            missed, self._missed = self._missed, None
            if missed is not None:
                raise missed
            call = BatchedCall(name, words, awaited=True)
            self._gathered.append(call)
        with self._sending:
            if not call.is_done:
                self._send_gathered()
        if isinstance(call.answer, Exception):
            raise call.answer
        return call.answer

    def post(self, name: str, words: Sequence[Any]) -> None:
        """Ask, and do not wait. When it fails, the next call raises its error."""
        with self._guard:
            self._gathered.append(BatchedCall(name, words, awaited=False))
            if self._poster is None:
                self._poster = threading.Thread(target=self._post, name="shared-state-poster", daemon=True)
                self._poster.start()
        self._posted.set()

    def _post(self) -> None:
        while self._posted.wait():
            self._posted.clear()
            with self._sending:
                self._send_gathered()

    def _send_gathered(self) -> None:
        """Nobody else is sending: what comes meanwhile is for the next time."""
        with self._guard:
            calls, self._gathered = self._gathered, []
        if not calls:
            return
        answers: Sequence[Any] = [ConnectionAbortedError("the thread that sent it has ended")] * len(calls)
        try:
            answers = self._send(calls)
        except Exception as error:
            answers = [error] * len(calls)
        finally:
            self._settle(calls, answers)

    def _settle(self, calls: Sequence[BatchedCall], answers: Sequence[Any]) -> None:
        for call, call.answer in zip(calls, answers, strict=True):
            call.is_done = True
            if not call.awaited and isinstance(call.answer, Exception):
                self._missed = call.answer
