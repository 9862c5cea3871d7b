"""What goes into a backup: the files below some roots, while a server works with them.

A discussion's files are taken together, under its lock. A database is copied by SQLite itself in one step,
other files as they lie. Knows nothing of users and of the command line. Source: spec operate.md 3.
"""

from __future__ import annotations

import logging
import os
import re
import sqlite3
import stat
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, closing, suppress
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path

from Middleware.config.paths import is_discussion_id
from Middleware.services.backup.archive import ArchiveWriter, Manifest, writing
from Middleware.services.backup.tree_use import VERSION_FILE
from Middleware.services.discussion_folders import NAMES, flat_ids
from Middleware.services.discussion_store import VECTOR_DATABASE, DiscussionStore
from Middleware.utilities.file_locks import hold_lock, is_damage
from Middleware.utilities.sqlite_files import copy_database

logger = logging.getLogger(__name__)

Mask = Callable[[bytes], tuple[bytes, list[str]] | None]
"""The bytes of a config file -> without secrets, and where they were; None: it is no text."""

OWN_NAME = re.compile(r"headrace-(before-restore-)?\d{8}T\d{6}Z(-\d+)?\.zip")
"""Names of backups that the program chose."""

_LOCK = re.compile(r"\.lock|\..*\.lease|\.in-use|(WilmerDb|workers)\..*\.sqlite(-wal|-shm|-journal)?", re.S)
_ROUTES = re.compile(r".*_routes\.db(-wal|-shm|-journal)?", re.S)
_UNFINISHED = re.compile(r"\.(making|importing|restoring)-.*|\..*\.partial", re.S)
_CACHES = ("__pycache__", ".mypy_cache", ".pytest_cache", ".ruff_cache")
_MASKED = ("config/", "public/ConfigBackups/")
"""Begin the names of files that may hold secrets of the configuration."""
_LOG = re.compile(r"wilmerai\.log(\.\d+)?")
DATABASE_PARTS = ("-wal", "-shm", "-journal")
"""End the names of what SQLite keeps beside a database."""
_SQLITE = b"SQLite format 3\0"
LEADS_BACK = "a link to a folder above it"
_ROUNDS = 5
"""How often a folder of discussions is looked through again for those that were renamed meanwhile."""


@dataclass(frozen=True, slots=True)
class Root:
    """A folder that is taken. `name`: its name in the backup. `written`: as a user file names it, if one
    does. `only`: the children that are taken, None for all. `install`: as in DiscussionStore.
    """

    name: str
    path: Path
    written: str = ""
    only: frozenset[str] | None = None
    install: Path | None = None

    @property
    def holds_discussions(self) -> bool:
        return self.name.startswith("discussions")


def take_backup(
    target: Path,
    roots: Sequence[Root],
    manifest: Manifest,
    *,
    kept_out: Sequence[Path] = (),
    mask: Mask | None = None,
) -> Manifest:
    """Write the files below `roots` into the new file `target`, whole or not at all; the filled manifest.

    `kept_out`: logs, and folders that are not wanted. `mask`: takes secrets out of config files. What
    cannot be read is left out, and is one of `manifest.troubles`. Raises BackupRefused, OSError.
    """
    manifest.roots |= {root.name: {"path": str(root.path), "written": root.written} for root in roots}
    with writing(target, manifest) as writer:
        taking = _Taking(writer, roots, (*kept_out, target, writer.work), mask)
        for root in sorted(roots, key=lambda each: not each.holds_discussions):
            taking.take(root)
    return manifest


@dataclass(frozen=True, slots=True)
class _Entry:
    """What is in a folder. `name`: in the backup; `facts`: of what it is, links followed."""

    path: Path
    name: str
    facts: os.stat_result

    @property
    def is_folder(self) -> bool:
        return stat.S_ISDIR(self.facts.st_mode)


