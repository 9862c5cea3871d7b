"""`ContextCompactor`: keeps summaries of the older parts of a long conversation. Source: spec memory.md
10.
"""

from __future__ import annotations

from typing import ClassVar

from Middleware.common.errors import ConfigError
from Middleware.common.types import NodeConfig
from Middleware.services.discussion_store import DiscussionStore, DiskFaults
from Middleware.workflows.handlers.base.base_workflow_node_handler import MACHINE, WorkflowNodeHandler
from Middleware.workflows.handlers.node_types import NODES
from Middleware.workflows.memory.compactor import compact, tagged_summaries
from Middleware.workflows.memory.settings import SettingsFile, named_settings
from Middleware.workflows.models.execution_context import ExecutionContext
from Middleware.workflows.models.node_keys import FLAG, Keys

_SETTING = "contextCompactorSettingsFile"
NOTHING_COMPACTED = "nothing is compacted"


@NODES.register("ContextCompactor")
class ContextCompactorNode(WorkflowNodeHandler):
    """Keeps two summaries of the older parts of a long conversation, and outputs both in tags."""

    PALETTE = "memory"

    POWERS = frozenset([MACHINE])

    KEYS: ClassVar[Keys] = {
        "readOnly": FLAG(
            "Output the summaries that are stored, and make none: another such node makes them, behind the "
            "answer. Default: {default}."
        ),
    }
    KEEPS_TO_DISCUSSION = True

    def user_settings(self, config: NodeConfig) -> tuple[str, ...]:
        return () if config.get("readOnly") else (_SETTING,)

    def handle(self, context: ExecutionContext) -> str:
        if context.store is None:
            context.warn("nothing is compacted without a discussion id")
            return ""
        store, disk = context.store, DiskFaults()
        if not context.value("readOnly"):
            try:
                settings = named_settings(context, context.user.context_compactor_settings_file, _SETTING)
            except ConfigError as error:
                context.warn(f"{NOTHING_COMPACTED}: {error}")
                return ""
            disk.try_work(lambda: _bring_up_to_date(context, store, settings), None, NOTHING_COMPACTED)
        return disk.try_work(lambda: tagged_summaries(store), "", "the summaries cannot be read")

    def writes(self, config: NodeConfig) -> str:
        return "" if config.get("readOnly") else "brings the summaries of the older messages up to date"

    def dry_notes(self, context: ExecutionContext) -> list[str]:
        if context.store is None or context.value("readOnly"):
            return []
        return ["would bring the summaries of the older messages up to date"]


def _bring_up_to_date(context: ExecutionContext, store: DiscussionStore, settings: SettingsFile) -> None:
    """A fault of the settings is told, and what is stored stays. Raises what a model call raises."""
    try:
        compact(context, store, settings)
    except ConfigError as error:
        context.warn(f"{NOTHING_COMPACTED}: {error}")
