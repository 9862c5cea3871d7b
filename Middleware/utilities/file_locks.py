"""Locks over threads and processes: a lock file has one holder at a time, and is gone when it has none.

The system drops the lock of a process that dies. Waiting polls, so that an event loop goes on meanwhile.

Not the library `filelock` (looked at in 4.3): on Unix it leaves the lock file in place, and a discussion's
folder is exported, cleared and renamed when no lock is in it; every thread that waits polls, here those of
one process queue; an import of 50 ms and 15,000 lines would stand behind these hundred.
Source: spec nodes.md 6.2, memory.md 18.1.
"""

from __future__ import annotations

import errno
import hashlib
import os
import secrets
import sqlite3
import stat
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path
from weakref import WeakValueDictionary, finalize

if sys.platform == "win32":  # pragma: no cover (the other half is tested where tests run)
    import msvcrt
else:
    import fcntl

POLL_S = 0.01
LONG_POLL_S = 0.05
_CONTENTION = (errno.EACCES, errno.EAGAIN, errno.EDEADLK)


class _Lock:
    """One lock of this process and its file; may be taken again by the thread that holds it."""

    def __init__(self, path: str) -> None:
        self.threads = threading.RLock()
        self._path = path
        self._handle = -1
        self._depth = 0

    def take(self) -> None:
        """Wait for the lock file. Only for the thread that holds `threads`. Raises OSError."""
        while not self.try_to_take():
            time.sleep(POLL_S)

    def try_to_take(self) -> bool:
        """As `take`, without waiting."""
        if not self._depth:
            handle = _try_to_hold(self._path)
            if handle is None:
                return False
            self._handle = handle
        self._depth += 1
        return True

    def give_back(self) -> None:
        self._depth -= 1
        if not self._depth:
            _let_go(self._path, self._handle)


_locks: WeakValueDictionary[str, _Lock] = WeakValueDictionary()
_locks_guard = threading.Lock()


def _lock_of(lock_file: Path) -> _Lock:
    name = os.path.realpath(lock_file)
    with _locks_guard:
        lock = _locks.get(name)
        if lock is None:
            lock = _locks[name] = _Lock(name)
        return lock


@contextmanager
def hold_lock(lock_file: Path) -> Iterator[None]:
    """Hold a lock over all threads of this process and all processes that use the same lock file.

    The folder must exist. Raises OSError, also where a file system knows no locks.
    """
    lock = _lock_of(lock_file)
    with lock.threads:
        lock.take()
        try:
            yield
        finally:
            lock.give_back()


@contextmanager
def locked_in_time(
    lock_file: Path, timeout_s: float | None, given_up: Callable[[], bool] = lambda: False
) -> Iterator[bool]:
    """As `locked`, but yields False, and holds nothing, when it is not free in time or `given_up()` is true.

    `timeout_s`: None waits for ever, 0 does not wait.
    """
    lock = _lock_of(lock_file)
    end = None if timeout_s is None else time.monotonic() + timeout_s
    while not (held := _try_lock(lock)):
        if given_up() or (end is not None and time.monotonic() >= end):
            break
        time.sleep(LONG_POLL_S)
    try:
        yield held
    finally:
        if held:
            lock.give_back()
            lock.threads.release()


def _try_lock(lock: _Lock) -> bool:
    if not lock.threads.acquire(blocking=False):
        return False
    taken = False
    try:
        taken = lock.try_to_take()
    finally:
        if not taken:
            lock.threads.release()
    return taken


if sys.platform == "win32":  # pragma: no cover

    def _try_to_hold(path: str) -> int | None:
        """An open, locked handle; None while somebody else holds the file, or is about to remove it."""
        handle = -1
        try:
            handle = os.open(path, os.O_RDWR | os.O_CREAT)
            msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)
        except OSError as error:
            if handle >= 0:
                os.close(handle)
            if error.errno in _CONTENTION and os.path.isdir(os.path.dirname(path)):
                return None
            raise
        return handle

    def _let_go(path: str, handle: int) -> None:
        os.close(handle)
        with suppress(OSError):  # Windows removes no file that somebody has open
            os.unlink(path)

