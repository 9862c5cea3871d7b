"""What node types share that ask their own model with the node's prompt, or with the conversation."""

from __future__ import annotations

from typing import ClassVar

from Middleware.common.types import NodeConfig
from Middleware.workflows.handlers.base.base_workflow_node_handler import WorkflowNodeHandler
from Middleware.workflows.models.execution_context import ExecutionContext, LlmCall


class ModelNodeHandler(WorkflowNodeHandler):
    """A node type that asks as `Standard` does."""

    CALLS_MODEL: ClassVar[bool] = True

    def takes_pictures(self, config: NodeConfig) -> bool:
        return bool(config.get("acceptImages"))

    def own_call(self, context: ExecutionContext) -> LlmCall:
        """The call of the node's model as its fields say."""
        return LlmCall(
            llm_takes_images=self.takes_pictures(context.config),
            max_images=context.value("maxImagesToSend"),
        )
