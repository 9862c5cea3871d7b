"""`Standard`: one request to one endpoint. Source: spec nodes.md 3.1."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from Middleware.common.types import NodeConfig
from Middleware.workflows.handlers.base.base_workflow_node_handler import Schema, WorkflowNodeHandler
from Middleware.workflows.handlers.node_types import NODES
from Middleware.workflows.models.execution_context import ExecutionContext, LlmCall, NodeResult


@NODES.register("Standard")
class StandardNode(WorkflowNodeHandler):
    """Sends the node's prompt, or the conversation, to its endpoint. The output is the model's answer."""

    FIELDS: ClassVar[Mapping[str, str]] = {
        "endpointName": "The file in `Endpoints/` of the model. The name can contain workflow variables "
        "and {agent1Input}.",
    }
    SCHEMA: ClassVar[Schema] = {
        "properties": {"endpointName": {"type": "string", "minLength": 1}},
        "required": ["endpointName"],
    }
    RUNS_DRY = True
    CALLS_MODEL = True

    def takes_pictures(self, config: NodeConfig) -> bool:
        return bool(config.get("acceptImages"))

    def handle(self, context: ExecutionContext) -> NodeResult:
        limit = context.config.get("maxImagesToSend")
        call = LlmCall(
            llm_takes_images=self.takes_pictures(context.config),
            max_images=limit if isinstance(limit, int) else 0,
        )
        return context.dispatch(call)
