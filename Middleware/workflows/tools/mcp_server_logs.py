"""The logs of stdio tool servers: `<log folder>/mcp/<server>.log`, rotated; with several users each has its
own, in the user's folder.

Where no log files are written the lines go to the log at level DEBUG. Source: spec tools.md 11.5.7,
frontend-api.md 2.3.
"""

from __future__ import annotations

import functools
import logging
import threading
from pathlib import Path

from Middleware.common.instance_global_variables import launch_facts
from Middleware.config.environment import secrets_in_use
from Middleware.utilities.log_files import LogFile
from Middleware.utilities.sensitive_logging_utils import mask_secrets

logger = logging.getLogger(__name__)

MAX_BYTES = 1024 * 1024
BACKUPS = 3
FOLDER = "mcp"
FORMAT = "%(asctime)s [%(user)s] %(message)s"


class ServerLogs:
    """One file a server and folder, opened at its first line. Called from any thread."""

    def __init__(self) -> None:
        self._files: dict[Path, LogFile] = {}
        self._guard = threading.Lock()

    def write_line(self, server: str, user: str, line: str) -> None:
        """One line of a server's standard error; the secrets of the server's file are masked in it."""
        facts = launch_facts()
        if facts.log_folder is None:
            logger.debug("MCP server %r says: %s", server, line)
            return
        folder = facts.log_folder / user if len(facts.users) > 1 else facts.log_folder
        record = logging.makeLogRecord({"msg": mask_secrets(line, *secrets_in_use()), "user": user})
        self._file(folder / FOLDER / f"{server}.log").handle(record)

    def close(self) -> None:
        """A further line opens its file again."""
        with self._guard:
            for file in self._files.values():
                file.close()
            self._files.clear()

    def _file(self, path: Path) -> LogFile:
        with self._guard:
            if path not in self._files:
                self._files[path] = LogFile(path, max_bytes=MAX_BYTES, backups=BACKUPS)
                self._files[path].setFormatter(logging.Formatter(FORMAT))
            return self._files[path]


@functools.cache
def server_logs() -> ServerLogs:
    """Those of this process."""
    return ServerLogs()
