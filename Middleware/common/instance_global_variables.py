"""Facts of the process, set once at launch. `API_TYPE` reads the current request's wire format; it has no
setter.
"""

from __future__ import annotations

import os
import time
import uuid
from dataclasses import dataclass, field
from pathlib import Path

from Middleware.common.constants import HISTORY_DAYS
from Middleware.common.request_context import current_request

INSTALL_DIRECTORY = Path(__file__).resolve().parents[2]
SHIPPED_DIRECTORY = INSTALL_DIRECTORY / "Middleware" / "shipped"
"""Only a wheel has it: it holds the folders `Public` and `docs` that stand beside `server.py` in a clone."""
OLD_DATA_DIRECTORY = SHIPPED_DIRECTORY if SHIPPED_DIRECTORY.is_dir() else INSTALL_DIRECTORY
"""Data that old programs left here stays in use. The folder of a wheel is shared: none of it is ours."""


def is_installed() -> bool:
    """Whether the program came out of a wheel: then its folder belongs to the installer, and nothing is
    written there. False in a clone, also when that is installed as editable.
    """
    return SHIPPED_DIRECTORY.is_dir()


def shipped_public() -> Path:
    """The Public folder that came with the program."""
    return (SHIPPED_DIRECTORY if is_installed() else INSTALL_DIRECTORY) / "Public"


@dataclass(frozen=True, slots=True)
class LaunchFacts:
    """What the command line said, resolved. `users`: as given; none: pointer mode (`_current-user.json`).

    `data_directory`: where discussions, locks and logs go when the Public root is only for reading.
    `log_folder`: where log files are written; None: none are. `history_directory`: of the history of runs;
    None: there is none.
    """

    public_directory: Path = field(default_factory=shipped_public)
    config_directory: Path = field(default_factory=lambda: shipped_public() / "Configs")
    data_directory: Path | None = None
    users: tuple[str, ...] = ()
    discussion_directory: Path | None = None
    sqlite_directory: Path | None = None
    logging_directory: Path | None = None
    log_folder: Path | None = None
    history_directory: Path | None = None
    keys_file: Path | None = None
    history_days: int = HISTORY_DAYS
    concurrency: int = 1
    concurrency_timeout_s: float = 900.0
    concurrency_level: str = "request"
    instance_id: str = field(default_factory=lambda: str(uuid.uuid4()))
    started_at: int = field(default_factory=lambda: int(time.time()))

    @property
    def data_root(self) -> Path:
        """The parent of `DiscussionIds`, `SqlLiteDBs` and `logs`."""
        return self.data_directory or self.public_directory

    @property
    def old_data_directory(self) -> Path | None:
        """The folder of old programs, whose data stays in use; None where the Public or the config root is
        another one than that of this install: a root that was named is the only place. Source: memory.md 2.2.
        """
        own = shipped_public()
        is_own = is_same_path(self.public_directory, own) and is_same_path(
            self.config_directory, own / "Configs"
        )
        return OLD_DATA_DIRECTORY if is_own else None

    @property
    def beside_public(self) -> tuple[Path, ...]:
        """The folders above the Public root, and above a config root that is called `Public/Configs`."""
        config = Path(os.path.abspath(self.config_directory))
        above = [Path(os.path.abspath(self.public_directory)).parent]
        if [part.casefold() for part in config.parts[-2:]] == ["public", "configs"]:
            above.append(config.parents[1])
        return tuple(dict.fromkeys(above))


def is_same_path(one: Path, other: Path) -> bool:
    """Whether two paths are spelt the same once they are absolute. Touches no disk."""
    return os.path.abspath(one) == os.path.abspath(other)


_facts = LaunchFacts()


def set_launch_facts(facts: LaunchFacts) -> None:
    global _facts
    _facts = facts


def launch_facts() -> LaunchFacts:
    return _facts


def __getattr__(name: str) -> str:
    if name == "API_TYPE":
        request = current_request()
        return request.api_type if request else "openai"
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
