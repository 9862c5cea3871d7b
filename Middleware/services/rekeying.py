"""Encrypted discussions get another key, or none. Safe to run again: a file that has its new form already
is done.

Source: spec memory.md 15, 18.6 (3).
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from Middleware.utilities import encryption_utils
from Middleware.utilities.file_locks import locked
from Middleware.utilities.file_utils import atomic_write

_KINDS = (".json", ".md", ".json.bak", ".md.bak")


@dataclass
class Rekeyed:
    """What was done, by path: `changed` (or would be), `kept` (had its form already), `unreadable`."""

    changed: list[Path] = field(default_factory=list)
    kept: list[Path] = field(default_factory=list)
    unreadable: list[Path] = field(default_factory=list)


def files_of(folder: Path) -> Iterator[Path]:
    """All files of discussions below the folder of a key."""
    for path in sorted(folder.rglob("*")):
        if path.is_file() and path.name.endswith(_KINDS) and not path.name.startswith("."):
            yield path


def rekey(
    folder: Path,
    old: bytes,
    new: bytes | None,
    *,
    preview: bool = False,
    told: Callable[[int, int], None] = lambda done, whole: None,
) -> Rekeyed:
    """Give every file below `folder` the key `new` (None: plain text). `preview`: change nothing.

    `told(done, whole)` is called after each file. Raises OSError.
    """
    result = Rekeyed()
    files = list(files_of(folder))
    for number, path in enumerate(files, 1):
        if preview:
            _one(path, old, new, result, write=False)
        else:
            with locked(path.parent / ".lock"):
                _one(path, old, new, result, write=True)
        told(number, len(files))
    return result


def _one(path: Path, old: bytes, new: bytes | None, result: Rekeyed, *, write: bool) -> None:
    raw = path.read_bytes()
    plain, has_form = _opened(path, raw, old, new)
    if plain is None:
        result.unreadable.append(path)
    elif has_form:
        result.kept.append(path)
    else:
        if write:
            atomic_write(path, plain if new is None else encryption_utils.encrypt(plain, new))
            _verify(path, plain, new)
        result.changed.append(path)


def _opened(path: Path, raw: bytes, old: bytes, new: bytes | None) -> tuple[bytes | None, bool]:
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
    try:
        text = raw.decode("utf-8")
        if ".json" in path.suffixes:
            json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def _verify(path: Path, plain: bytes, new: bytes | None) -> None:
    written = path.read_bytes()
    if (written if new is None else encryption_utils.decrypt(written, new)) != plain:
        raise OSError(f"{path} does not hold what was written")


def moved(folder: Path, target: Path) -> bool:
    """Rename the folder of a key; false (and nothing done) when the new name is taken."""
    if folder == target:
        return True
    if target.exists():
        return False
    os.rename(folder, target)
    return True
