"""The log's lines of the nodes that ran: an observer of runs.

One summary a run of a workflow file, written as soon as it can only be complete: when its last node has
ended, when one ended it early, when the node that called it ends, or with the request. Light: a server has it
before its first question. Source: spec console.md 3.2, workflows.md 6.8.
"""

from __future__ import annotations

import json
import logging
import threading
from dataclasses import dataclass, field
from typing import Any

from Middleware.common.request_context import RequestContext
from Middleware.common.types import JsonObject
from Middleware.services.node_trace import NodeTrace
from Middleware.services.run_trace import Observers, RunTrace

logger = logging.getLogger("Middleware.workflows.processors.workflows_processor")
all_nodes_logger = logging.getLogger("Middleware.workflows.managers.workflow_manager")
"""The names under which these lines have always stood."""

_IN_THE_LOG = {
    "failed": "failed",
    "went_on": "failed",
    "cancelled": "cancelled",
    "stopped": "stopped",
    "refused": "refused",
}
"""State of a node -> what its line says; nothing of one that did its work."""

_ENDS_ITS_FILE = ("failed", "cancelled", "stopped", "refused")

Walk = dict[int, NodeTrace]
"""Number -> node, of one run of one file."""


@dataclass(slots=True)
class _Walks:
    """Of one request. `open`: by the node that called the file, None: nobody; `told`: nodes whose lines are
    written."""

    open: dict[NodeTrace | None, Walk] = field(default_factory=dict)
    told: list[NodeTrace] = field(default_factory=list)


class NodeLines:
    """Writes at INFO; at DEBUG also one line of JSON with all nodes of a request."""

    keeps_text = False
    changes = ("node", "node_ended", "ended")

    def __init__(self) -> None:
        self._of: dict[RunTrace, _Walks] = {}
        self._guard = threading.Lock()

    def note_change(self, run: RunTrace, what: str, node: NodeTrace | None) -> None:
        if what == "ended":
            self._log_run_end(run)
        elif node is None or not logger.isEnabledFor(logging.INFO):
            return
        elif what == "node":
            self._log_start(run, node)
        elif what == "node_ended":
            self._log_end(run, node)

    def _log_start(self, run: RunTrace, node: NodeTrace) -> None:
        with self._guard:
            walks = self._of.setdefault(run, _Walks())
            before = walks.open.get(node.parent)
            if before is None or _is_another(before, node):
                walks.open[node.parent] = {node.number: node}
            else:
                before[node.number] = node
                before = None
        if before:
            _write(walks, before)

    def _log_end(self, run: RunTrace, node: NodeTrace) -> None:
        walks = self._of.get(run)
        if walks is None:
            return
        with self._guard:
            complete = [walks.open.pop(node, None)]
            walk = walks.open.get(node.parent)
            if walk is not None and _is_over(walk, node):
                complete.append(walks.open.pop(node.parent))
        for one in filter(None, complete):
            _write(walks, one)

    def _log_run_end(self, run: RunTrace) -> None:
        walks = self._of.pop(run, None)
        if walks is None:
            return
        for walk in reversed(walks.open.values()):
            _write(walks, walk)
        if all_nodes_logger.isEnabledFor(logging.DEBUG):
            nodes = [_as_json(node) for node in walks.told]
            all_nodes_logger.debug("trace %s", json.dumps({"request": run.id, "nodes": nodes}))


def _is_another(walk: Walk, node: NodeTrace) -> bool:
    """Whether the node belongs to a later run than these: another file's, or the same one's again."""
    return node.number in walk or next(iter(walk.values())).workflow != node.workflow


def _is_over(walk: Walk, node: NodeTrace) -> bool:
    """Whether the node, which has ended, was the last of its run. Members of a group say nothing: others
    may still begin."""
    is_last = len(walk) == node.of or (node.group is None and node.state in _ENDS_ITS_FILE)
    return is_last and all(one.ended for one in walk.values())


def _write(walks: _Walks, walk: Walk) -> None:
    nodes = sorted(walk.values(), key=lambda node: node.number)
    walks.told += nodes
    if logger.isEnabledFor(logging.INFO):
        logger.info("%s", _summary(nodes))


def _summary(nodes: list[NodeTrace]) -> str:
    lines = [f"{nodes[0].workflow}: {len(nodes)} of {nodes[0].of} nodes ran"]
    for node in nodes:
        ended = _IN_THE_LOG.get(node.state, "")
        lines.append(
            f"  {node.number} {node.type} '{node.title or 'N/A'}' {node.endpoint} {node.url} "
            f"{node.seconds:.3f} s, {node.tokens} tokens{ended and ', ' + ended}"
        )
    return "\n".join(lines)


def _as_json(node: NodeTrace) -> JsonObject:
    told: dict[str, Any] = {
        "workflow": node.workflow,
        "number": node.number,
        "type": node.type,
        "title": node.title or "N/A",
        "endpoint": node.endpoint,
        "url": node.url,
        "seconds": node.seconds,
        "tokens": node.tokens,
        "ended": _IN_THE_LOG.get(node.state, ""),
    }
    return told


def trace_for_the_log(request: RequestContext) -> RunTrace | None:
    """The trace of a request that came through no door, for its lines in the log; None: nobody wants them."""
    if not logger.isEnabledFor(logging.INFO):
        return None
    observers = Observers()
    observers.observe(NodeLines())
    run = observers.begin(request.request_id, "")
    if run is not None:
        run.begin()
        run.name(request, front="", stream=False, asked=b"")
    return run
