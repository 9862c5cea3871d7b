"""`--backup FILE.zip`, `--backup-dir DIR`: writes what an installation has into one zip file, while it runs.

Source: spec operate.md 3.
"""

from __future__ import annotations

import re
import sys
import time
from argparse import Namespace
from collections.abc import Iterable
from pathlib import Path

from Middleware.api.backup_roots import is_public_named, log_folders, roots_of
from Middleware.api.command_registry import (
    COMMANDS,
    Command,
    OwnArguments,
    check_config_folder,
    nonempty_text,
    positive_number,
)
from Middleware.common.constants import VERSION
from Middleware.common.errors import MiddlewareError
from Middleware.common.instance_global_variables import launch_facts
from Middleware.config.loader import ConfigSnapshot
from Middleware.config.validation import ERROR, Finding
from Middleware.services.backup.archive import BackupRefused, LeftOut, Manifest
from Middleware.services.backup.taking import OWN_NAME, Root, take_backup
from Middleware.services.backup.tree_use import note_backup, read_data_version
from Middleware.utilities.config_masks import secret_places, shown_text
from Middleware.utilities.config_text import like_old, text_of
from Middleware.utilities.text_utils import count_of
from Middleware.workflows.checks.config_check import check_tree, checked_tree
from Middleware.workflows.checks.outside_paths import named_paths

FAULTS = (BackupRefused, OSError, MiddlewareError)
"""What is told in one sentence."""
BEFORE = "headrace-before-restore-"
"""Begins the names of backups that `--restore --replace` makes; `--keep` deletes none of them."""
_TOLD = re.compile(r"a link |not a plain file|--Public|it is no text|a damaged")
"""Reasons for leaving something out that a reader should know; locks, logs and caches are none."""


@COMMANDS.register("backup_dir")
@COMMANDS.register("backup")
class Backup(Command):
    """Writes a backup."""

    def add_arguments(self, parser: OwnArguments) -> None:
        add = parser.add_argument
        add(
            "--backup",
            type=nonempty_text,
            metavar="FILE",
            help="Write configuration, discussions and scripts to this new zip file. "
            "The server may be running.",
        )
        add(
            "--backup-dir",
            type=nonempty_text,
            metavar="DIR",
            help="Write such a backup to this folder, with the time in its name.",
        )
        add(
            "--keep",
            type=positive_number,
            metavar="N",
            help="Keep the newest N backups of --backup-dir, and delete the older ones.",
        )
        add("--no-discussions", action="store_true", help="Leave the discussions out of the backup.")
        add("--no-secrets", action="store_true", help="Write *** in place of the keys of config files.")

    def run(self, arguments: Namespace) -> int:
        """Exit status 0; 1 if there is no backup, or something is missing from it; 2 for a usage error."""
        if arguments.keep is not None and arguments.backup_dir is None:
            print("--keep: works only with --backup-dir", file=sys.stderr)
            return 2
        facts = launch_facts()
        check_config_folder(facts)
        snapshot = checked_tree(facts.config_directory).snapshot()
        roots = roots_of(facts, snapshot, is_public_named=is_public_named(arguments))
        taken = [root for root in roots.taken if not (root.holds_discussions and arguments.no_discussions)]
        target = None
        try:
            target = _target(arguments)
            manifest = new_manifest(snapshot, taken)
            manifest.left_out += [] if arguments.no_discussions else roots.lacking
            unwanted = [root.path for root in roots.taken if root not in taken]
            mask = _without_secrets if arguments.no_secrets else None
            take_backup(target, taken, manifest, kept_out=[*log_folders(facts), *unwanted], mask=mask)
        except FAULTS as error:
            print(f"error: no backup was written: {sentence_about(error, target)}")
            return 1
        tell_of(target, manifest)
        if manifest.troubles:
            return 1
        if not arguments.no_discussions:
            note_backup(facts.data_root, target)
        if arguments.keep is not None:
            _prune(target, arguments.keep)
        return 0


