"""What the page may write into the config tree: a text over an old one, or a new file. Raises Refused.

Source: spec console.md 9.6, 9.7.
"""

from __future__ import annotations

import errno
import logging
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from Middleware.api.console.config_files import (
    SHIPPED,
    ConfigText,
    NotKept,
    came_with_the_program,
    keep_old,
    like_old,
    read_config_text,
    why_not_writable,
    with_line_feeds,
)
from Middleware.api.console.config_masks import LOST, restore_secrets
from Middleware.api.console.config_paths import ConfigFile, config_file
from Middleware.api.console.problems import problems
from Middleware.api.console.view_contract import ViewRefused
from Middleware.common.errors import ConfigError
from Middleware.config.drafts import draft_snapshot
from Middleware.config.loader import ConfigSnapshot
from Middleware.config.validation import ERROR, Finding
from Middleware.utilities.file_locks import hold_lock, lock_file_for
from Middleware.utilities.file_utils import atomic_write
from Middleware.workflows.managers.config_check import file_findings, finding_of, named_settings

logger = logging.getLogger(__name__)

CHANGED = "the file was changed meanwhile"
_UNREAD = "\ufffd"
"""Stands in a text for what could not be decoded."""


def save(snapshot: ConfigSnapshot, path: str, folders: Sequence[str], text: str, version: str) -> ConfigText:
    """Write `text`, as the page was shown it, over a file that has this version. Gives what stands there now.

    404 for no file, 403 for one that cannot be written, 409 for another version, 422 for a text with errors
    of its own, 500 where the old text or the new one cannot be kept.
    """
    place = config_file(snapshot.root, path, folders)
    with _locked_file(place.real, path):
        place = config_file(snapshot.root, path, folders)
        if why := _why_not(place, folders):
            raise ViewRefused(403, f"{path} cannot be written: {why}")
        old = read_held(snapshot, place)
        if old.version != version:
            raise ViewRefused(409, CHANGED, version=old.version, text=old.shown_text)
        raw = checked_bytes(snapshot, path, text, old)
        if raw == old.raw:
            return old
        try:
            keep_old(snapshot.root, old)
        except NotKept as error:
            raise ViewRefused(500, f"the old text could not be kept: {error}") from error
        atomic_write(place.real, raw)
    logger.info("console: saved %s", path)
    return ConfigText(place, raw)


def make(snapshot: ConfigSnapshot, path: str, raw: bytes) -> None:
    """Write a new file, and the folder that it lies in. 409 where something is, 422 for errors of its own.

    `path`: one that may be made.
    """
    target = snapshot.root / path
    if came_with_the_program(Path(os.path.realpath(target))):
        raise ViewRefused(403, f"{path} cannot be made: {SHIPPED}")
    if os.path.lexists(target):
        raise ViewRefused(409, f"{path} exists already")
    refuse_errors(snapshot, path, raw)
    with _locked_file(target, path):
        target.parent.mkdir(parents=True, exist_ok=True)
        if os.path.lexists(target):
            raise ViewRefused(409, f"{path} exists already")
        atomic_write(target, raw)
    logger.info("console: made %s", path)


def checked_bytes(snapshot: ConfigSnapshot, path: str, text: str, old: ConfigText) -> bytes:
    """The bytes of a text that takes the place of an old one: its masks filled, its errors refused."""
    new, lost = restore_secrets(with_line_feeds(text).removeprefix("\ufeff"), old.text)
    if lost:
        _refuse([Finding(path, pointer, ERROR, LOST) for pointer in lost], path, new, of=lost[0])
    if _UNREAD in new and _UNREAD in old.text and _UNREAD.encode() not in old.raw:
        said = (
            f"{_UNREAD} stands for bytes that are no UTF-8: write what was meant, or save the file as UTF-8"
        )
        raise ViewRefused(422, said, problems=[])
    try:
        raw = like_old(new, old.raw)
    except UnicodeEncodeError as error:
        raise ViewRefused(400, "text: found half of a character, allowed: a text of whole ones") from error
    refuse_errors(snapshot, path, raw)
    return raw


def refuse_errors(snapshot: ConfigSnapshot, path: str, raw: bytes) -> None:
    """422 for what the loader would refuse, and every error that the file has by itself."""
    draft = draft_snapshot(snapshot, path, raw)
    found = [f for f in file_findings(draft, path, named_settings(draft).get(path)) if f.level == ERROR]
    try:
        draft.read(path)
    except ConfigError as error:
        found = found or [finding_of(error, path)]
    if found:
        _refuse(found, path, raw.decode("utf-8", "replace").removeprefix("\ufeff"))


def _refuse(found: list[Finding], path: str, text: str, *, of: str = "") -> None:
    told = problems(found, path, text)
    first = told[0]
    place = of or f"{first['line']}:{first['column']}"
    more = f" (and {len(told) - 1} more)" if len(told) > 1 else ""
    raise ViewRefused(422, f"{place}: {first['message']}{more}", problems=told)


def _why_not(place: ConfigFile, folders: Sequence[str]) -> str:
    """As `why_not_writable`; also for a link into a folder that is none of these."""
    if place.real_folder not in folders:
        return f"it is a link into {place.real_folder}/, which is edited by hand"
    return why_not_writable(place)


def read_held(snapshot: ConfigSnapshot, place: ConfigFile) -> ConfigText:
    """403 for a file that this account may not read."""
    try:
        return read_config_text(snapshot.tree, place)
    except OSError as error:
        raise ViewRefused(403, f"{place.file} cannot be read: {error.strerror}") from error


@contextmanager
def _locked_file(file: Path, path: str) -> Iterator[None]:
    """The lock of a file. What the system refuses inside is an answer with its reason: 403 for want of a
    right, else 500.
    """
    try:
        with hold_lock(lock_file_for(file)):
            yield
    except OSError as error:
        status = 403 if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS) else 500
        raise ViewRefused(status, f"{path} cannot be written: {error.strerror or error}") from error
