"""WorkflowLock: lets one run at a time through. Calls no model. Source: spec nodes.md 3.13, workflows.md
11.
"""

from __future__ import annotations

from typing import ClassVar

from Middleware.common.errors import EarlyTermination
from Middleware.common.types import NodeConfig
from Middleware.workflows.handlers.base.base_workflow_node_handler import WorkflowNodeHandler
from Middleware.workflows.handlers.node_types import NODES
from Middleware.workflows.models.execution_context import ExecutionContext
from Middleware.workflows.models.node_keys import NEEDED_TEXT, TEXT, Keys


@NODES.register("WorkflowLock")
class WorkflowLockNode(WorkflowNodeHandler):
    """Takes the lock `workflowLockId` until this run ends. If another run holds it, this run and its
    parents end here.
    """

    PALETTE = "workflows"

    KEYS: ClassVar[Keys] = {
        "workflowLockId": NEEDED_TEXT(
            "The name of the lock, shared by all workflows of a user. Variables are not filled in."
        ),
        "lockedMessage": TEXT(
            "The answer if the run ends here before anything has been answered. Takes variables.", form="text"
        ),
    }
    RUNS_DRY = True

    def handle(self, context: ExecutionContext) -> None:
        lock_id = context.value("workflowLockId")
        if not context.acquire_lock(lock_id):
            message = context.fill(context.value("lockedMessage"))
            raise EarlyTermination(f"lock '{lock_id}' is held", locked_message=message)

    def takes_lock(self, config: NodeConfig) -> str | None:
        lock_id = config.get("workflowLockId")
        return lock_id if isinstance(lock_id, str) else None

    def fits_in_parallel_group(self, config: NodeConfig) -> bool:
        return False
