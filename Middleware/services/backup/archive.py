"""The form of a backup: a zip file of plain files, with a `manifest.json` that says what each one is.

    manifest.json     {"format": 1, "version", "data_version", "time", "roots", "files", "left_out", ...}
    config/Users/ana.json, discussions/trip/memories.json, ...      `<root>/<path below it>`

A backup is written whole or not at all, and nothing is believed that is read from one: names, sizes and
digests are checked. Knows nothing of what the files mean. Source: spec operate.md 3.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import stat
import time
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import IO, Any

from Middleware.config.paths import is_flat_name
from Middleware.utilities.file_locks import hold_folder
from Middleware.utilities.file_utils import sync_folder
from Middleware.utilities.zip_entries import BROKEN_ZIP, plain_entries, read_entry

MANIFEST = "manifest.json"
FORMAT = 1
MOST_MANIFEST = 256 * 1024 * 1024
_BLOCK = 1024 * 1024
_LEVEL = 3
"""Of compression: a discussion is held while its files are taken."""
_ROOT_NAME = re.compile(r"[a-z]+(-[0-9]+)?")
_DIGEST = re.compile(r"[0-9a-f]{64}")
_BROKEN = (*BROKEN_ZIP, TypeError, AttributeError, OverflowError, RecursionError)
"""What reading raises for a file that is no backup."""
_MOST_TIME = 1 << 40
"""Unix seconds. Later ones no file system knows."""


class BackupRefused(ValueError):
    """What was asked for cannot be done; the text says why."""


@dataclass(frozen=True, slots=True)
class StoredFile:
    """`size` in bytes, `mode`: its permission bits, `time`: of its last change, in seconds since 1970."""

    sha256: str
    size: int
    mode: int
    time: int


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A file or folder that is not in the backup, and why. `trouble`: it should be."""

    path: str
    why: str
    trouble: bool = False


@dataclass(slots=True)
class Manifest:
    """What a backup says of itself. `version`: of the program; `data_version`: the newest one that wrote to
    the data, empty if nobody knows. `roots`: name -> its folder then, and as a user file names it, if one
    does. `files`: `<root>/<path>`; `folders`: permission bits of those that hold them. `masked`: file -> JSON
    pointers of what is `***`. `elsewhere`: what the configuration names outside of the roots. `errors`: the
    places in which the check found one.
    """

    version: str
    data_version: str
    time: str
    roots: dict[str, dict[str, str]]
    files: dict[str, StoredFile] = field(default_factory=dict)
    folders: dict[str, int] = field(default_factory=dict)
    left_out: list[LeftOut] = field(default_factory=list)
    masked: dict[str, list[str]] = field(default_factory=dict)
    elsewhere: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)

    @property
    def troubles(self) -> list[LeftOut]:
        return [each for each in self.left_out if each.trouble]

    @property
    def has_discussions(self) -> bool:
        return any(name.startswith("discussions") for name in self.roots)


# --------------------------------------------------------------------------
# Writing.


WORK = ".headrace-backup-"
PARTIAL = ".partial"
"""Begin and end the name of the folder beside a backup in which it is made."""


class ArchiveWriter:
    """Takes files into a backup that is being made. `work`: a folder for what it needs on the way."""

    def __init__(self, archive: zipfile.ZipFile, manifest: Manifest, work: Path) -> None:
        self._archive, self.manifest, self.work = archive, manifest, work
        self._left_out: set[LeftOut] = set()

    def add(self, name: str, source: IO[bytes], facts: os.stat_result) -> None:
        """A file of these contents, from where `source` stands; mode and time are those of `facts`."""
        digest, size = hashlib.sha256(), 0
        info = zipfile.ZipInfo(name, _zip_time(facts.st_mtime))
        info.external_attr = stat.S_IFREG << 16 | stat.S_IMODE(facts.st_mode) << 16
        info.compress_type = zipfile.ZIP_DEFLATED
        with self._archive.open(info, "w", force_zip64=True) as target:
            while block := source.read(_BLOCK):
                digest.update(block)
                size += len(block)
                target.write(block)
        self.manifest.files[name] = StoredFile(
            digest.hexdigest(), size, stat.S_IMODE(facts.st_mode), int(facts.st_mtime)
        )

    def leave_out(self, path: Path | str, why: str, *, trouble: bool = False) -> None:
        """List it in the manifest, once: folders of discussions are looked through several times."""
        told = LeftOut(os.fsencode(path).decode("utf-8", "backslashreplace"), why, trouble)
        if told not in self._left_out:
            self._left_out.add(told)
            self.manifest.left_out.append(told)


