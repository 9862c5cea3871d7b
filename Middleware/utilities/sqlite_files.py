"""SQLite files that are damaged: telling damage from trouble, and moving a damaged file out of the way, once
for all processes. Opens no database.
"""

from __future__ import annotations

import os
import sqlite3
from contextlib import suppress
from datetime import datetime
from pathlib import Path

from Middleware.utilities.file_locks import hold_lock, lock_file_for

_DAMAGE = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
_BESIDE = ("-wal", "-shm", "-journal")

Identity = tuple[int, int]
"""Device and inode."""


def is_damage(error: sqlite3.Error) -> bool:
    """Whether the file is no database any more. A busy file, a full or failing disk are no damage."""
    code = getattr(error, "sqlite_errorcode", None)
    return code is not None and code & 0xFF in _DAMAGE


def identity_of(file: Path) -> Identity | None:
    """What tells the file from another one of its name; None: there is none."""
    try:
        found = file.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def set_aside(file: Path, seen: Identity | None) -> Path | None:
    """Rename a damaged database to `<name>.corrupt-<time>`, which is returned. None: `seen`, the file that
    was found damaged, is not there any more; another process has moved it. Raises OSError.

    What SQLite keeps beside the file goes first: it would be taken for a part of the next one.
    """
    with hold_lock(lock_file_for(file)):
        if seen is None or identity_of(file) != seen:
            return None
        for ending in _BESIDE:
            with suppress(FileNotFoundError):
                os.unlink(f"{file}{ending}")
        aside = file.with_name(f"{file.name}.corrupt-{datetime.now():%Y%m%d-%H%M%S-%f}")
        os.replace(file, aside)
        return aside
