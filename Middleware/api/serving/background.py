"""Threads for work that outlives or precedes an answer: reused while idle, never waited for at exit.

Each task runs in the context that it is given, so that log lines and redaction follow the request.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable

logger = logging.getLogger(__name__)

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