def _zip_time(seconds: float) -> tuple[int, int, int, int, int, int]:
    """A zip file knows no time before 1980, and none behind 2107."""
    year, *rest = time.localtime(seconds)[:6]
    return (min(max(year, 1980), 2107), *rest)  # type: ignore[return-value]


@contextmanager
def writing(target: Path, manifest: Manifest) -> Iterator[ArchiveWriter]:
    """A backup that is made while the `with` block runs, and is `target` after it; nothing after an error.

    Raises BackupRefused, OSError.
    """
    if os.path.lexists(target):
        raise BackupRefused(f"{target} already exists and is not overwritten")
    if not target.parent.is_dir():
        raise BackupRefused(f"there is no folder {target.parent}")
    _remove_unfinished(target.parent)
    work = target.parent / f"{WORK}{os.urandom(8).hex()}{PARTIAL}"
    work.mkdir(mode=0o700)
    hold = hold_folder(work, alone=True)
    try:
        made = work / "backup.zip"
        handle = os.open(made, os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o600)
        with os.fdopen(handle, "w+b") as file:
            with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, compresslevel=_LEVEL) as archive:
                yield ArchiveWriter(archive, manifest, work)
                archive.writestr(MANIFEST, _manifest_bytes(manifest))
            file.flush()
            os.fsync(file.fileno())
        _name_it(made, target)
    finally:
        if hold is not None:
            hold.give_back()
        shutil.rmtree(work, ignore_errors=True)


def _manifest_bytes(manifest: Manifest) -> bytes:
    return json.dumps({"format": FORMAT, **asdict(manifest)}, indent=1).encode("ascii")


def _name_it(made: Path, target: Path) -> None:
    """Give a finished file its name, unless somebody else took it meanwhile. Raises BackupRefused."""
    try:
        os.link(made, target)
    except FileExistsError:
        raise BackupRefused(f"{target} already exists and is not overwritten") from None
    except OSError:  # a file system without second names
        if os.path.lexists(target):
            raise BackupRefused(f"{target} already exists and is not overwritten") from None
        os.rename(made, target)
    sync_folder(target.parent)


def _remove_unfinished(folder: Path) -> None:
    """Remove what killed backups have left; what is being made is held."""
    for work in folder.glob(f"{WORK}*{PARTIAL}"):
        with suppress(OSError):
            if (hold := hold_folder(work, alone=True)) is not None:
                hold.give_back()
                shutil.rmtree(work, ignore_errors=True)


# --------------------------------------------------------------------------
# Reading.


