"""Encrypted discussions get another key, or none. Safe to run again: a file that has its new form already
is done.

Source: spec memory.md 15, 18.6 (3).
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from Middleware.utilities import encryption_utils
from Middleware.utilities.file_locks import hold_lock
from Middleware.utilities.file_utils import atomic_write

_KINDS = re.compile(r"[^.].*\.(json|md)(\.bak|(?P<damaged>\.corrupt-[\d-]+))?", re.I)

Told = Callable[[int, int], None]


@dataclass
class Rekeyed:
    """What was done, by path: `changed` (or would be), `kept` (had its form already), `unreadable` (why)."""

    changed: list[Path] = field(default_factory=list)
    kept: list[Path] = field(default_factory=list)
    unreadable: dict[Path, str] = field(default_factory=dict)


def files_of(folder: Path, unreadable: Callable[[OSError], None] = lambda error: None) -> Iterator[Path]:
    """All files of discussions below the folder of a key, also those that were put aside.

    `unreadable` is told of folders that cannot be looked into.
    """
    for place, folders, names in os.walk(folder, onerror=unreadable):
        folders.sort()
        for name in sorted(names):
            if _KINDS.fullmatch(name):
                yield Path(place, name)


def holds_files_of(folder: Path, key: bytes) -> bool:
    """Whether a file below `folder` is encrypted with `key`."""
    return any(_is_of(path, key) for path in files_of(folder))


def _is_of(path: Path, key: bytes) -> bool:
    try:
        encryption_utils.decrypt(path.read_bytes(), key)
    except (OSError, encryption_utils.InvalidToken):
        return False
    return True


def rekey(
    folder: Path,
    old: bytes,
    new: bytes | None,
    *,
    preview: bool = False,
    told: Told = lambda done, whole: None,
) -> Rekeyed:
    """Give every file below `folder` the key `new` (None: plain text). `preview`: change nothing.

    What cannot be read or written is left as it is, and the work goes on. `told(done, whole)` is called after
    each file. Raises OSError only for a disk that does not contain what was written.
    """
    result = Rekeyed()

    def unreadable(error: OSError) -> None:
        result.unreadable[Path(error.filename)] = error.strerror or str(error)

    files = list(files_of(folder, unreadable))
    for number, path in enumerate(files, 1):
        try:
            _one(path, old, new, result, write=not preview)
        except _NotHeld:
            raise
        except OSError as error:
            result.unreadable[path] = error.strerror or str(error)
        told(number, len(files))
    return result


class _NotHeld(OSError):
    """The disk does not contain what was written."""


def _one(path: Path, old: bytes, new: bytes | None, result: Rekeyed, *, write: bool) -> None:
    if not write:
        _rekey_file(path, old, new, result, write=False)
        return
    with hold_lock(path.parent / ".lock"):
        _rekey_file(path, old, new, result, write=True)


def _rekey_file(path: Path, old: bytes, new: bytes | None, result: Rekeyed, *, write: bool) -> None:
    raw = path.read_bytes()
    plain, has_form = _decrypt_file(path, raw, old, new)
    if plain is None:
        result.unreadable[path] = "neither key can decrypt it"
    elif has_form:
        result.kept.append(path)
    else:
        if write:
            atomic_write(path, plain if new is None else encryption_utils.encrypt(plain, new))
            _verify(path, plain, new)
        result.changed.append(path)


def _decrypt_file(path: Path, raw: bytes, old: bytes, new: bytes | None) -> tuple[bytes | None, bool]:
    """The plain bytes (None: unreadable), and whether the file has its new form already."""
    for key, has_form in ((new, True), (old, old == new)):
        if key is not None:
            try:
                return encryption_utils.decrypt(raw, key), has_form
            except encryption_utils.InvalidToken:
                continue
    if raw.startswith(encryption_utils.TOKEN_START):
        return None, False
    return (raw, new is None) if _is_plain(path, raw) else (None, False)


def _is_plain(path: Path, raw: bytes) -> bool:
    """What was put aside as damaged may be anything."""
    kind = _KINDS.fullmatch(path.name)
    if kind is not None and kind["damaged"]:
        return True
    try:
        text = raw.decode("utf-8")
        if kind is not None and kind[1].lower() == "json":
            json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def _verify(path: Path, plain: bytes, new: bytes | None) -> None:
    written = path.read_bytes()
    if (written if new is None else encryption_utils.decrypt(written, new)) != plain:
        raise _NotHeld(f"{path} does not contain what was written")


def move_folder(folder: Path, target: Path) -> bool:
    """Rename the folder of a key; false (and nothing done) when the new name is taken."""
    if folder == target:
        return True
    if target.exists():
        return False
    os.rename(folder, target)
    return True