class _Taking:
    def __init__(
        self, writer: ArchiveWriter, roots: Sequence[Root], kept_out: Sequence[Path], mask: Mask | None
    ) -> None:
        self._writer, self._mask = writer, mask
        self._roots = {os.path.realpath(root.path) for root in roots}
        self._kept_out = {os.path.realpath(path) for path in kept_out}
        self._has_discussions = any(root.holds_discussions for root in roots)
        self._elsewhere_taken: set[str] = set()
        """Files of discussions that lie at an old place: real paths."""
        self._seen: set[str] = set()

    def take(self, root: Root) -> None:
        """All of one root; one that is not there has nothing."""
        if not root.path.is_dir():
            return
        if root.holds_discussions:
            self._take_discussions(root)
        else:
            if root.only is not None and root.name == "public":
                self._writer.leave_out(root.path / "...", "--PublicDirectory does not name this folder")
            self._take_folder(root.path, root.name, root.only)

    # --- folders and files as they lie ---

    def _take_folder(self, folder: Path, name: str, only: frozenset[str] | None = None) -> None:
        with suppress(OSError):
            self._writer.manifest.folders[name] = stat.S_IMODE(folder.stat().st_mode)
        for entry in self._entries(folder, name, only):
            self._take_entry(entry)

    def _take_entry(self, entry: _Entry) -> None:
        if not entry.is_folder:
            self._take_file(entry.path, entry.name)
        elif self._leads_back(entry.path):
            self._writer.leave_out(entry.path, LEADS_BACK)
        else:
            self._take_folder(entry.path, entry.name)

    def _entries(self, folder: Path, name: str, only: frozenset[str] | None = None) -> Iterator[_Entry]:
        """What of a folder is to be taken, sorted; of the rest is told why not."""
        try:
            children = sorted(os.listdir(folder))
        except FileNotFoundError:
            return
        except OSError as error:
            self._writer.leave_out(folder, error.strerror or str(error), trouble=True)
            return
        for child in children:
            path = folder / child
            if only is not None and child not in only:
                continue
            entry = self._entry(path, f"{name}/{child}", set(children))
            if entry is not None:
                yield entry

    def _entry(self, path: Path, name: str, beside: set[str]) -> _Entry | None:
        try:
            facts, is_link = path.lstat(), path.is_symlink()
            real = os.path.realpath(path)
            if is_link and not self._is_inside(real):
                self._writer.leave_out(path, _link_outside(path))
                return None
            facts = path.stat() if is_link else facts
        except FileNotFoundError:
            if path.is_symlink():
                self._writer.leave_out(path, "a link to nothing")
            return None
        except OSError as error:
            self._writer.leave_out(path, error.strerror or str(error), trouble=True)
            return None
        entry = _Entry(path, name, facts)
        why = self._why_not(entry, real, beside)
        if why:
            self._writer.leave_out(path, why, trouble=why.startswith("its name"))
        return None if why is not None else entry

    def _why_not(self, entry: _Entry, real: str, beside: set[str]) -> str | None:
        """Why an entry is left out; empty: it is taken somewhere else; None: it is taken."""
        own = entry.path.name
        if real in self._roots or real in self._elsewhere_taken:
            return ""
        if real in self._kept_out:
            return "logs, this backup itself, or not wanted"
        if _UNFINISHED.fullmatch(own):
            return "unfinished"
        if entry.is_folder:
            return "a cache" if own in _CACHES else _bad_name(own)
        if not stat.S_ISREG(entry.facts.st_mode):
            return "not a plain file"
        if any(own.endswith(end) and own.removesuffix(end) in beside for end in DATABASE_PARTS):
            return ""  # a part of the database beside it
        if own == VERSION_FILE and entry.name.count("/") == 1:
            return ""
        if own.endswith(f"_{VECTOR_DATABASE}") and not self._has_discussions:
            return "not wanted"
        return _why_not_file(own) or _bad_name(own)

    def _is_inside(self, real: str) -> bool:
        return any(real == root or real.startswith(os.path.join(root, "")) for root in self._roots)

    def _why_not_followed(self, link: Path) -> str | None:
        """Why a link to a folder of discussions is left out; None: it is not."""
        if not self._is_inside(os.path.realpath(link)):
            return _link_outside(link)
        return LEADS_BACK if self._leads_back(link) else None

    def _leads_back(self, folder: Path) -> bool:
        """Whether a link leads to a folder above it: who walks in would walk for ever."""
        if not folder.is_symlink():
            return False
        real, above = os.path.realpath(folder), os.path.realpath(folder.parent)
        return above == real or above.startswith(os.path.join(real, ""))

    def _take_file(self, path: Path, name: str) -> None:
        try:
            with path.open("rb") as file:
                facts = os.fstat(file.fileno())
                if file.read(len(_SQLITE)) == _SQLITE:
                    self._take_database(path, name, facts)
                    return
                file.seek(0)
                if self._mask is not None and name.startswith(_MASKED):
                    self._take_masked(path, name, file.read(), self._mask, facts)
                else:
                    self._writer.add(name, file, facts)
        except FileNotFoundError:
            return  # somebody has removed it meanwhile
        except OSError as error:
            if error.filename is None:  # no file of the tree: the backup cannot be written
                raise
            self._writer.leave_out(path, error.strerror or str(error), trouble=True)

    def _take_masked(self, path: Path, name: str, raw: bytes, mask: Mask, facts: os.stat_result) -> None:
        made = mask(raw)
        if made is None:
            self._writer.leave_out(path, "it is no text, so that nobody knows which secrets it holds")
            return
        masked, places = made
        self._writer.add(name, BytesIO(masked), facts)
        if places:
            self._writer.manifest.masked[name] = places

    def _take_database(self, path: Path, name: str, facts: os.stat_result) -> None:
        """In one step: in several, each write of another process makes the copying begin anew."""
        copy = self._writer.work / "copy.db"
        try:
            copy_database(path, copy)
            whole = _is_whole(copy)
        except sqlite3.Error as error:
            if not is_damage(error):
                self._writer.leave_out(path, str(error), trouble=True)
                return
            whole = False
        if not whole:
            self._writer.leave_out(path, "a damaged database, which was taken as it lies", trouble=True)
        with (copy if whole else path).open("rb") as file:
            self._writer.add(name, file, facts)
        copy.unlink(missing_ok=True)

    # --- discussions ---

    def _take_discussions(self, root: Root) -> None:
        """Again and again until there is none that was not taken: the folder of a key may be renamed."""
        for _ in range(_ROUNDS):
            found = self._discussions(root).items()
            fresh = {name: folder for name, folder in found if f"{root.name}/{name}" not in self._seen}
            if not fresh:
                break
            for relative, folder in fresh.items():
                self._seen.add(f"{root.name}/{relative}")
                self._take_discussion(root, relative, folder)
        for entry in self._entries(root.path, root.name):
            if not entry.is_folder and entry.name not in self._writer.manifest.files:
                self._take_file(entry.path, entry.name)

    def _discussions(self, root: Root) -> dict[str, Path]:
        """Path below the root -> folder of each discussion, which need not be there if it has files at old
        places alone.
        """
        found: dict[str, Path] = {}
        for base in _bases(root):
            for relative, folder in self._discussion_folders(base, ""):
                found.setdefault(relative, folder)
        for name in _files_in(root.path):
            for discussion_id in filter(is_discussion_id, flat_ids(name)):
                found.setdefault(discussion_id, root.path / discussion_id)
        for name in (name for base in _old_database_folders(root) for name in _files_in(base)):
            discussion_id = name.removesuffix(f"_{VECTOR_DATABASE}")
            if discussion_id != name and is_discussion_id(discussion_id):
                found.setdefault(discussion_id, root.path / discussion_id)
        return found

    def _discussion_folders(self, base: Path, relative: str) -> Iterator[tuple[str, Path]]:
        """The folders that hold files; what holds folders alone is the folder of a key."""
        folder = base / relative
        for child in _names_in(folder):
            path = folder / child
            if not path.is_dir() or _UNFINISHED.fullmatch(child):
                continue
            if os.path.realpath(path) in self._kept_out | self._roots:
                continue
            if path.is_symlink() and (why := self._why_not_followed(path)):
                self._writer.leave_out(path, why)
                continue
            below = f"{relative}/{child}" if relative else child
            if any(not entry.is_dir() for entry in _children(path)):
                yield below, path
            else:
                yield from self._discussion_folders(base, below)

    def _take_discussion(self, root: Root, relative: str, folder: Path) -> None:
        name = f"{root.name}/{relative}"
        store = None if "/" in relative or not is_discussion_id(relative) else _store(root, relative)
        try:
            with self._lock_of(store, folder):
                self._take_folder(folder if store is None else store.folder, name)
                if store is not None:
                    self._take_old_places(root, relative, store)
        except FileNotFoundError:
            return  # renamed or removed meanwhile: the next look finds its new name
        except OSError as error:
            if error.filename is None:
                raise
            self._writer.leave_out(folder, error.strerror or str(error), trouble=True)

    def _lock_of(self, store: DiscussionStore | None, folder: Path) -> AbstractContextManager[None]:
        return hold_lock(folder / ".lock") if store is None else store.lock()

    def _take_old_places(self, root: Root, discussion_id: str, store: DiscussionStore) -> None:
        """Flat files stay flat, as any root may have them; a database at an old place, where only the root
        of the install looks, goes to the folder that it belongs to.
        """
        for each in NAMES:
            flat = root.path / f"{discussion_id}_{each}"
            if each.endswith(".json") and flat.is_file() and not flat.is_symlink():
                self._take_file(flat, f"{root.name}/{flat.name}")
        database = store.path(VECTOR_DATABASE)
        if database.parent != store.folder and database.is_file():
            self._elsewhere_taken.add(os.path.realpath(database))
            self._take_file(database, f"{root.name}/{discussion_id}/{VECTOR_DATABASE}")


