"""Workflows that the user file names for memory nodes. A name that leads nowhere costs no chat.

Source: spec memory.md 9.1, 18.2 (4).
"""

from __future__ import annotations

import logging

from Middleware.common.errors import ConfigError, ConfigMissing
from Middleware.workflows.models.execution_context import ExecutionContext
from Middleware.workflows.models.node_result import NodeResult

logger = logging.getLogger(__name__)


def tool_value(context: ExecutionContext, setting: str, workflow: str, otherwise: str) -> NodeResult:
    """The value of `workflow`, which the user file names under `setting`; `otherwise` (and an error in the
    log)
    when it names none, or one that does not exist. Raises what a node of the workflow raises.
    """
    fault: object = "a memory node needs a workflow here"
    if workflow:
        try:
            return context.run_workflow(workflow, internal=True)
        except ConfigMissing as error:
            fault = error
    logger.error("%s", ConfigError(str(fault), file=f"Users/{context.user.name}.json", pointer=f"/{setting}"))
    return otherwise
