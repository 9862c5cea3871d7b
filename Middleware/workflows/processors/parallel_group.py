"""Nodes that run at the same time because their workflow says so (`parallelGroup`).

Source: spec workflows.md 16.14.
The thread of the request works too; helpers are taken only as far as the request has threads left, so nested
groups can never wait for each other.
"""

from __future__ import annotations

import contextvars
import json
import logging
import queue
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from threading import Semaphore
from typing import Any, TypeVar

from Middleware.common.errors import without_tracebacks
from Middleware.workflows.handlers.node_types import node_handler
from Middleware.workflows.variables.workflow_variable_manager import LiveValues

logger = logging.getLogger(__name__)

T = TypeVar("T")

_REFERENCE = re.compile(r"agent(\d{1,18})(?:Output|Thinking|ToolCalls)")


def group_end(nodes: Sequence[Mapping[str, Any]], start: int) -> int:
    """Index behind the last node of the group that begins at `start` (`start + 1`: no group)."""
    name = nodes[start].get("parallelGroup")
    end = start + 1
    if not isinstance(name, str) or not name:
        return end
    while end < len(nodes) and nodes[end].get("parallelGroup") == name:
        end += 1
    return end


def obstacle(
    nodes: Sequence[Mapping[str, Any]], start: int, end: int, responder: int, values: LiveValues
) -> str | None:
    """Why the group cannot run at the same time, one clause; None: it can. `values`: as of `obstacles`."""
    reasons = (f"node {index + 1} {why}" for index, why in obstacles(nodes, start, end, responder, values))
    return next(reasons, None)


def obstacles(
    nodes: Sequence[Mapping[str, Any]], start: int, end: int, responder: int, values: LiveValues
) -> Iterator[tuple[int, str]]:
    """(index, what it does or is) of each member that keeps its group from running at the same time.

    `values`: of the variables, whose texts may name outputs too.
    """
    bring_outputs = bool(values.values) and bool(_REFERENCE.search(json.dumps(values.values, default=str)))
    for index in range(start, end):
        node = nodes[index]
        written = _REFERENCE.findall(json.dumps(node, default=str))
        names = values.names_looked_up(node) if bring_outputs else ()
        written += [match[1] for match in map(_REFERENCE.fullmatch, names) if match]
        used = [number for number in set(map(int, written)) if start < number <= end and number != index + 1]
        if used:
            yield index, f"uses the output of node {min(used)} of its own group"
        elif index == responder:
            yield index, "answers"
        elif not node_handler(node.get("type")).fits_in_parallel_group(node):
            yield index, "is of a type or has a setting that must run alone"


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
