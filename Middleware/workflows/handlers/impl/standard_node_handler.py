"""`Standard`: one request to one endpoint. Source: spec nodes.md 3.1."""

from __future__ import annotations

from typing import ClassVar

from Middleware.workflows.handlers.base.model_node_handler import ModelNodeHandler
from Middleware.workflows.handlers.node_types import NODES
from Middleware.workflows.models.execution_context import ExecutionContext, LlmCall, NodeResult
from Middleware.workflows.models.node_keys import MODEL_NODES, NEEDED_TEXT, READ_AHEAD, Keys


@NODES.register("Standard")
class StandardNode(ModelNodeHandler):
    """Sends the node's prompt, or the conversation, to its endpoint. The output is the model's answer."""

    PALETTE = "model"

    KEYS: ClassVar[Keys] = {
        "endpointName": MODEL_NODES["endpointName"].but(must=NEEDED_TEXT.must, required=True),
        "readAhead": READ_AHEAD,
    }
    RUNS_DRY = True

    def call_to_read(self, context: ExecutionContext) -> LlmCall:
        return self.own_call(context)

    def handle(self, context: ExecutionContext) -> NodeResult:
        return context.dispatch(self.own_call(context))
