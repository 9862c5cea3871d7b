"""Files that stay whole: atomic writes, reads from the end, paths kept below a folder.

Knows nothing of discussions, nodes or JSON. Source: spec nodes.md 6.1, 6.2, memory.md 18.1.
"""

from __future__ import annotations

import errno
import os
import re
import secrets
import stat
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from io import TextIOWrapper
from logging import LogRecord
from logging.handlers import RotatingFileHandler
from pathlib import Path
from typing import TypeVar

_BLOCK = 64 * 1024
_STALE_S = 3600.0
_NOT_ON_WINDOWS = re.compile(r'[<>:"|?*\\\x00-\x1f]|[. ]\Z')
_PORTS = (f"{port}{n}" for port in ("com", "lpt") for n in "123456789\u00b9\u00b2\u00b3")
_RESERVED = {"con", "prn", "aux", "nul", *_PORTS}
"""In small letters; superscript digits count. Source: Microsoft, "Naming Files, Paths, and Namespaces"."""


class PathRefused(ValueError):
    """A path that must not be used; the text says why."""


class PathLeaves(PathRefused):
    """A path that leads out of its base folder (`base`, as it was given)."""

    def __init__(self, base: str) -> None:
        self.base = base
        super().__init__(f"path leaves {base}")


def atomic_write(path: Path, data: bytes, *, new_mode: int = 0o666) -> None:
    """Replace the file's bytes in one step; a reader sees the old or the new ones, also after a crash.

    Keeps the mode bits of an existing file; a new one gets `new_mode` less the umask. A link stays a link:
    its target is written; a device or a pipe is none that could be replaced. The folder must exist. Raises
    OSError, whose `filename` is that of the target.
    """
    target = Path(os.path.realpath(path))
    try:
        refuse_replacing(target)
        _replace(target, data, new_mode)
        sync_folder(target.parent)
    except OSError as error:
        error.filename, error.filename2 = str(target), None
        raise


def refuse_replacing(target: Path) -> None:
    """A file may be replaced; what else has a name, `/dev/null` say, would be gone. Raises OSError."""
    with suppress(FileNotFoundError):
        if not stat.S_ISREG(target.stat().st_mode):
            raise OSError(errno.EINVAL, "not a regular file", str(target))


