"""Who works with the folders of an installation, and which version of the program has written there.

Servers and commands hold the folders together; a restore needs them alone. Whoever comes first after a
restore that was killed undoes it. Source: spec operate.md 3.
"""

from __future__ import annotations

import json
import logging
import re
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from Middleware.common.constants import VERSION
from Middleware.common.instance_global_variables import LaunchFacts
from Middleware.services.backup.tree_swap import (
    SwapUnclear,
    bases_of,
    undo_unfinished,
    unfinished,
)
from Middleware.utilities.file_locks import FolderHold, hold_folder
from Middleware.utilities.file_utils import atomic_write
from Middleware.utilities.install_layout import is_shipped, program, quote_words, tree_words

logger = logging.getLogger(__name__)

VERSION_FILE = "version.json"
"""In the data root: which version wrote there. A backup tells it in its manifest, and takes no file."""
PATIENCE_S = 30.0
"""How long a start waits for another one that undoes a restore."""
_POLL_S = 0.05


class TreeBusy(Exception):
    """The folders cannot be used as wanted; the text says why."""


@dataclass(frozen=True, slots=True)
class FolderUse:
    """Folders that are held. `undone`: a killed restore was undone before, so what was read may be gone."""

    holds: Sequence[FolderHold]
    undone: bool

    def give_back(self) -> None:
        for hold in self.holds:
            hold.give_back()


def folders_of(facts: LaunchFacts) -> list[Path]:
    """The folders of an installation that are there, as far as the command line names them."""
    named = [facts.data_root, facts.public_directory, facts.config_directory]
    named.append(facts.discussion_directory or facts.data_root / "DiscussionIds")
    named += [facts.history_directory] if facts.history_directory is not None else []
    return existing(named)


def existing(folders: Iterable[Path]) -> list[Path]:
    """Those of the folders that are there and no part of a wheel, each once."""
    return [folder for folder in dict.fromkeys(folders) if folder.is_dir() and not is_shipped(folder)]


def use_together(
    home: Path,
    folders: Sequence[Path],
    *,
    patience_s: float = PATIENCE_S,
    clock: Callable[[], float] = time.monotonic,
) -> FolderUse:
    """Hold the folders with others, for as long as the value lives. What a killed restore has left is undone
    before that. `home`: the data root. Raises TreeBusy.
    """
    end, undone = clock() + patience_s, False
    while True:
        holds = hold_all(folders)
        try:
            journals = unfinished(home, folders) if holds is not None else []
        except (SwapUnclear, OSError) as error:
            raise TreeBusy(str(error)) from error
        if holds is not None and not journals:
            return FolderUse(holds, undone)
        for hold in holds or ():
            hold.give_back()
        undone = any(_undo_alone(journal, folders) for journal in journals) or undone
        if clock() >= end:
            where = ", ".join(map(str, folders))
            raise TreeBusy(f"a restore is at work in {where}; start again when it has ended")
        time.sleep(_POLL_S)


def hold_all(folders: Iterable[Path], *, alone: bool = False) -> list[FolderHold] | None:
    """Hold all of these folders, or none: then somebody else's hold does not allow it. A file system that
    knows no locks is told of; `alone` cannot be had there. Raises TreeBusy.
    """
    holds: list[FolderHold] = []
    for folder in sorted({folder.resolve() for folder in folders}):
        try:
            hold = hold_folder(folder, alone=alone)
        except FileNotFoundError:
            continue
        except OSError as error:
            if alone:
                raise TreeBusy(f"{folder} cannot be locked: {error.strerror or error}") from error
            why = error.strerror or error
            logger.warning("%s cannot be locked (%s): restore no backup while a server runs", folder, why)
            continue
        if hold is None:
            for each in holds:
                each.give_back()
            return None
        holds.append(hold)
    return holds


def _undo_alone(journal: Path, folders: Sequence[Path]) -> bool:
    """Undo one unfinished restore, if nobody else has the folders now. Raises TreeBusy."""
    try:
        everywhere = existing([*folders, journal.parent, *bases_of(journal, folders)])
        holds = hold_all(everywhere, alone=True)
        if holds is None:
            return False
        try:
            if journal.exists() and undo_unfinished(journal, folders):
                logger.warning(
                    "a restore in %s was interrupted and has been undone; all is as it was before",
                    journal.parent,
                )
        finally:
            for hold in holds:
                hold.give_back()
    except FileNotFoundError:
        return True  # somebody else was faster
    except (SwapUnclear, OSError) as error:
        raise TreeBusy(f"an interrupted restore cannot be undone: {error}") from error
    return True


