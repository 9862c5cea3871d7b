"""Which folders belong to an installation: what a backup takes, and where a restore puts it.

A further folder is one more line in `roots_of`, and one in `place_of`. Source: spec operate.md 3.
"""

from __future__ import annotations

import os
from argparse import Namespace
from dataclasses import dataclass
from pathlib import Path

from Middleware.common.errors import ConfigError
from Middleware.common.instance_global_variables import LaunchFacts, is_same_path, shipped_public
from Middleware.config.loader import ConfigSnapshot
from Middleware.config.users import load_user, user_names
from Middleware.services.backup.archive import LeftOut
from Middleware.services.backup.taking import Root
from Middleware.services.history import FILE_NAME
from Middleware.utilities.install_layout import is_shipped

CONFIG, PUBLIC, DATA, DISCUSSIONS, HISTORY = "config", "public", "data", "discussions", "history"
KEYS = "keys"
"""Names of roots in a backup. Folders that user files name are `discussions-2` and so on."""

OF_PUBLIC = frozenset({"workflow_python_scripts", "ConfigBackups"})
"""What is taken of a Public root that nobody named: the folder above a named config root may be anything, the
home folder too.
"""


@dataclass(frozen=True, slots=True)
class Roots:
    """`taken`: what a backup takes; `lacking`: what it should take and cannot find."""

    taken: list[Root]
    lacking: list[LeftOut]


def roots_of(facts: LaunchFacts, snapshot: ConfigSnapshot, *, is_public_named: bool) -> Roots:
    """The folders of this installation, whether they are there or not. What came in a wheel is none of it."""
    lacking: list[LeftOut] = []
    found = [Root(CONFIG, _real(facts.config_directory)), _public_root(facts, is_public_named)]
    if facts.data_directory is not None:
        found.append(Root(DATA, _real(facts.data_directory)))
    found += _discussion_roots(facts, snapshot, lacking)
    if facts.history_directory is not None:
        found.append(Root(HISTORY, _real(facts.history_directory), only=frozenset({FILE_NAME})))
    taken: dict[Path, Root] = {}
    for root in found:
        if not is_shipped(root.path):
            taken.setdefault(Path(os.path.realpath(root.path)), root)
    return Roots([*taken.values(), *_keys_root(facts, list(taken.values()))], lacking)


def _keys_root(facts: LaunchFacts, others: list[Root]) -> list[Root]:
    """The one file that the command line names, unless another root takes it."""
    if facts.keys_file is None:
        return []
    file = _real(facts.keys_file)
    is_taken = any(root.only is None and _is_below(file, root.path) for root in others)
    return [] if is_taken else [Root(KEYS, file.parent, only=frozenset({file.name}))]


def _is_below(file: Path, folder: Path) -> bool:
    return Path(os.path.realpath(folder)) in Path(os.path.realpath(file)).parents


def _real(path: Path) -> Path:
    return Path(os.path.abspath(path))


def _public_root(facts: LaunchFacts, is_named: bool) -> Root:
    public = _real(facts.public_directory)
    is_whole = is_named or is_same_path(public, shipped_public()) or public.name.casefold() == PUBLIC
    return Root(PUBLIC, public, only=None if is_whole else OF_PUBLIC)


def _discussion_roots(facts: LaunchFacts, snapshot: ConfigSnapshot, lacking: list[LeftOut]) -> list[Root]:
    """The folder of the command line; without one the default folder, and those that user files name."""
    if facts.discussion_directory is not None:
        return [Root(DISCUSSIONS, _real(facts.discussion_directory))]
    default = facts.data_root / "DiscussionIds"
    roots = [Root(DISCUSSIONS, _real(default), install=facts.old_data_directory)]
    for name in user_names(snapshot):
        try:
            written = load_user(snapshot, name).discussion_directory
        except ConfigError as error:
            why = "this user file cannot be read, so nobody knows which folder of discussions it names"
            lacking.append(LeftOut(error.file or name, why, trouble=True))
            continue
        path = _real(Path(written).expanduser())
        if written and all(root.path != path for root in roots):
            roots.append(Root(f"{DISCUSSIONS}-{len(roots) + 1}", path, written))
    return roots


def is_public_named(arguments: Namespace) -> bool:
    """Whether the command line names the Public root."""
    return bool((arguments.PublicDirectory or "").strip())


def log_folders(facts: LaunchFacts) -> list[Path]:
    """Where log files are, for all users."""
    folder = facts.logging_directory or facts.data_root / "logs"
    return [Path(str(folder).partition("<user>")[0])]


def place_of(facts: LaunchFacts, name: str, written: str) -> Path | None:
    """Where a root of a backup goes; None: the command line names no folder for it. `written`: as a user file
    of the backup names it, if one does.
    """
    if name == CONFIG:
        return facts.config_directory
    if name == PUBLIC:
        return facts.public_directory
    if name == DATA:
        return facts.data_root
    if name == HISTORY:
        return facts.history_directory
    if name == KEYS:
        return facts.keys_file.parent if facts.keys_file is not None else None
    if facts.discussion_directory is not None:
        return facts.discussion_directory
    return Path(written).expanduser() if written else facts.data_root / "DiscussionIds"
