"""Whoever leaves a run frees its backend at once, not when the garbage is collected next.

Each stream here is held by the test, so that only a `close()` can end it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from Middleware.common.errors import WorkflowError
from Middleware.common.types import Batch
from Middleware.workflows.handlers import node_types
from Middleware.workflows.handlers.base.base_workflow_node_handler import WorkflowNodeHandler
from Middleware.workflows.handlers.node_types import NODES
from Middleware.workflows.models.execution_context import ExecutionContext, NodeStream
from Middleware.workflows.streaming.response_handler import StreamingResponseHandler, _singly


class Held:
    """A stream of two words and an end; `closed`: how often it has ended."""

    def __init__(self) -> None:
        self.batches, self.closed = self._pulled(), 0

    def _pulled(self) -> Iterator[Batch]:
        try:
            yield [{"token": "a", "finish_reason": None}]
            yield [{"token": "b", "finish_reason": None}]
            yield [{"token": "", "finish_reason": "stop"}]
        finally:
            self.closed += 1


@pytest.fixture
def answers_with(monkeypatch):
    """`answers_with(stream)`: what a node of the type `Held` answers with."""
    answers: list[NodeStream] = []

    class HeldNode(WorkflowNodeHandler):
        def handle(self, context: ExecutionContext) -> NodeStream:
            return answers[0]

    monkeypatch.setitem(NODES._table, "Held", HeldNode)
    monkeypatch.setattr(node_types, "_handler", node_types._handler.__wrapped__)  # keeps no other test's
    return answers.append


@pytest.fixture(params=[False, True], ids=["of-a-model", "of-a-child"])
def held(request, answers_with) -> Held:
    held = Held()
    answers_with(NodeStream(held.batches, cleaned=request.param, value=lambda: "ab"))
    return held


def test_an_answer_that_is_left_after_its_first_words(house, held):
    """The client hung up."""
    house.workflow("Main", {"type": "Held"})
    batches = house.open(stream=True)
    next(batches)
    assert held.closed == 0
    batches.close()
    assert held.closed == 1


def test_an_answer_of_a_run_below(house, held):
    """Each run closes the one that it called."""
    house.workflow("Child", {"type": "Held"})
    house.workflow("Main", {"type": "CustomWorkflow", "workflowName": "Child"})
    batches = house.open(stream=True)
    next(batches)
    batches.close()
    assert held.closed == 1


def test_an_answer_that_cannot_be_cleaned(house, answers_with, monkeypatch):
    """The error of the run does not leave the backend at work."""

    def fail(*_: Any) -> Batch:
        raise OSError("no room")

    held = Held()
    answers_with(NodeStream(held.batches))
    monkeypatch.setattr(StreamingResponseHandler, "clean_batch", fail)
    house.workflow("Main", {"type": "Held", "endpointName": "chat"})
    with pytest.raises(WorkflowError, match="no room"):
        list(house.open(stream=True))
    assert held.closed == 1


@pytest.mark.parametrize(
    "through",
    [lambda batches: StreamingResponseHandler({}, {}).clean(batches), _singly],
    ids=["cleaner", "singly"],
)
def test_a_stage_closes_what_it_reads(through):
    """The cleaner, and the reader of single chunks."""
    held = Held()
    batches = through(held.batches)
    next(batches)
    batches.close()
    assert held.closed == 1
