"""Where log lines go: the console, one rotating file, or one file a user. Called once, at the start.

Every handler carries the filter that masks secrets. Source: spec frontend-api.md 2.3, memory.md 18.7.
"""

from __future__ import annotations

import logging
import sys
from pathlib import Path
from typing import Any

from Middleware.utilities.log_files import LogFile
from Middleware.utilities.sensitive_logging_utils import SensitiveFilter

FILE_NAME = "wilmerai.log"
MAX_BYTES = 3 * 1024 * 1024
BACKUPS = 7
FORMAT = "%(asctime)s %(levelname)s [%(user)s] %(message)s"
DEBUG_FORMAT = "%(asctime)s %(levelname)s [%(user)s] %(name)s: %(message)s"
_QUIET = {
    "urllib3": logging.ERROR,  # its warnings quote whole addresses
    "waitress": logging.WARNING,
    "waitress.queue": logging.ERROR,
    "werkzeug": logging.WARNING,
}


def _leave_out_what_no_line_shows() -> None:
    """Source: "Optimization" in Python's Logging HOWTO."""
    logging._srcfile = None
    logging.logThreads = logging.logMultiprocessing = False  # gunicorn's own lines show the process


def configure_logging(level: str, folder: Path | None, users: tuple[str, ...] = ()) -> None:
    """`folder`: where files go, None for the console only.

    With two or more `users` each has a file of its own.
    """
    _leave_out_what_no_line_shows()
    handlers: list[logging.Handler] = [logging.StreamHandler(sys.stderr)]
    if folder is not None:
        handlers.append(_UserFiles(folder, users) if len(users) > 1 else _file(folder))
    formatter = _EachLineStamped(DEBUG_FORMAT if level == "DEBUG" else FORMAT)
    root = logging.getLogger()
    for old in [handler for handler in root.handlers if getattr(handler, "is_headrace", False)]:
        root.removeHandler(old)
        old.close()
    for handler in handlers:
        handler.addFilter(SensitiveFilter())
        handler.setFormatter(formatter)
        handler.is_headrace = True  # type: ignore[attr-defined]
        root.addHandler(handler)
    root.setLevel(level)
    for name, least in _QUIET.items():
        logging.getLogger(name).setLevel(max(least, root.level))


MOST_LINES = 60
"""Lines of a traceback. A deep one says the same again and again, and each takes its room in the log."""


class _EachLineStamped(logging.Formatter):
    """Time, level and user stand before each line of a record: no line can pass for another's, and a search
    for a time or a user finds tracebacks whole.
    """

    def formatException(self, ei: Any) -> str:
        return _shorten_traceback(super().formatException(ei))

    def format(self, record: logging.LogRecord) -> str:
        if record.exc_text:  # the filter's, masked; it is never made anew from the error
            record.exc_text = _shorten_traceback(record.exc_text)
        text = super().format(record)
        if "\n" not in text:
            return text
        stamp = f"{record.asctime} {record.levelname} [{getattr(record, 'user', 'system')}] | "
        return text.replace("\n", "\n" + stamp)


def _shorten_traceback(traceback: str) -> str:
    lines = traceback.split("\n")
    if len(lines) <= MOST_LINES:
        return traceback
    first = MOST_LINES // 3
    last = MOST_LINES - first - 1
    left_out = f"  ... {len(lines) - first - last} lines left out ..."
    return "\n".join([*lines[:first], left_out, *lines[-last:]])


def _file(folder: Path) -> LogFile:
    return LogFile(folder / FILE_NAME, max_bytes=MAX_BYTES, backups=BACKUPS)


class _UserFiles(logging.Handler):
    """One rotating file a user; what belongs to no request goes to the file above them."""

    def __init__(self, folder: Path, users: tuple[str, ...]) -> None:
        super().__init__()
        self._common = _file(folder)
        self._files = {user: _file(folder / user) for user in users}

    def setFormatter(self, fmt: logging.Formatter | None) -> None:
        super().setFormatter(fmt)
        for handler in (self._common, *self._files.values()):
            handler.setFormatter(fmt)

    def emit(self, record: logging.LogRecord) -> None:
        self._files.get(getattr(record, "user", ""), self._common).emit(record)

    def close(self) -> None:
        for handler in (self._common, *self._files.values()):
            handler.close()
        super().close()