def _link_outside(link: Path) -> str:
    return f"a link to {os.readlink(link)}, outside of what is backed up"


def _is_whole(database: Path) -> bool:
    with closing(sqlite3.connect(database)) as connection:
        return bool(connection.execute("PRAGMA quick_check(1)").fetchone()[0] == "ok")


def _store(root: Root, discussion_id: str) -> DiscussionStore:
    return DiscussionStore(root.path, discussion_id, install=root.install)


def _bases(root: Root) -> tuple[Path, ...]:
    """The folders of discussions that count for a root: itself first, and an old one if one counts."""
    old = () if root.install is None else (root.install / "Public" / "DiscussionIds",)
    return tuple(dict.fromkeys((root.path, *old)))


def _old_database_folders(root: Root) -> tuple[Path, ...]:
    if root.install is None:
        return ()
    return (root.install / "Public", Path.cwd() / "Public")


def _files_in(folder: Path) -> Iterator[str]:
    return (name for name in _names_in(folder) if (folder / name).is_file())


def _names_in(folder: Path) -> list[str]:
    try:
        return sorted(os.listdir(folder))
    except OSError:
        return []


def _children(folder: Path) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return [each for each in entries if not _LOCK.fullmatch(each.name)]
    except OSError:
        return []


def stays_in_place(name: str) -> bool:
    """Whether a file of this name is in no backup, and must stay when the folder that holds it goes."""
    return bool(OWN_NAME.fullmatch(name) or _LOG.fullmatch(name))


def _why_not_file(name: str) -> str | None:
    if _LOCK.fullmatch(name):
        return "a lock"
    if _ROUTES.fullmatch(name):
        return "route vectors, which are rebuilt"
    if _LOG.fullmatch(name):
        return "a log"
    if name.endswith(".pyc"):
        return "a cache"
    if name.endswith(".tmp"):
        return "unfinished"
    return "a backup" if OWN_NAME.fullmatch(name) else None


def _bad_name(name: str) -> str | None:
    try:
        name.encode("utf-8")
    except UnicodeEncodeError:
        return "its name is not UTF-8"
    return None
