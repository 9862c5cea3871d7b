"""All discussions of a user: which there are, one as a zip file, and one out of a zip file or another folder.

A zip file holds a discussion as plain text, whatever encrypts it where it lies. Source: spec memory.md 2, 15.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import shutil
import sqlite3
import tempfile
import time
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, closing, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from Middleware.config.paths import is_discussion_id
from Middleware.services.discussion_store import (
    BACKED_UP,
    MEMORY_ENDS,
    MEMORY_PINS,
    VECTOR_DATABASE,
    DiscussionStore,
    an_object,
    entries_of,
)
from Middleware.services.file_memories import ends_of, pins_of
from Middleware.utilities.file_locks import locked_in_time
from Middleware.utilities.file_utils import atomic_write, refuse_replacing
from Middleware.utilities.hashing_utils import sha256_hex
from Middleware.utilities.zip_entries import BROKEN_ZIP, plain_entries, read_entry

TEXT_FILES = ("state_document.md",)
LISTS = (
    "memories.json",
    "chat_summary.json",
    "context_compactor_old.json",
    "context_compactor_oldest.json",
    "context_compactor_reach.json",
)
OBJECTS = ("condensation_tracker.json", "timestamps.json", "vision_responses.json")
NAMES = (*LISTS, MEMORY_ENDS, MEMORY_PINS, *OBJECTS, *TEXT_FILES, VECTOR_DATABASE)
"""The files of a discussion, backups apart."""
NOT_CORRECTED = (
    "timestamps.json",
    "vision_responses.json",
    "context_compactor_old.json",
    "context_compactor_oldest.json",
    "context_compactor_reach.json",
)
"""What no correction changes, so that an undo leaves it as it is."""
CORRECTED = (
    *(name for name in NAMES if name not in NOT_CORRECTED),
    *(f"{name}.bak" for name in BACKED_UP),
)
"""What a correction may change, backups among it."""

MAKING, IMPORTING = ".making-", ".importing-"
"""Begin the names of folders in which a discussion is being made, until it is whole. No client's discussion
has such a name.
"""
_STALE_S = 3600.0
MOST_IMPORT = 1024 * 1024 * 1024
"""Bytes of a discussion in a zip file, unpacked: it is read into memory."""
_LOCKS = re.compile(r"\.(lock|[^.]+\.lease)")
_KEY_FOLDER = re.compile(r"[0-9a-f]{16}")


class ArchiveRefused(ValueError):
    """What was asked for cannot be done; the text says why."""


@dataclass(frozen=True, slots=True)
class Exported:
    """How many files are in the zip file, and which are not because nothing good of them is left."""

    files: int
    left_out: list[str]


@dataclass(frozen=True, slots=True)
class DiscussionFolders:
    """The discussions below `root`, of one API key (`key_hash`, with `encryption_key` if files are
    encrypted) or of none. `install`: as in DiscussionStore.
    """

    root: Path
    key_hash: str | None = None
    encryption_key: bytes | None = None
    install: Path | None = None

    @property
    def bases(self) -> tuple[Path, ...]:
        """The folders below which discussions are looked for: the root, and an old one if one counts."""
        old = () if self.install is None else (self.install / "Public" / "DiscussionIds",)
        return tuple(dict.fromkeys((self.root, *old)))

    def store(self, discussion_id: str) -> DiscussionStore:
        """Raises Refused for what is not a valid discussion id."""
        if not is_discussion_id(discussion_id):
            raise ArchiveRefused(f"{discussion_id!r} is not a valid discussion id")
        return self._store(discussion_id)

    def making(self, discussion_id: str) -> DiscussionStore:
        """The place beside a discussion where it is rebuilt."""
        self.store(discussion_id)
        return self._store(discussion_id, MAKING + sha256_hex(discussion_id)[:16])

    def _store(self, discussion_id: str, folder_name: str | None = None) -> DiscussionStore:
        return DiscussionStore(
            self.root,
            discussion_id,
            key_hash=self.key_hash,
            encryption_key=self.encryption_key,
            install=self.install,
            folder_name=folder_name,
        )

    def ids(self) -> list[str]:
        """The ids of all discussions, sorted."""
        found: set[str] = set()
        for base in self.bases:
            folder = base / self.key_hash if self.key_hash else base
            found.update(self._ids_in(folder))
        return sorted(each for each in found if self.files(each))

    def _ids_in(self, folder: Path) -> Iterator[str]:
        try:
            entries = sorted(folder.iterdir())
        except OSError:
            return
        for entry in entries:
            if entry.is_dir():
                if not is_discussion_id(entry.name):
                    continue
                if self.key_hash or not _KEY_FOLDER.fullmatch(entry.name) or _holds_files(entry):
                    yield entry.name
            elif not self.key_hash:
                yield from filter(is_discussion_id, flat_ids(entry.name))

    def files(self, discussion_id: str) -> dict[str, Path]:
        """The files of a discussion that exist, by name."""
        store = self.store(discussion_id)
        places = {name: store.path(name) for name in NAMES}
        return {name: place for name, place in places.items() if place.is_file()}

    def place_of(self, discussion_id: str) -> Path:
        """Which of `bases` the discussion is in."""
        store = self.store(discussion_id)
        return self.root if store.folder == store.target else self.bases[-1]

    def existing(self, discussion_id: str) -> DiscussionStore:
        """The store of a discussion. Raises Refused when there is none."""
        store = self.store(discussion_id)
        if not self.files(discussion_id):
            raise ArchiveRefused(f"there is no discussion {discussion_id!r} in {store.folder.parent}")
        return store

    def export(self, discussion_id: str, target: Path) -> Exported:
        """Write the discussion into a new zip file, for the owner only. Raises Refused, OSError, Forbidden.

        Of a damaged file its backup is taken.
        """
        self.existing(discussion_id)
        if target.exists():
            raise ArchiveRefused(f"{target} already exists and is not overwritten")
        if not target.parent.is_dir():
            raise ArchiveRefused(f"{target}: there is no folder {target.parent}")
        good, left_out = self._contents(discussion_id, locked=True)
        if sum(map(len, good.values())) > MOST_IMPORT:
            raise ArchiveRefused("the discussion is too large for a zip file of its own; --backup takes it")
        _write_zip(target, {f"{discussion_id}/{name}": data for name, data in good.items()})
        return Exported(len(good), left_out)

    def _contents(self, discussion_id: str, *, locked: bool) -> tuple[dict[str, bytes], list[str]]:
        """The files as plain bytes, and the names of those of which nothing good is left. Raises Refused.

        `locked`: all of one moment; else nothing is written, not even a lock.
        """
        store, files = self.store(discussion_id), self.files(discussion_id)
        with store.lock() if locked else nullcontext():
            found = {name: _plain(store, name, path) for name, path in files.items()}
        good = {name: data for name, data in found.items() if data is not None}
        if not good:
            raise ArchiveRefused(f"nothing of the discussion {discussion_id!r} can be read")
        return good, [name for name in found if name not in good]

    def read_archive(self, source: Path) -> tuple[str, list[str]]:
        """The id and the file names in a zip file that can be imported. Raises Refused with what is wrong."""
        try:
            with zipfile.ZipFile(source) as archive:
                discussion_id, names = _list_archive(source, archive)
                for name, data in _read_files(source, archive):
                    _check(source, name, data)
        except ArchiveRefused:
            raise
        except OSError as error:
            raise ArchiveRefused(
                f"{source} cannot be read as a zip file: {error.strerror or error}"
            ) from error
        except BROKEN_ZIP as error:
            raise ArchiveRefused(f"{source} cannot be read as a zip file: {error}") from error
        self.refuse_existing(discussion_id)
        return discussion_id, names

    def refuse_existing(self, discussion_id: str) -> None:
        """Raise Refused where a discussion cannot be made: there is one, or files that nobody knows."""
        store = self.store(discussion_id)
        if self.files(discussion_id):
            raise ArchiveRefused(f"the discussion {discussion_id!r} already exists and is not changed")
        for folder in {store.folder, store.target}:
            _refuse_what_is_left(folder)

    def bring_in(self, source: Path) -> str:
        """Make a discussion of a zip file, whole or not at all; its id. Raises Refused, OSError."""
        discussion_id, _ = self.read_archive(source)
        with zipfile.ZipFile(source) as archive:
            self._make(discussion_id, _read_files(source, archive))
        return discussion_id

    def found_in(self, folder: Path) -> tuple[DiscussionFolders, list[str]]:
        """The discussions of the same key in another folder, and their ids: `folder` is a program's folder, a
        discussions root or the folder of one discussion. Raises Refused when there are none.
        """
        if _holds_files(folder):
            of_key = self.key_hash is not None and folder.parent.name == self.key_hash
            root = folder.parent.parent if of_key else folder.parent
            return self._at(root, self.key_hash if of_key else None), [folder.name]
        for root in (folder / "Public" / "DiscussionIds", folder / "DiscussionIds", folder):
            source = self._at(root, self.key_hash)
            if ids := source.ids():
                return source, ids
        of_whom = "without an API key" if self.key_hash is None else "for this API key"
        raise ArchiveRefused(f"{folder} contains no discussions {of_whom}")

    def _at(self, root: Path, key_hash: str | None) -> DiscussionFolders:
        is_of_install = (root.parent.name, root.name) == ("Public", "DiscussionIds")
        install = root.parent.parent if is_of_install else None
        return replace(self, root=root, key_hash=key_hash, install=install)

    def take_over(self, source: DiscussionFolders, discussion_id: str) -> list[str]:
        """Copy a discussion of other folders, whole or not at all; the names of damaged files that are left
        out. Changes nothing of the source. Raises Refused, OSError, Forbidden.
        """
        self.refuse_existing(discussion_id)
        good, left_out = source._contents(discussion_id, locked=False)
        self._make(discussion_id, good.items())
        return left_out

    def _make(self, discussion_id: str, files: Iterable[tuple[str, bytes]]) -> None:
        """Write the files of a new discussion, whole or not at all. Raises Refused, OSError."""
        place = self.store(discussion_id).target
        beside = self._store(discussion_id, IMPORTING + secrets.token_hex(8))
        folder = beside.make_folder()
        try:
            _remove_stale(folder.parent)
            for name, data in files:
                if name == VECTOR_DATABASE:
                    atomic_write(folder / name, data, new_mode=0o600)
                else:
                    beside.put_plain(name, data)
            _clear(place)
            os.rename(folder, place)
        finally:
            shutil.rmtree(folder, ignore_errors=True)


def correct(store: DiscussionStore) -> AbstractContextManager[str]:
    """Hold the discussion's lock for a correction, which is whole or not done, and can be undone; the state
    that is kept for it.
    """
    return store.correct(CORRECTED, NOT_CORRECTED)


def _write_zip(target: Path, files: Mapping[str, bytes]) -> None:
    """Whole or not at all, for the owner only."""
    refuse_replacing(target)
    handle, name = tempfile.mkstemp(".partial", f".{target.name[:100]}.", target.parent)
    try:
        with (
            os.fdopen(handle, "wb") as partial,
            zipfile.ZipFile(partial, "w", zipfile.ZIP_DEFLATED) as archive,
        ):
            for each, data in files.items():
                archive.writestr(each, data)
        os.replace(name, target)
    finally:
        Path(name).unlink(missing_ok=True)


def flat_ids(name: str) -> Iterator[str]:
    """Whose flat file of an old install this is."""
    return (name.removesuffix(f"_{each}") for each in NAMES if name.endswith(f"_{each}"))


def _refuse_what_is_left(folder: Path) -> None:
    """Raise Refused for a folder without files of a discussion that holds others, as their backups."""
    names = [path.name for path in folder.iterdir()] if folder.is_dir() else []
    kept = sorted(name for name in names if not _LOCKS.fullmatch(name) and not _is_temporary(name))
    if kept:
        raise ArchiveRefused(f"{folder} contains {', '.join(kept)}; move that away first")


def _is_temporary(name: str) -> bool:
    return name.startswith(".") and name.endswith(".tmp")


def _clear(folder: Path) -> None:
    """Remove a folder that holds at most what a killed server leaves. Raises Refused, OSError."""
    if not folder.exists():
        return
    _refuse_what_is_left(folder)
    for path in sorted(folder.iterdir()):
        if _LOCKS.fullmatch(path.name):
            with locked_in_time(path, 0) as held:  # a lock is gone when it is given back
                if not held:
                    raise ArchiveRefused(f"{folder} is in use; nothing was changed")
        else:
            path.unlink()
    folder.rmdir()


def _remove_stale(folder: Path) -> None:
    """Remove what killed imports have left."""
    for path in folder.glob(f"{IMPORTING}*"):
        if path.stat().st_mtime < time.time() - _STALE_S:
            shutil.rmtree(path, ignore_errors=True)


def _list_archive(source: Path, archive: zipfile.ZipFile) -> tuple[str, list[str]]:
    """The id and the names of the files in a zip file. Raises Refused."""
    parts = [name.split("/") for name in plain_entries(archive)]
    ids = {part[0] for part in parts}
    names = [part[-1] for part in parts]
    whole = len(ids) == 1 and all(len(part) == 2 for part in parts)
    if not whole or not set(names) <= set(NAMES) or len(names) != len(set(names)):
        raise ArchiveRefused(
            f"{source} is not an export of a discussion: it must contain one folder with the "
            "files of a discussion"
        )
    (discussion_id,) = ids
    return discussion_id, names


def _read_files(source: Path, archive: zipfile.ZipFile) -> Iterator[tuple[str, bytes]]:
    """Each file's name and bytes. Raises Refused for more than a discussion may have."""
    left = MOST_IMPORT
    for path, info in plain_entries(archive).items():
        data = read_entry(archive, info, left)
        if data is None:
            allowed = f"at most {MOST_IMPORT // 1024 // 1024} MB, unpacked"
            raise ArchiveRefused(f"{source} is too large: a discussion in a zip file has {allowed}")
        left -= len(data)
        yield path.rpartition("/")[2], data