else:

    def _try_to_hold(path: str) -> int | None:
        """An open, locked handle; None while somebody else holds the file, or has just removed it."""
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.path.samestat(os.fstat(handle), os.stat(path)):
                return handle
        except FileNotFoundError:
            pass  # removed by its holder between our opening and locking it: nobody else can find it any more
        except OSError as error:
            if error.errno not in _CONTENTION:
                os.close(handle)
                raise
        os.close(handle)
        return None

    def _let_go(path: str, handle: int) -> None:
        with suppress(OSError):  # while it is still locked: whoever waits for it then looks for a new file
            os.unlink(path)
        os.close(handle)


def lock_file_for(path: Path) -> Path:
    """The lock file of a user's file: in the user's run-time folder, so that nothing appears beside the file.

    Raises PermissionError when that folder is not the user's alone.
    """
    real = os.path.normcase(os.path.realpath(path))
    return _run_time_folder() / (hashlib.sha256(os.fsencode(real)).hexdigest()[:32] + ".lock")


def _run_time_folder() -> Path:
    """`headrace` in the user's run-time folder; without one `headrace-<user>` in the temporary folder."""
    if sys.platform == "win32":  # pragma: no cover
        folder = Path(tempfile.gettempdir()) / "headrace-locks"
        folder.mkdir(exist_ok=True)
        return folder
    user = os.getuid()
    places = (os.environ.get("XDG_RUNTIME_DIR"), f"/run/user/{user}")
    home = next((Path(place) for place in places if place and _is_private(Path(place))), None)
    folder = home / "headrace" if home else Path(tempfile.gettempdir()) / f"headrace-{user}"
    folder.mkdir(mode=0o700, exist_ok=True)
    if not _is_private(folder):
        raise PermissionError(
            errno.EPERM, "the folder of lock files must belong to this user and have mode 0700", str(folder)
        )
    return folder


def _is_private(folder: Path) -> bool:
    """Whether it is a folder, no link, of this user, and that nobody else may look into it."""
    try:
        found = folder.lstat()
    except OSError:
        return False
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid() and not found.st_mode & 0o077


# --------------------------------------------------------------------------
# A whole folder, held by many who use it or by one alone. The folder itself is what is locked, so that one
# that is only for reading can be held as well.


class FolderHold:
    """A folder that is held until `give_back`, or until this value or the process is gone."""

    def __init__(self, handle: int) -> None:
        self._end = finalize(self, os.close, handle)

    def give_back(self) -> None:
        """May be called twice."""
        self._end()


if sys.platform == "win32":  # pragma: no cover
    _IN_USE = ".in-use"
    _RANGE = 2**30

    def hold_folder(folder: Path, *, alone: bool = False) -> FolderHold | None:
        """As below. Each user of the folder locks one byte of a file in it, who is alone locks them all."""
        handle = os.open(folder / _IN_USE, os.O_RDWR | os.O_CREAT)
        try:
            os.lseek(handle, 0 if alone else secrets.randbelow(_RANGE), os.SEEK_SET)
            msvcrt.locking(handle, msvcrt.LK_NBLCK, _RANGE if alone else 1)
        except OSError as error:
            os.close(handle)
            if error.errno in _CONTENTION:
                return None
            raise
        return FolderHold(handle)

else:

    def hold_folder(folder: Path, *, alone: bool = False) -> FolderHold | None:
        """Hold a folder, together with others or `alone`, over all processes. None: somebody else's hold
        does not allow it. Does not wait. Raises OSError, also where a file system knows no locks.
        """
        handle = os.open(folder, os.O_RDONLY | os.O_CLOEXEC | os.O_DIRECTORY)
        try:
            fcntl.flock(handle, (fcntl.LOCK_EX if alone else fcntl.LOCK_SH) | fcntl.LOCK_NB)
        except OSError as error:
            os.close(handle)
            if error.errno in _CONTENTION:
                return None
            raise
        return FolderHold(handle)


# --------------------------------------------------------------------------
# SQLite files that are damaged: telling damage from trouble, and moving a damaged file out of the way,
# once for all processes. Opens no database.


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
