"""What the loop tells of its nodes to those who observe its run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from Middleware.common.types import Batches, Chunk
from Middleware.services.run_trace import NodeTrace, RunTrace, TracedNode
from Middleware.utilities.text_utils import estimate_tokens
from Middleware.workflows.handlers.registry import known_type
from Middleware.workflows.models.execution_context import ExecutionContext
from Middleware.workflows.models.node_result import NodeValue, result_text
from Middleware.workflows.processors.run import Run, title_of
from Middleware.workflows.streaming.response_handler import StreamingResponseHandler


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
        node.endpoint, node.url, node.preset = llm.endpoint.name, llm.address, llm.presetname or ""


def tell_output(trace: TracedNode | None, output: NodeValue, thoughts: list[str]) -> None:
    """What a node gives to the nodes after it. `trace`: None: nobody observes."""
    if trace is None:
        return
    trace.node.tokens = estimate_tokens(result_text(output))
    if trace.run.keeps_text:
        trace.node.output, trace.node.thoughts = output, thoughts


def tell_answer(run: RunTrace, node: NodeTrace | None, text: str, finish: Chunk) -> None:
    """The answer is complete. What leaves in one piece has its first text here. `node`: who gave it, None: it
    stands in for that of a run that a lock ended."""
    run.finish_reason, run.usage = finish["finish_reason"], finish.get("usage")
    if text:
        run.note_first_text(None, node)


def until_text(
    trace: TracedNode,
    batches: Batches,
    cleaner: StreamingResponseHandler | None,
    counter: Callable[[], int],
) -> Batches:
    """The batches of an answer up to the first with text, which is told; and that its model thinks, as soon
    as it shows. `counter()`: pieces of the answer so far."""
    thinks = False
    for batch in batches:
        if not thinks and cleaner is not None and cleaner.has_thought:
            thinks = True
            trace.note_thought()
        if any(chunk["token"] for chunk in batch):
            trace.note_first_text(counter)
            yield batch
            return
        yield batch


def settle_thought(trace: TracedNode, cleaner: StreamingResponseHandler | None) -> None:
    """All of an answer is cleaned: whether its model thought. Behind its first text that is no news."""
    if cleaner is None:
        return
    if not cleaner.has_thought:
        trace.thought_nothing()
    elif not trace.run.first_text:
        trace.note_thought()


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
    trace.node.note_cleaning(made.raw, made.text, made.thoughts, by)