def _holds_files(folder: Path) -> bool:
    return any((folder / name).is_file() for name in NAMES)


def _plain(store: DiscussionStore, name: str, path: Path) -> bytes | None:
    """What is in a file that could be imported again; None: nothing good is left of it."""
    if name != VECTOR_DATABASE:
        return store.good_bytes(name, lambda data: _parse_file(name, data))
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / name
        try:
            with closing(sqlite3.connect(path)) as source, closing(sqlite3.connect(copy)) as target:
                source.backup(target)
            data = copy.read_bytes()
            _parse_file(name, data)
        except sqlite3.OperationalError:
            raise
        except (sqlite3.Error, ValueError):
            return None
        return data


def _check(source: Path, name: str, data: bytes) -> None:
    """A file is what its name says. Raises Refused."""
    try:
        _parse_file(name, data)
    except (TypeError, ValueError, sqlite3.Error, RecursionError) as error:
        raise ArchiveRefused(f"{source}: {name}: {error}") from error


def _parse_file(name: str, data: bytes) -> Any:
    """Raises TypeError, ValueError, `sqlite3.Error`, RecursionError with what is wrong."""
    if name in LISTS:
        return entries_of(json.loads(data))
    if name == MEMORY_ENDS:
        return ends_of(json.loads(data))
    if name == MEMORY_PINS:
        return pins_of(json.loads(data))
    if name in OBJECTS:
        return an_object(json.loads(data))
    if name in TEXT_FILES:
        return data.decode("utf-8")
    return _check_database(data)


def _check_database(data: bytes) -> None:
    if not data.startswith(b"SQLite format 3\0"):
        raise ValueError("not an SQLite database")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / VECTOR_DATABASE
        path.write_bytes(data)
        with closing(sqlite3.connect(path)) as connection:
            connection.execute("PRAGMA trusted_schema = OFF")
            if connection.execute("PRAGMA quick_check(1)").fetchone()[0] != "ok":
                raise ValueError("a damaged SQLite database")
            connection.execute(
                "SELECT id, discussion_id, memory_text, date_added, metadata_json FROM memories LIMIT 0"
            )