# --------------------------------------------------------------------------
# Which version has written to the data.


@dataclass(slots=True)
class DataVersion:
    """`version`: the newest that wrote; empty: nobody knows. `backups`: version -> its last backup."""

    version: str = ""
    backups: dict[str, str] = field(default_factory=dict)


_NUMBER = "([0-9]{1,9})(?![0-9])"
_VERSION = re.compile(rf"{_NUMBER}(?:\.{_NUMBER})?(?:\.{_NUMBER})?")


def numbers_of(version: str) -> tuple[int, int, int]:
    """Major, minor and patch; what is no number, or one of more than nine digits, counts as 0."""
    found = _VERSION.match(version)
    major, minor, patch = found.groups("0") if found else ("0", "0", "0")
    return int(major), int(minor), int(patch)


def read_data_version(home: Path) -> DataVersion:
    """What the data root says; nothing where the file is missing or damaged."""
    try:
        document = json.loads((home / VERSION_FILE).read_bytes())
        backups = {str(version): str(file) for version, file in document.get("backups", {}).items()}
        return DataVersion(str(document["version"]), backups)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return DataVersion()


def data_version_bytes(known: DataVersion) -> bytes:
    """The contents of the file."""
    document = {"version": known.version, "backups": known.backups}
    return json.dumps(document, indent=4).encode("ascii")


def note_version(home: Path, *, version: str = VERSION) -> None:
    """This version writes to the data now; a root that cannot be written to keeps nothing."""
    known = read_data_version(home)
    if numbers_of(known.version) >= numbers_of(version) and known.version:
        return
    known.version = version
    with suppress(OSError):
        home.mkdir(parents=True, exist_ok=True)
        atomic_write(home / VERSION_FILE, data_version_bytes(known))


def note_backup(home: Path, file: Path, *, version: str = VERSION) -> None:
    """Remember the newest backup of this version, for whoever has to go back to it."""
    known = read_data_version(home)
    known.version = known.version or version
    known.backups[version] = str(file)
    with suppress(OSError):
        atomic_write(home / VERSION_FILE, data_version_bytes(known))


def newest_backup(known: DataVersion, *, version: str = VERSION) -> str:
    """The newest backup that a program of `version` can read and that is still there; empty: none."""
    fitting = [(numbers_of(each), file) for each, file in known.backups.items()
               if numbers_of(each)[0] <= numbers_of(version)[0] and Path(file).is_file()]  # fmt: skip
    return max(fitting)[1] if fitting else ""


NEWER_MAJOR, NEWER_MINOR = "major", "minor"


def newer_than_program(written: str, *, version: str = VERSION) -> str:
    """Whether data was written by a newer major or minor version; empty: by none."""
    theirs, ours = numbers_of(written), numbers_of(version)
    if theirs[0] > ours[0]:
        return NEWER_MAJOR
    return NEWER_MINOR if theirs[:2] > ours[:2] else ""


def way_back(facts: LaunchFacts) -> str:
    """What to type to go back to the newest backup that this version can read."""
    words = [program(), *map(quote_words, tree_words(facts))]
    file = newest_backup(read_data_version(facts.data_root))
    return " ".join([*words, "--restore", quote_words(file) if file else "FILE.zip", "--replace"])


def enter_data(facts: LaunchFacts) -> None:
    """This version is about to write to the data. Raises TreeBusy where a newer major version has."""
    written = read_data_version(facts.data_root).version
    newer = newer_than_program(written)
    if newer == NEWER_MAJOR:
        raise TreeBusy(
            f"version {written} has written to {facts.data_root}, and this one, {VERSION}, cannot read that. "
            f"Install {written} again, or go back to a backup: {way_back(facts)}"
        )
    if newer:
        logger.warning(
            "version %s has written to %s; this one is %s and may not know all of it. "
            "To go back to a backup: %s",
            written,
            facts.data_root,
            VERSION,
            way_back(facts),
        )
    note_version(facts.data_root)
