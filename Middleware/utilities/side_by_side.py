"""Pieces of work that run at the same time, in as many threads as the request has left.

The thread of the request works too; helpers are taken only as far as there are some, so nested pieces can
never wait for each other. Source: spec workflows.md 16.14.
"""

from __future__ import annotations

import contextvars
import queue
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Semaphore
from typing import Any, TypeVar

from Middleware.common.errors import without_tracebacks

T = TypeVar("T")


def run_together(count: int, work: Callable[[int], T], threads: Semaphore) -> list[T | BaseException]:
    """`work(0)` .. `work(count - 1)` at the same time; for each its result or what it raised.

    `threads`: how many helpers the request may still take. Every one is waited for. Of several errors only
    the first keeps its traceback: it is the one that is raised.
    """
    group = _Group(count, work)
    helpers = sum(threads.acquire(blocking=False) for _ in range(count - 1))
    try:
        with ThreadPoolExecutor(max(1, helpers), "parallel-nodes") as pool:
            for _ in range(helpers):
                pool.submit(contextvars.copy_context().run, group.help_out)
            group.help_out()
    finally:
        for _ in range(helpers):
            threads.release()
    return group.take_results()


class _Group:
    """The results of a group. Given away at the end: the calls that an error came through know the group,
    and an error that the group knew as well would keep the conversation in a reference cycle."""

    def __init__(self, count: int, work: Callable[[int], Any]) -> None:
        self._work = work
        self._results: list[Any] = [None] * count
        self._waiting: queue.SimpleQueue[int] = queue.SimpleQueue()
        for position in range(count):
            self._waiting.put(position)

    def help_out(self) -> None:
        while True:
            try:
                position = self._waiting.get_nowait()
            except queue.Empty:
                return
            try:
                self._results[position] = self._work(position)
            except Exception as error:  # handed to the caller, who raises the first
                self._results[position] = error

    def take_results(self) -> list[Any]:
        results, self._results = self._results, []
        failures = [result for result in results if isinstance(result, BaseException)]
        for failure in failures[1:]:
            without_tracebacks(failure)
        return results
