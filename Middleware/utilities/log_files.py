"""A rotating log file: made at its first line, patient with a disk that refuses.

Knows nothing of what is logged.
"""

from __future__ import annotations

import sys
from io import TextIOWrapper
from logging import LogRecord
from logging.handlers import RotatingFileHandler
from pathlib import Path


class LogFile(RotatingFileHandler):
    """Made, with its folder, at its first line.

    A disk that refuses is told of once, on standard error; later lines are tried again.
    """

    _told = False

    def __init__(self, path: Path, *, max_bytes: int, backups: int) -> None:
        super().__init__(path, maxBytes=max_bytes, backupCount=backups, encoding="utf-8", delay=True)

    def _open_file(self) -> TextIOWrapper:
        Path(self.baseFilename).parent.mkdir(parents=True, exist_ok=True)
        return super()._open()

    def handleError(self, record: LogRecord) -> None:
        error = sys.exc_info()[1]
        if not isinstance(error, OSError):
            super().handleError(record)
        elif not self._told:
            self._told = True
            print(f"{self.baseFilename} cannot be written: {error.strerror or error}", file=sys.stderr)
