"""What the loop tells of its nodes: the trace of each, and the lines in the log that are made of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from Middleware.common.types import Chunk, JsonObject
from Middleware.services.run_trace import NodeTrace, TracedNode
from Middleware.utilities.text_utils import estimate_tokens
from Middleware.workflows.handlers.registry import known_type
from Middleware.workflows.models.execution_context import ExecutionContext
from Middleware.workflows.processors.run import Run, title_of

_IN_THE_LOG = {
    "failed": "failed",
    "went_on": "failed",
    "cancelled": "cancelled",
    "stopped": "stopped",
    "refused": "refused",
}
"""State of a node -> what its line says; nothing of one that did its work."""


def node_trace(run: Run, index: int, responder: int) -> NodeTrace:
    """The trace of node `index`, which begins now."""
    node, parent = run.file.nodes[index], run.node
    group = node.get("parallelGroup")
    return NodeTrace(
        run.file.file,
        index + 1,
        known_type(node.get("type")),
        title_of(node),
        of=len(run.file.nodes),
        group=group if isinstance(group, str) else None,
        parent=parent,
        label=run.label,
        depth=len(run.chain) - 1,
        answers=index == responder and not run.internal,
        after=(index > responder and not run.internal) or (parent is not None and parent.after),
        fields=node,
        file_nodes=run.file.nodes,
    )


def note_model(node: NodeTrace, context: ExecutionContext) -> None:
    if context.llm_handler is not None:
        llm = context.llm_handler.llm
        node.endpoint, node.url, node.preset = llm.endpoint.name, llm.endpoint.url, llm.presetname or ""


def tell_answer(trace: TracedNode, text: str, finish: Chunk) -> None:
    """The answer is complete. What leaves in one piece has its first text here."""
    trace.run.finish_reason, trace.run.usage = finish["finish_reason"], finish.get("usage")
    if text:
        trace.says(None)


class Cleaned(NamedTuple):
    """A text before and after cleaning, and what was hidden."""

    raw: str
    text: str
    thoughts: list[str]


def keep_cleaning(
    context: ExecutionContext, made: Cleaned, endpoint: Mapping[str, Any] | None, opening: str | None
) -> None:
    """Keep what cleaning did, where texts are kept. `endpoint`: the file that it was cleaned by, None: it
    was not."""
    trace = context.trace
    if trace is None or not trace.run.keeps_text:
        return
    by = None if endpoint is None else (endpoint, context.config, context.user.raw, opening)
    trace.node.cleaned(made.raw, made.text, made.thoughts, by)


def summary(run: Run, nodes: list[NodeTrace], text_of: Callable[[int], str]) -> str:
    """The run's lines in the log. `text_of(number)`: the output of a node as text."""
    lines = [f"{run.file.file}: {len(nodes)} of {len(run.file.nodes)} nodes ran"]
    for node in nodes:
        node.tokens = node.tokens or estimate_tokens(text_of(node.number))
        ended = _IN_THE_LOG.get(node.state, "")
        lines.append(
            f"  {node.number} {node.type} '{node.title or 'N/A'}' {node.endpoint} {node.url} "
            f"{node.seconds:.3f} s, {node.tokens} tokens{ended and ', ' + ended}"
        )
    return "\n".join(lines)


def logged(node: NodeTrace) -> JsonObject:
    """A node in the log's line `trace`."""
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
