"""`Standard`: one request to one endpoint. Source: spec nodes.md 3.1."""

from __future__ import annotations

from typing import ClassVar

from Middleware.common.types import NodeConfig
from Middleware.workflows.handlers.base.base_workflow_node_handler import WorkflowNodeHandler
from Middleware.workflows.handlers.node_types import NODES
from Middleware.workflows.models.execution_context import ExecutionContext, LlmCall, NodeResult
from Middleware.workflows.models.node_keys import MODEL_NODES, NEEDED_TEXT, READ_AHEAD, Keys


@NODES.register("Standard")
class StandardNode(WorkflowNodeHandler):
    """Sends the node's prompt, or the conversation, to its endpoint. The output is the model's answer."""

    KEYS: ClassVar[Keys] = {
        "endpointName": MODEL_NODES["endpointName"].but(must=NEEDED_TEXT.must, required=True),
        "readAhead": READ_AHEAD,
    }
    RUNS_DRY = True
    CALLS_MODEL = True

    def takes_pictures(self, config: NodeConfig) -> bool:
        return bool(config.get("acceptImages"))

    def call_to_read(self, context: ExecutionContext) -> LlmCall:
        return LlmCall(
            llm_takes_images=self.takes_pictures(context.config),
            max_images=context.value("maxImagesToSend"),
        )

    def handle(self, context: ExecutionContext) -> NodeResult:
        return context.dispatch(self.call_to_read(context))
