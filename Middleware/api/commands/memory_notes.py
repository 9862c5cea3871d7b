"""What a starting server says of where a user's discussions lie. Source: spec memory.md 18.6 (4), 18.8."""

from __future__ import annotations

import logging
from pathlib import Path

from Middleware.config.users import UserSettings
from Middleware.utilities.mounts import network_file_system

logger = logging.getLogger(__name__)


def tell_of_memories(user: UserSettings, root: Path) -> None:
    """`root`: the folder of the user's discussions."""
    if user.encrypt_using_api_key:
        logger.info(
            "user %s: encryptUsingApiKey does not encrypt vector memories (vector_memory.db)", user.name
        )
    kind = network_file_system(root)
    if kind is not None:
        logger.warning(
            "%s lies on a network file system (%s): several servers cannot share it safely", root, kind
        )
