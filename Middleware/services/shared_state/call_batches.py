"""Calls of many threads to one server far away: those that wait are sent together, in order.

One thread at a time sends what has gathered, its own call and those of others, and waits once for all; then
one of those whose calls have gathered meanwhile does. What nobody waits for is taken along, or sent by a
thread of its own.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any


class BatchedCall:
    """One call. `name`, `words`: what is asked. `answer`: of the server, an exception when it failed.
    `awaited`: a thread waits for it, by `news`, a lock that is held until the call is done or the thread is
    the one that sends (`sends`).
    """

    __slots__ = ("answer", "awaited", "is_done", "name", "news", "sends", "words")

    def __init__(self, name: str, words: Sequence[Any], *, awaited: bool) -> None:
        self.name, self.words, self.awaited = name, words, awaited
        self.answer: Any = None
        self.is_done = self.sends = False
        self.news = threading.Lock()
        self.news.acquire()


class CallBatches:
    """`send(calls)`: the answer of each, in order, an exception for one that failed; raises what fails them
    all.
    """

    def __init__(self, send: Callable[[Sequence[BatchedCall]], Sequence[Any]]) -> None:
        self._send = send
        self._guard = threading.Lock()
        self._gathered: list[BatchedCall] = []
        self._is_sending = False
        """A thread sends, or has been told to."""
        self._posted = threading.Semaphore(0)
        self._poster: threading.Thread | None = None
        self._missed: Exception | None = None
        """Of a call that nobody waited for."""

    def ask(self, name: str, words: Sequence[Any], when_queued: Callable[[], object] | None = None) -> Any:
        """The answer. Raises what the call raised, or one before that nobody waited for.

        `when_queued` is called when all that is asked or posted later is sure to be sent later.
        """
        call = BatchedCall(name, words, awaited=True)
        with self._guard:
            missed, self._missed = self._missed, None
            if missed is not None:
                raise missed
            self._gathered.append(call)
            call.sends = not self._is_sending
            self._is_sending = True
        if when_queued is not None:
            when_queued()
        if not call.sends:
            self._wait(call)
        if not call.is_done:
            self._send_gathered()
        if isinstance(call.answer, Exception):
            raise call.answer
        return call.answer

    def post(self, name: str, words: Sequence[Any]) -> None:
        """Ask, and do not wait. When it fails, the next call raises its error."""
        with self._guard:
            self._gathered.append(BatchedCall(name, words, awaited=False))
            if self._is_sending:
                return
            self._is_sending = True
            self._wake_poster()

    def _wait(self, call: BatchedCall) -> None:
        try:
            call.news.acquire()
        except BaseException:  # a server that stops its thread here
            with self._guard:
                call.awaited = False
                if call.sends and not call.is_done:
                    self._hand_on()
            raise

    def _wake_poster(self) -> None:
        if self._poster is None:
            self._poster = threading.Thread(target=self._post, name="shared-state-poster", daemon=True)
            self._poster.start()
        self._posted.release()

    def _post(self) -> None:
        while self._posted.acquire():
            self._send_gathered()

    def _send_gathered(self) -> None:
        """Send what has gathered; what comes meanwhile is sent by the next."""
        with self._guard:
            calls, self._gathered = self._gathered, []
        answers: Sequence[Any] = [ConnectionAbortedError("the thread that sent it has ended")] * len(calls)
        try:
            answers = self._send(calls)
        except Exception as error:
            answers = [error] * len(calls)
        finally:
            with self._guard:
                self._settle(calls, answers)
                self._hand_on()

    def _settle(self, calls: Sequence[BatchedCall], answers: Sequence[Any]) -> None:
        for call, answer in zip(calls, answers, strict=True):
            call.answer, call.is_done = answer, True
            if not call.awaited and isinstance(answer, Exception):
                self._missed = answer
            if not call.sends:
                call.news.release()

    def _hand_on(self) -> None:
        """The first of those that wait sends next. The guard is held."""
        following = next((call for call in self._gathered if call.awaited), None)
        if following is not None:
            following.sends = True
            following.news.release()
        elif self._gathered:
            self._wake_poster()
        else:
            self._is_sending = False
