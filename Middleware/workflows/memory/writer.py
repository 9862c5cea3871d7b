"""Where every node that makes memories goes in: what is new in the conversation is remembered, or nothing
happens.

Source: spec memory.md 7.1, 18.2 (4, 27).
"""

from __future__ import annotations

import logging

from Middleware.common.errors import ConfigError
from Middleware.services.discussion_store import DiscussionStore
from Middleware.services.disk_faults import DiskFaults
from Middleware.workflows.memory.file_writer import write_file_memories
from Middleware.workflows.memory.settings import memory_settings
from Middleware.workflows.memory.vector_store import NotADatabaseOfMemories
from Middleware.workflows.memory.vector_writer import write_vector_memories
from Middleware.workflows.models.execution_context import ExecutionContext

logger = logging.getLogger(__name__)

FEWEST_MESSAGES = 3


def remember(context: ExecutionContext, disk: DiskFaults, *, files_only: bool = False) -> None:
    """Make the memories that are due, as the user's settings file says (`files_only`: file memories in any
    case).

    A fault of that file, of the database or of the disk is an error in the log; the chat goes on. Raises what
    a model call raises.
    """
    store = context.store
    if store is None or len(context.messages) < FEWEST_MESSAGES:
        return
    disk.try_work(
        lambda: _write_memories(context, store, files_only=files_only), None, "no memories are made"
    )


def _write_memories(context: ExecutionContext, store: DiscussionStore, *, files_only: bool) -> None:
    try:
        settings = memory_settings(context)
        if settings.flag("useVectorForQualityMemory") and not files_only:
            write_vector_memories(context, store, settings)
        else:
            write_file_memories(context, store, settings)
    except (ConfigError, NotADatabaseOfMemories) as error:
        logger.error("no memories are made: %s", error)