def _replace(target: Path, data: bytes, new_mode: int) -> None:
    name = target.name.encode("utf-8", "ignore")[:100].decode("utf-8", "ignore")
    temporary = target.with_name(f".{name}.{secrets.token_hex(8)}.tmp")
    handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), new_mode)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        with suppress(FileNotFoundError):
            os.chmod(temporary, stat.S_IMODE(target.stat().st_mode))
        os.replace(temporary, target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def sync_folder(folder: Path) -> None:
    """Make renames in a folder last, also over a loss of power. Raises OSError."""
    if os.name == "nt":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def remove_stale_temporaries(root: Path, *, now: float | None = None) -> int:
    """Delete what a killed process left of `atomic_write` anywhere below `root`, if older than an hour. How
    many.
    """
    removed = 0
    for file in root.rglob(".*.tmp"):
        with suppress(OSError):
            if is_stale(file, now=now):
                file.unlink()
                removed += 1
    return removed


def is_stale(path: Path, *, now: float | None = None) -> bool:
    """Whether nobody has changed a file or folder for an hour: whoever made it for a moment is gone. Raises
    OSError.
    """
    return path.stat().st_mtime < (time.time() if now is None else now) - _STALE_S


def read_text(path: Path) -> str:
    """The text of a regular UTF-8 file, line ends as `\\n`. Raises OSError, PathRefused or
    UnicodeDecodeError.
    """
    refuse_special(path)
    return _text(path.read_bytes())


def refuse_special(path: Path) -> None:
    """Raise PathRefused for what is there but is neither a regular file nor a folder: devices, pipes,
    sockets.
    """
    with suppress(FileNotFoundError):
        mode = path.stat().st_mode
        if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
            raise PathRefused("not a regular file")


def _text(data: bytes) -> str:
    return data.decode("utf-8").replace("\r\n", "\n").replace("\r", "\n")


def read_tail(path: Path, delimiter: str, count: int) -> str:
    """The last `count` pieces of `read_text(path).split(delimiter)`, joined again; reads no more than it
    needs.
    """
    refuse_special(path)
    with path.open("rb") as file:
        size, want = os.fstat(file.fileno()).st_size, _BLOCK
        while want < size:
            file.seek(size - want)
            pieces = _whole_pieces(_text(_from_character(file.read(want))), delimiter)
            if len(pieces) >= count:
                return delimiter.join(pieces[-count:])
            want *= 4
        file.seek(0)
        return delimiter.join(_text(file.read(size)).split(delimiter)[-count:])


def _from_character(data: bytes) -> bytes:
    """Drop the rest of a character that the cut went through."""
    start = 0
    while start < 3 and start < len(data) and data[start] & 0xC0 == 0x80:
        start += 1
    return data[start:]


def _whole_pieces(text: str, delimiter: str) -> list[str]:
    """The pieces of a text whose beginning is unknown, from the first place where the split is certain.

    Splitting goes from left to right, so a delimiter surely counts where no other occurrence can overlap it
    from the left.
    """
    width, last = len(delimiter), -1
    place = text.find(delimiter)
    while place >= 0:
        if place >= width - 1 and (last < 0 or place - last >= width):
            return text[place + width :].split(delimiter)
        last, place = place, text.find(delimiter, place + 1)
    return []


def find_file(path: Path) -> Path | None:
    """The path if something is there, else a file of the same folder whose name differs in case only, else
    None.
    """
    if path.exists():
        return path
    wanted = path.name.casefold()
    try:
        names = sorted(name for name in os.listdir(path.parent) if name.casefold() == wanted)
    except OSError:
        return None
    return path.with_name(names[0]) if names else None


def confined_path(text: str, base: str | None) -> Path:
    """The path that `text` names (`~` expanded), checked to lie in the folder `base` with all links resolved.

    `base` None: anywhere; "" is the working directory. Raises PathLeaves, or PathRefused for a NUL character,
    a blank path or a device name.
    """
    if "\0" in text or (base is not None and "\0" in base):
        raise PathRefused("path holds a NUL character")
    if not text.strip():
        raise PathRefused("path is empty")
    path = Path(os.path.expanduser(text))
    refused = path.parts if os.name == "nt" else ()
    if base is not None:
        folder = os.path.realpath(os.path.expanduser(base) or os.curdir)
        real = os.path.realpath(path)
        if real != folder and not real.startswith(os.path.join(folder, "")):
            raise PathLeaves(base)
        refused = Path(os.path.relpath(real, folder)).parts
    for part in refused:
        if is_device_name(part):
            raise PathRefused(f"'{part}' is the name of a device")
    return path


def is_device_name(part: str) -> bool:
    """Whether Windows takes the name of a file, whatever its ending, for a device."""
    return part.split(".")[0].strip().casefold() in _RESERVED


def is_windows_name(part: str) -> bool:
    """Whether Windows can have a file or folder of this name."""
    return not (_NOT_ON_WINDOWS.search(part) or is_device_name(part))


# --------------------------------------------------------------------------
# A rotating log file: made at its first line, patient with a disk that refuses.


class LogFile(RotatingFileHandler):
    """Made, with its folder, at its first line.

    A disk that refuses is told of once, on standard error; later lines are tried again.
    """

    _told = False

    def __init__(self, path: Path, *, max_bytes: int, backups: int) -> None:
        super().__init__(path, maxBytes=max_bytes, backupCount=backups, encoding="utf-8", delay=True)

    def _open(self) -> TextIOWrapper:
        Path(self.baseFilename).parent.mkdir(parents=True, exist_ok=True)
        return super()._open()

    def handleError(self, record: LogRecord) -> None:
        error = sys.exc_info()[1]
        if not isinstance(error, OSError):
            super().handleError(record)
        elif not self._told:
            self._told = True
            print(f"{self.baseFilename} cannot be written: {error.strerror or error}", file=sys.stderr)


# --------------------------------------------------------------------------
# Which folders lie on another machine. Known on Linux only; elsewhere none does.


NETWORK_KINDS = frozenset(
    ["nfs", "nfs4", "cifs", "smb3", "smbfs", "afs", "9p", "ceph", "fuse.sshfs", "fuse.glusterfs"]
)


def network_file_system(folder: Path, table: Path = Path("/proc/self/mounts")) -> str | None:
    """The kind of network file system that holds `folder` (which need not exist yet); None: it is local."""
    try:
        lines = table.read_text("utf-8", "replace").splitlines()
    except OSError:
        return None
    real = os.path.realpath(folder)
    mounts = [line.split() for line in lines]
    holding = [(point, kind) for _, point, kind, *_ in mounts if _is_in(real, point.replace("\\040", " "))]
    kind = max(holding, key=lambda mount: len(mount[0]), default=("", ""))[1]
    return kind if kind in NETWORK_KINDS else None


def _is_in(path: str, folder: str) -> bool:
    return path == folder or path.startswith(os.path.join(folder, ""))


# --------------------------------------------------------------------------
# Work that would hold up an event loop is done beside it. Knows nothing of what the work is.


T = TypeVar("T")


def beside_the_loop(work: Callable[[], T]) -> T:
    """The result of `work`: under gevent from a real thread, while other greenlets run; else made here.

    `work` takes no lock and logs nothing: those belong to the loop.
    """
    # Asked at each call, not at import: gunicorn patches when a worker begins, and with `preload_app` this
    # module was loaded before that.
    monkey = sys.modules.get("gevent.monkey")
    if monkey is None or not monkey.is_module_patched("threading"):
        return work()
    hub = sys.modules["gevent"].get_hub()
    result: T = hub.threadpool.apply(work)
    return result