class Archive:
    """A backup that is open for reading. Raises BackupRefused for what is none, OSError."""

    def __init__(self, source: Path) -> None:
        self.source = source
        with self._telling():
            self._zip = zipfile.ZipFile(source)
        try:
            with self._telling():
                self.manifest = self._read_manifest()
        except BaseException:
            self._zip.close()
            raise

    def __enter__(self) -> Archive:
        return self

    def __exit__(self, *_: object) -> None:
        self._zip.close()

    @contextmanager
    def _telling(self) -> Iterator[None]:
        try:
            yield
        except (BackupRefused, OSError):
            raise
        except _BROKEN as error:
            raise BackupRefused(f"{self.source} cannot be read as a backup: {error}") from error

    def _read_manifest(self) -> Manifest:
        entries = plain_entries(self._zip)
        written = read_entry(self._zip, entries[MANIFEST], MOST_MANIFEST) if MANIFEST in entries else None
        if written is None:
            raise BackupRefused(f"{self.source} is not a backup: it has no {MANIFEST}")
        document = json.loads(written)
        if document.get("format") != FORMAT:
            raise BackupRefused(f"{self.source} has a form of backup that this version does not know")
        manifest = _manifest_of(document)
        if set(entries) != {*manifest.files, MANIFEST}:
            raise BackupRefused(f"{self.source} does not hold the files that its {MANIFEST} names")
        return manifest

    def check(self, told: Callable[[int], None] = lambda size: None) -> None:
        """Read every file and compare its digest. Raises BackupRefused."""
        for name in self.manifest.files:
            self._copy(name, None)
            told(self.manifest.files[name].size)

    def unpack(self, name: str, target: Path) -> None:
        """Write one file, which must not exist yet, with the mode and the time that it had. Raises
        BackupRefused, OSError.
        """
        stored = self.manifest.files[name]
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
        with os.fdopen(os.open(target, flags, 0o600), "wb") as file:
            self._copy(name, file)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(target, stored.mode | stat.S_IRUSR | stat.S_IWUSR)
        os.utime(target, (stored.time, stored.time))

    def _copy(self, name: str, target: IO[bytes] | None) -> None:
        stored, digest, size = self.manifest.files[name], hashlib.sha256(), 0
        with self._telling(), self._zip.open(name) as source:
            while block := source.read(_BLOCK):
                size += len(block)
                if size > stored.size:
                    break
                digest.update(block)
                if target is not None:
                    target.write(block)
        if size != stored.size or digest.hexdigest() != stored.sha256:
            raise BackupRefused(f"{self.source} is damaged: {name} is not what was backed up")


def _manifest_of(document: Any) -> Manifest:
    """Raises TypeError, ValueError, KeyError for what has another form."""
    roots = {str(name): {"path": str(one["path"]), "written": str(one.get("written", ""))}
             for name, one in document["roots"].items()}  # fmt: skip
    if not all(_ROOT_NAME.fullmatch(name) for name in roots):
        raise ValueError("it has a root whose name cannot be one")
    files = {name: _stored(name, one, roots) for name, one in document["files"].items()}
    return Manifest(
        version=str(document["version"]),
        data_version=str(document["data_version"]),
        time=str(document["time"]),
        roots=roots,
        files=files,
        folders={str(name): int(mode) & 0o777 for name, mode in document["folders"].items()},
        left_out=[
            LeftOut(str(one["path"]), str(one["why"]), bool(one["trouble"])) for one in document["left_out"]
        ],
        masked={str(file): [str(one) for one in places] for file, places in document["masked"].items()},
        elsewhere=[str(one) for one in document["elsewhere"]],
        errors=[str(one) for one in document["errors"]],
    )


def _stored(name: str, one: Any, roots: dict[str, dict[str, str]]) -> StoredFile:
    root, *parts = name.split("/")
    if root not in roots or not parts or not all(map(_is_part, parts)):
        raise ValueError(f"{name!r} is not the name of a file in a backup")
    stored = StoredFile(str(one["sha256"]), int(one["size"]), int(one["mode"]), int(one["time"]))
    is_right = _DIGEST.fullmatch(stored.sha256) and stored.size >= 0 and 0 <= stored.mode <= 0o7777
    if not is_right or abs(stored.time) > _MOST_TIME:
        raise ValueError(f"what it says of {name!r} cannot be")
    return StoredFile(stored.sha256, stored.size, stored.mode & 0o777, stored.time)


def _is_part(part: str) -> bool:
    r"""A plain name. Unlike the name of a discussion it may hold `\` and `:`, where the system can hold it:
    that is asked before anything is written.
    """
    return is_flat_name(part.replace("\\", "_").replace(":", "_"))
