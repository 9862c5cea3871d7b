"""A full disk, a read-only folder, a file that cannot be made: a line in the log, and the answer comes.

Source: spec memory.md 18.2 (27).
"""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Callable
from typing import TypeVar

from Middleware.services.discussion_store import VECTOR_DATABASE, FolderUnusable
from Middleware.utilities.sensitive_logging_utils import redaction_is_on

logger = logging.getLogger(__name__)

FAULTS = (OSError, sqlite3.Error)
_T = TypeVar("_T")
_Other = TypeVar("_Other")


def reason_of(error: OSError | sqlite3.Error) -> str:
    """What the system says, and of which file. With redaction on no path is told: it holds the discussion's
    id.
    """
    if isinstance(error, sqlite3.Error):
        return f"{VECTOR_DATABASE}: {error}"
    if not error.strerror:
        return str(error)
    place = f"{error.filename}: " if error.filename and not redaction_is_on() else ""
    return f"{place}{error.strerror}"


class DiskFaults:
    """What one node, or one request, meets on the disk. The first fault is told, at ERROR; no other is.

    `failed`: there was one.
    """

    def __init__(self) -> None:
        self.failed = False

    def tried(self, work: Callable[[], _T], otherwise: _Other, consequence: str) -> _T | _Other:
        """What `work` gives, or `otherwise` when the disk does not let it. `consequence`: in words."""
        try:
            return work()
        except FAULTS as error:
            if not self.failed and not isinstance(error, FolderUnusable):  # the store reports that one itself
                logger.error("%s: %s", consequence, reason_of(error))
            self.failed = True
            return otherwise