def sentence_about(error: BaseException, written: Path | None = None) -> str:
    """What is wrong, and with which file; `written`: that of an error that names none, of a full disk."""
    if isinstance(error, OSError) and error.strerror:
        place = error.filename or written
        return f"{place}: {error.strerror}" if place else error.strerror
    return str(error)


def _target(arguments: Namespace) -> Path:
    if arguments.backup is not None:
        return Path(arguments.backup).expanduser().absolute()
    return new_file(Path(arguments.backup_dir).expanduser().absolute(), "headrace-")


def new_file(folder: Path, start: str) -> Path:
    """A name with the UTC time that no file of the folder has. Raises Refused."""
    if not folder.is_dir():
        raise BackupRefused(f"there is no folder {folder}; create it first")
    name = f"{start}{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime())}"
    taken = {path.name for path in folder.iterdir()}
    count = 1
    while (file := f"{name}{f'-{count}' if count > 1 else ''}.zip") in taken:
        count += 1
    return folder / file


def new_manifest(snapshot: ConfigSnapshot, roots: Iterable[Root]) -> Manifest:
    """What a backup of these roots says of itself before it has a file."""
    taken = list(roots)
    return Manifest(
        version=VERSION,
        data_version=read_data_version(launch_facts().data_root).version,
        time=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        roots={},
        elsewhere=[str(path) for path in named_paths(snapshot) if not _is_in(path, taken)],
        errors=error_places(check_tree(snapshot)),
    )


def _is_in(path: Path, roots: Iterable[Root]) -> bool:
    real = path.resolve()
    return any(real.is_relative_to(root.path.resolve()) for root in roots)


def error_places(findings: Iterable[Finding]) -> list[str]:
    """Where errors are: file and JSON pointer."""
    places = (f"{finding.file}#{finding.pointer}" for finding in findings if finding.level == ERROR)
    return list(dict.fromkeys(places))


def _without_secrets(raw: bytes) -> tuple[bytes, list[str]] | None:
    """A config file as it is shown to people. Source: spec console.md 2.6."""
    try:
        raw.decode("utf-8")
    except UnicodeDecodeError:
        return None
    text = text_of(raw)
    shown = shown_text(text)
    if shown == text:
        return raw, []
    return like_old(shown, raw), secret_places(text) or [""]


def tell_of(target: Path, manifest: Manifest) -> None:
    """Print what was written, what a reader should know of it, and what is missing."""
    size = sum(file.size for file in manifest.files.values())
    print(f"{target}: {count_of(len(manifest.files), 'file')}, {_shown_size(size)}")
    if manifest.masked:
        count = sum(map(len, manifest.masked.values()))
        print(f"{count_of(count, 'secret')} in {count_of(len(manifest.masked), 'file')} became ***")
    for each in manifest.left_out:
        if not each.trouble and _TOLD.match(each.why):
            print(f"not in the backup: {each.path}: {each.why}")
    for path in manifest.elsewhere:
        print(f"not in the backup: {path}, which the configuration names")
    for each in manifest.troubles:
        print(f"error: {_told(each)}")


def _told(each: LeftOut) -> str:
    return (
        f"{each.path}: {each.why}"
        if each.why.startswith("a damaged")
        else f"{each.path} is missing: {each.why}"
    )


def _shown_size(size: int) -> str:
    return f"{size / 1e6:,.1f} MB" if size >= 100_000 else f"{size / 1e3:,.1f} kB"


def _prune(newest: Path, keep: int) -> None:
    """Delete the oldest backups beyond `keep`; never the new one, whatever the clock says."""
    named = (path for path in newest.parent.iterdir() if OWN_NAME.fullmatch(path.name))
    others = sorted(
        (path for path in named if path != newest and "before" not in path.name), key=_age, reverse=True
    )
    for path in others[keep - 1 :]:
        path.unlink(missing_ok=True)
        print(f"deleted {path}")


def _age(path: Path) -> tuple[str, int]:
    """Time, and number within the second."""
    name, _, count = path.stem.removeprefix("headrace-").partition("-")
    return name, int(count or 1)
