"""Where every node that makes memories goes in: what is new in the conversation is remembered, or nothing
happens.

Source: spec memory.md 7.1, 18.2 (4).
"""

from __future__ import annotations

import logging
import sqlite3

from Middleware.common.errors import ConfigError
from Middleware.services.discussion_store import FolderUnusable
from Middleware.workflows.memory.file_writer import write_file_memories
from Middleware.workflows.memory.settings import memory_settings
from Middleware.workflows.memory.vector_store import NotADatabaseOfMemories
from Middleware.workflows.memory.vector_writer import write_vector_memories
from Middleware.workflows.models.execution_context import ExecutionContext

logger = logging.getLogger(__name__)

FEWEST_MESSAGES = 3


def remember(context: ExecutionContext, *, files_only: bool = False) -> None:
    """Make the memories that are due, as the user's settings file says (`files_only`: file memories in any
    case).

    A fault of that file, of the database or of the folder is an error in the log; the chat goes on. Raises
    what a model call raises.
    """
    store = context.store
    if store is None or len(context.messages) < FEWEST_MESSAGES:
        return
    try:
        settings = memory_settings(context)
        if settings.flag("useVectorForQualityMemory") and not files_only:
            write_vector_memories(context, store, settings)
        else:
            write_file_memories(context, store, settings)
    except FolderUnusable:  # the store has reported it
        logger.debug("no memories are made: the discussion has no folder")
    except (ConfigError, sqlite3.Error, NotADatabaseOfMemories) as error:
        logger.error("no memories are made: %s", error)
