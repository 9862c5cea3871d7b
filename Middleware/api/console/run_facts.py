"""Facts of a run that several of its pictures need: tokens, names, nodes that never began. Pure.

Source: spec console.md 3.1 and 6.2.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Any

from Middleware.api.console.answer_times import answering_node
from Middleware.api.console.run_sums import count_of
from Middleware.services.run_trace import NodeTrace, RunTrace
from Middleware.workflows.handlers.registry import known_type
from Middleware.workflows.processors.run import title_of

ENDED = ("done", "failed", "cancelled", "refused")
RUN_STATES = ("waiting", "running", "answering", "finishing", *ENDED)
NOT_RUN = "not_run"
_NAMES = 3


def tokens_of(run: RunTrace) -> tuple[int | None, bool]:
    """The tokens of the answer, and whether that is an estimate. None: nothing is known."""
    node = answering_node(run)
    told = count_of(run.usage, "completion_tokens")
    if told is not None:
        return told, node is not None and not _is_reported(node)
    counter = run.counter
    if counter is not None:
        return counter(), True
    return (node.tokens, True) if node is not None and node.tokens else (None, False)


def _is_reported(node: NodeTrace) -> bool:
    """Whether a backend told how much it wrote for this node; else what the client is told is an
    estimate.
    """
    return any(count_of(call.usage, "completion_tokens") is not None for call in list(node.calls))


def workflow_names(run: RunTrace) -> list[str]:
    """The first workflow, and those that lead from it to the one that answers."""
    names = [run.workflow] if run.workflow else []
    if run.answering and run.answering not in names:
        names.append(run.answering)
    node, nested = answering_node(run), []
    while node is not None and node.parent is not None:
        nested.append(PurePosixPath(node.workflow).stem)
        node = node.parent
    return [*names, *reversed(nested)]


def workflow_of(run: RunTrace) -> str | None:
    """`Router > Code`; at most three names, then `...`."""
    names = workflow_names(run)
    shown = names[:_NAMES] + (["..."] if len(names) > _NAMES else [])
    return " > ".join(shown) or None


def not_run(run: RunTrace) -> list[NodeTrace]:
    """The nodes of the files that ran which had not begun when the run ended; without times."""
    if run.state not in ENDED:
        return []
    files: dict[tuple[int, str], list[NodeTrace]] = {}
    for node in list(run.nodes):
        files.setdefault((id(node.parent), node.workflow), []).append(node)
    return [_unstarted_node(nodes[0], n) for nodes in files.values() for n in _missing(nodes)]


def _missing(nodes: list[NodeTrace]) -> list[int]:
    begun = {node.number for node in nodes}
    return [number for number in range(1, nodes[0].of + 1) if number not in begun]


def _unstarted_node(sibling: NodeTrace, number: int) -> NodeTrace:
    fields: Mapping[str, Any] = {}
    if number <= len(sibling.file_nodes):
        fields = sibling.file_nodes[number - 1]
    return NodeTrace(
        sibling.workflow,
        number,
        known_type(fields.get("type")) if fields else "",
        title_of(fields),
        of=sibling.of,
        parent=sibling.parent,
        label=sibling.label,
        depth=sibling.depth,
        begun=0.0,
        state=NOT_RUN,
        fields=fields,
    )
