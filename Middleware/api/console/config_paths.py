"""Which file an address of the console means: one below the config root, spelled exactly so, or none.

Every refusal is the same answer: nothing is told of what lies outside. Source: spec console.md 5.2.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from Middleware.api.console.view_contract import NO_FILE, ViewRefused
from Middleware.config.paths import WORKFLOWS, is_flat_name
from Middleware.workflows.managers.config_check import FOLDERS

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
