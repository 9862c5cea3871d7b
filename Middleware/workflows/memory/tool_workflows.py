"""Workflows that the user file names for memory nodes. A name that leads nowhere costs no chat.

Source: spec memory.md 9.1, 18.2 (4).
"""

from __future__ import annotations

import logging

from Middleware.common.errors import ConfigMissing
from Middleware.workflows.models.execution_context import ExecutionContext
from Middleware.workflows.models.node_result import NodeResult

logger = logging.getLogger(__name__)


def tool_value(context: ExecutionContext, setting: str, workflow: str, otherwise: str) -> NodeResult:
    """The value of `workflow`, which the user file names under `setting`; `otherwise` (and an error in the
    log)
    when it names none, or one that does not exist. Raises what a node of the workflow raises.
    """
    if not workflow:
        logger.error(
            "Users/%s.json#/%s: a workflow is needed here by a memory node", context.user.name, setting
        )
        return otherwise
    try:
        return context.run_workflow(workflow, internal=True)
    except ConfigMissing as error:
        logger.error("Users/%s.json#/%s: %s", context.user.name, setting, error)
        return otherwise
