"""The text of a config file: read, written over, with a copy of the old one kept. Knows no request.

What is written is atomic and under a lock over all processes. Source: spec console.md 9.2, 9.6.
"""

from __future__ import annotations

import calendar
import hashlib
import os
import re
import stat
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from Middleware.api.console.view_contract import NO_FILE, ViewRefused
from Middleware.common.instance_global_variables import SHIPPED_DIRECTORY, is_installed
from Middleware.config.loader import ConfigTree
from Middleware.config.paths import WORKFLOWS, is_flat_name
from Middleware.utilities.config_masks import shown_text
from Middleware.utilities.config_text import text_of
from Middleware.utilities.file_utils import atomic_write
from Middleware.workflows.checks.config_check import FOLDERS

# --------------------------------------------------------------------------
# Which file an address of the console means: one below the config root, spelled exactly so, or none.


OTHER_FOLDERS = tuple(folder for folder in FOLDERS if folder != WORKFLOWS)
"""What the routes below `files/` serve."""
ENDING = ".json"


@dataclass(frozen=True, slots=True)
class ConfigFile:
    """A file of the config tree. `file`: as it was asked for; `real`: where it is, links resolved.

    `real_folder`: the top folder that it really lies in.
    """

    file: str
    real: Path
    real_folder: str


def is_config_path(path: str, folders: Sequence[str]) -> bool:
    """Whether a path could be that of a config file in one of these top folders."""
    parts = path.split("/")
    return (
        len(parts) > 1
        and all(is_flat_name(part) for part in parts)
        and parts[0] in folders
        and path.endswith(ENDING)
    )


def config_file(root: Path, path: str, folders: Sequence[str] = (WORKFLOWS,)) -> ConfigFile:
    """The regular file that `path` names below one of the top folders. Raises Refused (404)."""
    if not is_config_path(path, folders):
        raise ViewRefused(404, NO_FILE)
    try:
        found = _spelled_so(root, path)
        real, base = Path(os.path.realpath(found)), Path(os.path.realpath(root))
        if not real.is_relative_to(base) or not stat.S_ISREG(os.stat(real).st_mode):
            raise ViewRefused(404, NO_FILE)
    except (OSError, ValueError) as error:
        raise ViewRefused(404, NO_FILE) from error
    return ConfigFile(path, real, real.relative_to(base).parts[0])


def _spelled_so(root: Path, path: str) -> Path:
    """The path on disk. Some systems find a file in any case: the names of the folders decide.

    Raises Refused for a part that is not there, OSError for a folder that cannot be read.
    """
    found = root
    for part in path.split("/"):
        if part not in os.listdir(found):
            raise ViewRefused(404, NO_FILE)
        found /= part
    return found


# --------------------------------------------------------------------------

BACKUPS = "ConfigBackups"
MOST_BACKUPS = 20
_STAMP = "%Y%m%dT%H%M%SZ"
SHIPPED = "the examples that came with the program cannot be changed; create your own files with --init"


_LONGEST_NAME = 255 - len(".20261128T120431Z-999")
"""Bytes of a file's name of which a copy can be kept."""


class NotKept(Exception):
    """The old text could not be kept; the text says why."""


@dataclass(frozen=True, slots=True)
class ConfigText:
    """A config file as it is now. `raw`: its bytes."""

    place: ConfigFile
    raw: bytes

    @property
    def version(self) -> str:
        return version_of(self.raw)

    @property
    def text(self) -> str:
        """Decoded, without byte order mark, line ends as `\\n`; secrets and all."""
        return text_of(self.raw)

    @property
    def shown_text(self) -> str:
        """The text as the page is shown it."""
        return shown_text(self.text)


def version_of(raw: bytes) -> str:
    """First 16 hex digits of SHA-256."""
    return hashlib.sha256(raw).hexdigest()[:16]


def read_config_text(tree: ConfigTree, place: ConfigFile) -> ConfigText:
    """Raises OSError."""
    return ConfigText(place, tree.bytes_of(place.file))


def came_with_the_program(real: Path) -> bool:
    """Whether a file or folder belongs to the installer."""
    return is_installed() and real.is_relative_to(os.path.realpath(SHIPPED_DIRECTORY))


def why_not_writable(place: ConfigFile) -> str:
    """Why the file cannot be written over; empty: it can."""
    if came_with_the_program(place.real):
        return SHIPPED
    for path, what in ((place.real, "this file"), (place.real.parent, "the folder of this file")):
        if not os.access(path, os.W_OK):
            return f"the server has no permission to write to {what}"
    return ""


def backups_of(root: Path, file: str) -> list[Path]:
    """The copies of a config file's old texts, newest first."""
    return [path for _, path in _numbered_backups(root, file)]


def _numbered_backups(root: Path, file: str) -> list[tuple[tuple[str, int], Path]]:
    """The same, each with its time and its number within the second."""
    folder, name = _backup_place(root, file)
    pattern = re.compile(re.escape(name) + r"\.(\d{8}T\d{6}Z)(?:-(\d+))?\.json")
    try:
        found = [match for match in map(pattern.fullmatch, os.listdir(folder)) if match]
    except FileNotFoundError:
        return []
    numbered = [((match[1], int(match[2] or 1)), folder / match[0]) for match in found]
    return sorted(numbered, reverse=True)


@dataclass(frozen=True, slots=True)
class KeptCopy:
    """An old text of a config file. `at`: its UTC time as the copy's name says it, with a number from the
    second in one second on. `saved`: the same in Unix seconds. `size`: in bytes.
    """

    at: str
    saved: int
    size: int
    path: Path


def kept_copies(root: Path, file: str) -> list[KeptCopy]:
    """Those of a config file, the newest first. One that is just going is none."""
    name = _backup_place(root, file)[1]
    found = []
    for (second, _), path in _numbered_backups(root, file):
        try:
            size = path.stat().st_size
        except OSError:
            continue
        saved = calendar.timegm(time.strptime(second, _STAMP))
        found.append(KeptCopy(path.name.removeprefix(f"{name}.").removesuffix(ENDING), saved, size, path))
    return found


def keep_old(root: Path, text: ConfigText, *, now: float | None = None) -> Path:
    """Copy a file's bytes to `ConfigBackups` and delete all but the newest copies of it. Gives the copy.

    Only under the lock of the file. Raises NotKept.
    """
    folder, name = _backup_place(root, text.place.file)
    stamp = time.strftime(_STAMP, time.gmtime(now))
    try:
        folder.mkdir(parents=True, exist_ok=True)
        known = [key for key, _ in _numbered_backups(root, text.place.file)]
        stamp = max([stamp, *(second for second, _ in known[:1])])  # behind all, whatever the clock says
        same = [number for second, number in known if second == stamp]
        count = f"-{max(same) + 1}" if same else ""
        copy = folder / f"{name}.{stamp}{count}{ENDING}"
        atomic_write(copy, text.raw, new_mode=stat.S_IMODE(text.place.real.stat().st_mode))
        others = [path for path in backups_of(root, text.place.file) if path != copy]
        for path in others[MOST_BACKUPS - 1 :]:
            path.unlink(missing_ok=True)
    except OSError as error:
        raise NotKept(error.strerror or type(error).__name__) from error
    return copy


def is_kept_name(name: str) -> bool:
    """Whether a file with this name can be saved again: its copy has a longer one."""
    return len(name.encode()) <= _LONGEST_NAME


def _backup_place(root: Path, file: str) -> tuple[Path, str]:
    """The folder of a file's copies, and how their names begin."""
    path = Path(os.path.abspath(root)).parent / BACKUPS / file.removesuffix(ENDING)
    return path.parent, path.name
