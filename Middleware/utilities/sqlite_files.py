"""SQLite files are copied while others use them: as of one moment, in one step.

In several steps, each write of another process makes the copying begin again, so it may never end. Source:
spec operate.md 3, 6.
"""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing, suppress
from pathlib import Path
from urllib.parse import quote

_BUSY_TIMEOUT_MS = 5000
_ANY_READ = "SELECT count(*) FROM sqlite_master"


def copy_database(source: Path, target: Path) -> None:
    """Write what is in the database `source` to a new file `target`, of mode 0600, and onto the disk.

    `source` is only read; what a killed writer left half done in it is undone first. `target` must not exist;
    nothing is left of it if the copying fails. Raises `sqlite3.Error` (`file_locks.is_damage` tells what is
    no database), OSError.
    """
    os.close(os.open(target, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    try:
        with closing(_connect(source)) as reading, closing(sqlite3.connect(target)) as copy:
            reading.execute(_ANY_READ).fetchone()
            reading.backup(copy)
    except BaseException:
        target.unlink(missing_ok=True)
        raise


def restore_database(source: Path | None, target: Path) -> None:
    """Put what is in the database `source` in the place of all that is in `target`, in one transaction.

    Others may go on using `target`. `source` None: nothing, not even a table, is in it afterwards. Raises
    `sqlite3.Error`, OSError.
    """
    with suppress(FileExistsError):
        os.close(os.open(target, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    with (
        closing(sqlite3.connect(":memory:") if source is None else _connect(source)) as kept,
        closing(_connect(target)) as live,
    ):
        kept.backup(live)


def _connect(path: Path) -> sqlite3.Connection:
    """A connection to a file that is there."""
    connection = sqlite3.connect(
        f"file:{quote(str(path.absolute()))}?mode=rw", uri=True, isolation_level=None
    )
    connection.execute(f"PRAGMA busy_timeout = {_BUSY_TIMEOUT_MS}")
    connection.execute("PRAGMA trusted_schema = OFF")
    return connection
