"""`QualityMemory`: remembers what is new in the conversation. Source: spec memory.md 9.3."""

from __future__ import annotations

from Middleware.common.types import NodeConfig
from Middleware.services.discussion_store import DiskFaults
from Middleware.workflows.handlers.base.base_workflow_node_handler import MACHINE, WorkflowNodeHandler
from Middleware.workflows.handlers.node_types import NODES
from Middleware.workflows.memory.writer import remember, tool_value
from Middleware.workflows.models.execution_context import ExecutionContext, NodeResult

NO_DISCUSSION = "No discussionId on this request; memories were not generated."


@NODES.register("QualityMemory")
class QualityMemoryNode(WorkflowNodeHandler):
    """Creates the memories that are due, of the kind that the settings file says. The output is empty."""

    PALETTE = "memory"

    POWERS = frozenset([MACHINE])

    KEEPS_TO_DISCUSSION = True

    def user_settings(self, config: NodeConfig) -> tuple[str, ...]:
        return ("discussionIdMemoryFileWorkflowSettings",)

    def handle(self, context: ExecutionContext) -> NodeResult:
        if context.store is not None:
            remember(context, DiskFaults())
            return None
        workflow = context.user.recent_memory_tool_workflow
        if not workflow:
            return NO_DISCUSSION
        return tool_value(context, "recentMemoryToolWorkflow", workflow, NO_DISCUSSION)

    def writes(self, config: NodeConfig) -> str:
        return "makes memories of the discussion"

    def dry_notes(self, context: ExecutionContext) -> list[str]:
        return ["would make the memories that are due"] if context.store is not None else []
