"""Nodes that run at the same time because their workflow says so (`parallelGroup`): which do, and which
cannot. Source: spec workflows.md 16.14.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from Middleware.workflows.handlers.node_types import node_handler
from Middleware.workflows.variables.workflow_variable_manager import LiveValues

logger = logging.getLogger(__name__)

_REFERENCE = re.compile(r"agent(\d{1,18})(?:Output|Thinking|ToolCalls|Candidates)")


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
