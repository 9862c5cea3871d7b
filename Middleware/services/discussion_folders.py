"""All discussions of a user: which there are, one as a zip file, and one out of a zip file.

A zip file holds a discussion as plain text, whatever encrypts it where it lies. Source: spec memory.md 2, 15.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import sqlite3
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from Middleware.common.instance_global_variables import OLD_DATA_DIRECTORY
from Middleware.config.paths import is_flat_name
from Middleware.services.discussion_store import VECTOR_DATABASE, DiscussionStore
from Middleware.utilities.file_utils import atomic_write

TEXT_FILES = ("state_document.md",)
JSON_FILES = (
    "memories.json",
    "chat_summary.json",
    "condensation_tracker.json",
    "context_compactor_old.json",
    "context_compactor_oldest.json",
    "context_compactor_reach.json",
    "timestamps.json",
    "vision_responses.json",
)
NAMES = (*JSON_FILES, *TEXT_FILES, VECTOR_DATABASE)
"""The files of a discussion, backups apart."""

BESIDE = ".making-"
"""Begins the name of a folder in which a discussion is being made, until it is whole."""

_KEY_FOLDER = re.compile(r"[0-9a-f]{16}")


class Refused(ValueError):
    """What was asked for cannot be done; the text says why."""


@dataclass(frozen=True, slots=True)
class DiscussionFolders:
    """The discussions below `root`, of one API key (`key_hash`, with `encryption_key` if files are
    encrypted) or of
    none.
    """

    root: Path
    key_hash: str | None = None
    encryption_key: bytes | None = None
    install: Path = OLD_DATA_DIRECTORY

    def store(self, discussion_id: str) -> DiscussionStore:
        """Raises Refused for an id that is no plain file name."""
        if not is_flat_name(discussion_id):
            raise Refused(f"{discussion_id!r} cannot be a discussion id")
        return DiscussionStore(
            self.root,
            discussion_id,
            key_hash=self.key_hash,
            encryption_key=self.encryption_key,
            install=self.install,
        )

    def ids(self) -> list[str]:
        """The ids of all discussions, sorted."""
        found: set[str] = set()
        for base in (self.root, self.install / "Public" / "DiscussionIds"):
            folder = base / self.key_hash if self.key_hash else base
            found.update(self._ids_in(folder))
        return sorted(each for each in found if self.files(each))

    def _ids_in(self, folder: Path) -> Iterator[str]:
        try:
            entries = sorted(folder.iterdir())
        except OSError:
            return
        for entry in entries:
            if entry.name.startswith(BESIDE):
                continue
            if entry.is_dir() and is_flat_name(entry.name):
                if self.key_hash or not _KEY_FOLDER.fullmatch(entry.name) or _holds_files(entry):
                    yield entry.name
            elif not self.key_hash:
                yield from (entry.name.removesuffix(f"_{n}") for n in NAMES if entry.name.endswith(f"_{n}"))

    def files(self, discussion_id: str) -> dict[str, Path]:
        """The files of a discussion that exist, by name."""
        store = self.store(discussion_id)
        places = {name: store.path(name) for name in NAMES}
        return {name: place for name, place in places.items() if place.is_file()}

    def existing(self, discussion_id: str) -> DiscussionStore:
        """The store of a discussion. Raises Refused when there is none."""
        store = self.store(discussion_id)
        if not self.files(discussion_id):
            raise Refused(f"there is no discussion {discussion_id!r} in {store.folder.parent}")
        return store

    def export(self, discussion_id: str, target: Path) -> int:
        """Write the discussion into a new zip file; how many files. Raises Refused, OSError, Forbidden."""
        store = self.existing(discussion_id)
        if target.exists():
            raise Refused(f"{target} exists already; it is not overwritten")
        files = self.files(discussion_id)
        partial = target.with_name(f".{target.name}.partial")
        try:
            with store.lock(), zipfile.ZipFile(partial, "w", zipfile.ZIP_DEFLATED) as archive:
                for name, path in files.items():
                    archive.writestr(f"{discussion_id}/{name}", _plain(store, name, path))
            os.replace(partial, target)
        finally:
            partial.unlink(missing_ok=True)
        return len(files)

    def archived(self, source: Path) -> tuple[str, list[str]]:
        """The id and the file names in a zip file that can be imported. Raises Refused with what is wrong."""
        try:
            with zipfile.ZipFile(source) as archive:
                parts = [name.split("/") for name in archive.namelist()]
                ids = {part[0] for part in parts}
                names = [part[-1] for part in parts]
                if len(ids) != 1 or any(len(part) != 2 for part in parts) or not set(names) <= set(NAMES):
                    raise Refused(
                        f"{source} is no export of a discussion: one folder with files of a "
                        f"discussion is needed"
                    )
                _check(source, archive)
        except (OSError, zipfile.BadZipFile) as error:
            raise Refused(f"{source} cannot be read as a zip file: {error}") from error
        (discussion_id,) = ids
        if self.files(discussion_id):
            raise Refused(f"there is a discussion {discussion_id!r} already; it is not changed")
        return discussion_id, names

    def bring_in(self, source: Path) -> str:
        """Make a discussion of a zip file, whole or not at all; its id. Raises Refused, OSError."""
        discussion_id, names = self.archived(source)
        beside = self.store(f"{BESIDE}{discussion_id}")
        shutil.rmtree(beside.folder, ignore_errors=True)
        beside.make_folder()
        with zipfile.ZipFile(source) as archive:
            for name in names:
                data = archive.read(f"{discussion_id}/{name}")
                if name == VECTOR_DATABASE:
                    atomic_write(beside.folder / name, data, new_mode=0o600)
                else:
                    beside.put_plain(name, data)
        place = self.store(discussion_id).folder
        shutil.rmtree(place, ignore_errors=True)  # it holds no file of a discussion
        os.rename(beside.folder, place)
        return discussion_id


def _holds_files(folder: Path) -> bool:
    return any((folder / name).is_file() for name in NAMES)


def _plain(store: DiscussionStore, name: str, path: Path) -> bytes:
    if name != VECTOR_DATABASE:
        return store.plain_bytes(name)
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / name
        with closing(sqlite3.connect(path)) as source, closing(sqlite3.connect(copy)) as target:
            source.backup(target)
        return copy.read_bytes()


def _check(source: Path, archive: zipfile.ZipFile) -> None:
    """Every file is what its name says. Raises Refused."""
    for info in archive.infolist():
        name = info.filename.rpartition("/")[2]
        data = archive.read(info)
        try:
            if name in JSON_FILES:
                json.loads(data)
            elif name in TEXT_FILES:
                data.decode("utf-8")
            elif not data.startswith(b"SQLite format 3\0"):
                raise ValueError("no SQLite database")
        except (ValueError, RecursionError) as error:
            raise Refused(f"{source}: {name}: {error}") from error
