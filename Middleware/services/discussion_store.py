"""The files of one discussion: where they are, and reading, changing and backing them up, encrypted or plain.

Knows nothing of what the files mean. Readers take no lock (a write is one rename); a change holds the
folder's lock over threads and processes while it reads, changes and writes. Source: spec memory.md 2, 3,
13.2, 18.1, 18.6.
"""

from __future__ import annotations

import errno
import json
import logging
import os
import sqlite3
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from Middleware.common.errors import Forbidden
from Middleware.config.paths import is_discussion_id
from Middleware.services.kept_states import Correctable
from Middleware.utilities import encryption_utils
from Middleware.utilities.file_locks import hold_lock, locked_in_time
from Middleware.utilities.file_utils import atomic_write
from Middleware.utilities.hashing_utils import sha256_hex
from Middleware.utilities.sensitive_logging_utils import redaction_is_on

logger = logging.getLogger(__name__)

MEMORY_ENDS = "memory_ends.json"
"""What each file memory covers; `file_memories.py` knows its form."""

MEMORY_PINS = "memory_pins.json"
"""Which file memories are pinned; `file_memories.py` knows its form."""

BACKED_UP = ("memories.json", MEMORY_ENDS, "chat_summary.json", "state_document.md")
"""Files of which one previous version is kept as `<name>.bak`."""

VECTOR_DATABASE = "vector_memory.db"

Form = Callable[[Any], Any]
"""The value of a JSON file to what a reader wants. TypeError or ValueError: the file is damaged."""
Parse = Callable[[bytes], Any]
"""The plain bytes of a file to what a reader wants, as `Form`."""


def _as_it_is(value: Any) -> Any:
    return value


def an_object(value: Any) -> dict[str, Any]:
    """The form of a file that holds one JSON object. Raises TypeError."""
    if not isinstance(value, dict):
        raise TypeError(f"found a {type(value).__name__}, allowed: an object")
    return value


class FolderUnusable(OSError):
    """The folder of a discussion cannot be made or written to. The log has a line about it already."""


class DiscussionStore(Correctable):
    """Files of the discussion `discussion_id` below the discussions root.

    `key_hash`: `api_key_hash` of the request's key, None without one. `encryption_key`: Fernet key, None =
    plain files.
    `install`: the folder of old installs, whose `Public/DiscussionIds` is still honoured; None: `root` is the
    only place. `folder_name`: of a discussion that is being made beside its place; then no old place counts.
    File names are whole (`timestamps.json`). Making a store touches no disk; folders appear with the first
    write. ValueError for what is not a valid discussion id.
    """

    def __init__(
        self,
        root: Path,
        discussion_id: str,
        *,
        key_hash: str | None = None,
        encryption_key: str | bytes | None = None,
        install: Path | None = None,
        folder_name: str | None = None,
    ) -> None:
        super().__init__()
        if not is_discussion_id(discussion_id):
            raise ValueError(f"{discussion_id!r} is not a valid discussion id")
        self.discussion_id, self.key_hash = discussion_id, key_hash
        self._root, self._install = root, None if folder_name is not None else install
        self._key = encryption_key.encode() if isinstance(encryption_key, str) else encryption_key
        self._beside = folder_name is not None
        name = folder_name or discussion_id
        relative = Path(key_hash, name) if key_hash else Path(name)
        self._target = root / relative
        self._legacy = self._install / "Public" / "DiscussionIds" / relative if self._install else None
        self._reported = False

    def __repr__(self) -> str:
        return f"DiscussionStore({str(self._target)!r}, encrypted={self._key is not None})"

    @property
    def is_encrypted(self) -> bool:
        return self._key is not None

    @property
    def target(self) -> Path:
        """Where the discussion's folder belongs."""
        return self._target

    @property
    def folder(self) -> Path:
        """The discussion's folder; an old install's folder is used for good while the right one does not
        exist.
        """
        if self._legacy is not None and not _is_there(self._target) and _is_there(self._legacy):
            return self._legacy
        return self._target

    def path(self, name: str) -> Path:
        """Where the file `name` is or would be: in the folder, by another case, or at an old place. A folder
        there is none: it may be that of another discussion.
        """
        exact = self.folder / name
        if _is_there(exact):
            return exact
        old = list(self._old_places(name))
        if name.endswith(".json"):
            old = [*self._same_name(exact), *old]
        return next(filter(os.path.isfile, old), exact)

    def _same_name(self, exact: Path) -> list[Path]:
        try:
            names = sorted(os.listdir(exact.parent))
        except OSError:
            return []
        return [exact.parent / name for name in names if name.casefold() == exact.name.casefold()]

    def _old_places(self, name: str) -> Iterator[Path]:
        if self.key_hash or self._beside:
            return
        if name.endswith(".json"):
            yield self._root / f"{self.discussion_id}_{name}"
        elif name == VECTOR_DATABASE and self._install is not None:
            for base in (self._install, Path.cwd()):
                yield base / "Public" / f"{self.discussion_id}_{name}"

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Hold the discussion's lock; makes the folder. The thread that holds it may take it again.

        A correction that was killed halfway is undone first.
        """
        with hold_lock(self.make_folder() / ".lock"):
            self.undo_unfinished()
            yield

    @contextmanager
    def lease(
        self, name: str, timeout_s: float | None, given_up: Callable[[], bool] = lambda: False
    ) -> Iterator[bool]:
        """Hold the right to do the long work `name`, over threads and processes; readers and changes go on.

        False: another one has it and did not give it back in time (None: wait for ever) or `given_up()` says
        stop. Makes the folder.
        """
        with locked_in_time(self.make_folder() / f".{name}.lease", timeout_s, given_up) as held:
            yield held

    def make_folder(self) -> Path:
        """The folder, made if need be (0700 below a key's folder); the old place, if there may be one and the
        right one cannot be made. Raises FolderUnusable, after one line in the log.
        """
        folder = self.folder
        try:
            self._make(folder)
        except OSError as error:
            if self._legacy is None or folder == self._legacy:
                raise self._unusable(folder, error) from error
            logger.warning(
                "%s cannot be created (%s); %s is used instead",
                self._shown(folder),
                error.strerror,
                self._shown(self._legacy),
            )
            folder = self._legacy
            try:
                self._make(folder)
            except OSError as last:
                raise self._unusable(folder, last) from last
        return folder

    def can_be_written(self) -> bool:
        """Whether the discussion has a folder to write to; makes it. False: the log says why."""
        try:
            self.make_folder()
        except FolderUnusable:
            return False
        return True

    def _unusable(self, folder: Path, error: OSError) -> FolderUnusable:
        if not self._reported:
            self._reported = True
            logger.error(
                "the discussion folder %s cannot be created or written to (%s), so nothing is kept",
                self._shown(folder),
                error.strerror,
            )
        return FolderUnusable(error.errno, error.strerror, str(folder))

    def _shown(self, path: Path) -> str:
        """A path for the log; with redaction on it has a short hash in the place of the discussion's id."""
        if not redaction_is_on():
            return str(path)
        own, short = self.discussion_id, sha256_hex(self.discussion_id)[:8]
        is_named = [part == own or part.startswith(f"{own}_") for part in path.parts]
        parts = [
            short + part[len(own) :] if has else part for has, part in zip(is_named, path.parts, strict=True)
        ]
        return str(Path(*parts))

    def _make(self, folder: Path) -> None:
        folder.parent.parent.mkdir(parents=True, exist_ok=True)
        mode = 0o700 if self.key_hash else 0o777
        folder.parent.mkdir(mode=mode, exist_ok=True)
        folder.mkdir(mode=mode, exist_ok=True)
        if not os.access(folder, os.W_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(folder))

    def read_json(self, name: str, default: Any, form: Form = _as_it_is) -> Any:
        """What `form` makes of the value in a JSON file; `default` when there is no file.

        A file that is no JSON, or of which `form` makes nothing (TypeError, ValueError), is damaged: it is
        set aside as `<name>.corrupt-<time>` and its `.bak` takes its place, if there is a good one. Raises
        Forbidden for a file that is encrypted with another key.
        """
        return self._read_file(name, lambda data: form(json.loads(data)), default)

    def update_json(
        self, name: str, change: Callable[[Any], Any], default: Any = None, form: Form = _as_it_is
    ) -> Any:
        """Read, change and write a JSON file under the lock.

        `change(value)` gets what `read_json` gives and gives the value to write, or None to leave the file as
        it is. Returns what was read if nothing was written, else what was written. Whoever changes `value` in
        place must return it.
        """
        with self.lock():
            value = self.read_json(name, default, form)
            changed = change(value)
            if changed is None:
                return value
            text = json.dumps(changed, indent=4, ensure_ascii=True)
            self._write(name, text.encode("ascii"))
            return changed

    def read_text(self, name: str) -> str | None:
        """The text of a file, None when there is none. Raises Forbidden.

        What is no UTF-8 is damaged, as in `read_json`.
        """
        text: str | None = self._read_file(name, lambda data: data.decode("utf-8"), None)
        return text

    def update_text(self, name: str, change: Callable[[str | None], str | None]) -> str | None:
        """As `update_json`, for a UTF-8 text file; `change` gets None when there is no file."""
        with self.lock():
            text = self.read_text(name)
            changed = change(text)
            if changed is None:
                return text
            self._write(name, changed.encode("utf-8"))
            return changed

    def good_bytes(self, name: str, parse: Parse) -> bytes | None:
        """What is in a file, decrypted; what is in its backup, if `parse` makes nothing of the file.

        None: neither is there and good. Changes nothing. Raises Forbidden.
        """
        path = self.path(name)
        for place in (path, _backup_of(path)):
            if self._load(place, parse)[0]:
                return self._decode(place.read_bytes())
        return None

    def settle_backup(self, name: str) -> None:
        """Make the backup of a file, if there is one, the same as the file: what is gone stays gone."""
        with self.lock():
            path = self.path(name)
            if _is_there(_backup_of(path)) and (data := _bytes(path)) is not None:
                self._put(_backup_of(path), data)

    def put_plain(self, name: str, data: bytes) -> None:
        """Write a whole file, encrypted if need be."""
        with self.lock():
            self._write(name, data)

    def _read_file(self, name: str, parse: Parse, default: Any) -> Any:
        found, value = self._load(self.path(name), parse)
        if not found and value is not None:
            with self.lock():
                value = self._recover(name, parse)
                found = value is not None
        return value if found else default

    def _load(self, path: Path, parse: Parse) -> tuple[bool, Any]:
        """(True, value), (False, None) when there is no file, (False, error) when it is damaged.

        In a folder that is none, or that cannot be entered, there is no file; the log has a line about it.
        """
        try:
            raw = _bytes(path)
        except (NotADirectoryError, PermissionError) as error:
            if os.access(path.parent, os.X_OK) and path.parent.is_dir():
                raise
            self._unusable(path.parent, error)
            raw = None
        if raw is None:
            return False, None
        try:
            return True, parse(self._decode(raw))
        except (TypeError, ValueError, RecursionError) as error:
            return False, error

    def _recover(self, name: str, parse: Parse) -> Any:
        """Put a damaged file aside and its backup in its place; at no moment is there neither of the two."""
        path = self.path(name)
        found, value = self._load(path, parse)
        if found or value is None:
            return value
        why = value
        good, value = self._backup(path, parse)
        aside = path.with_name(f"{path.name}.corrupt-{datetime.now():%Y%m%d-%H%M%S-%f}")
        if good:
            self._put(aside, path.read_bytes())
            self._put(path, self._encode(self._decode(_backup_of(path).read_bytes())))
        else:
            os.replace(path, aside)
        logger.error(
            "%s was damaged (%s) and has been renamed to %s; %s",
            self._shown(path),
            why,
            self._shown(Path(aside.name)),
            "its backup is used instead" if good else "there is no backup",
        )
        return value if good else None

    def _backup(self, path: Path, parse: Parse) -> tuple[bool, Any]:
        try:
            return self._load(_backup_of(path), parse)
        except Forbidden:
            return False, None

    def _write(self, name: str, data: bytes) -> None:
        path = self.path(name)
        if name in BACKED_UP and (previous := _bytes(path)) is not None:
            self._put(_backup_of(path), self._encode(self._decode(previous)))
        self._put(path, self._encode(data))

    @staticmethod
    def _put(path: Path, data: bytes) -> None:
        atomic_write(path, data, new_mode=0o600)

    def _encode(self, data: bytes) -> bytes:
        return data if self._key is None else encryption_utils.encrypt(data, self._key)

    def _decode(self, raw: bytes) -> bytes:
        """What was written; a plain file is read as it is, also with a key (it was written before
        encryption).
        """
        if self._key is not None:
            try:
                return encryption_utils.decrypt(raw, self._key)
            except encryption_utils.InvalidToken:
                logger.debug("a file of a discussion is not encrypted with the key of this request")
        if raw.startswith(encryption_utils.TOKEN_START):
            raise Forbidden(
                "a file of this discussion is encrypted with another API key", code="wrong_api_key"
            )
        return raw


def _is_there(path: Path) -> bool:
    """False also for a name that no file can have (an old flat name is longer than the id), and below a
    folder that cannot be entered.
    """
    return os.path.exists(path)


def _backup_of(path: Path) -> Path:
    return path.with_name(path.name + ".bak")


def _bytes(path: Path) -> bytes | None:
    """None: there is no such file. Raises OSError, also where its folder is a file or cannot be entered."""
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None


# --------------------------------------------------------------------------
# Lists of texts, each with the hash of the last thing it covers: memories, summary, compactor state.


MEMORIES = "memories.json"
SUMMARY = "chat_summary.json"

_Stamp = tuple[str, int, int, int]
"""Path, inode, size and time of change: another write has another one."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One text. `hash`: of the last message (in the summary: of the last memory) that it covers."""

    text: str
    hash: str

    @property
    def is_forgotten(self) -> bool:
        """Whether it stands only for the messages that it covers, so that no memory is made of them."""
        return not self.text


Entries = tuple[Entry, ...]


class ParsedLists:
    """Plain lists that were parsed already; the newest few. Thread-safe. Texts of encrypted files never."""

    def __init__(self, limit: int = 8) -> None:
        self._limit = limit
        self._lists: OrderedDict[_Stamp, Entries] = OrderedDict()
        self._guard = threading.Lock()

    def get(self, stamp: _Stamp) -> Entries | None:
        with self._guard:
            if stamp in self._lists:
                self._lists.move_to_end(stamp)
            return self._lists.get(stamp)

    def put(self, stamp: _Stamp, entries: Entries) -> None:
        with self._guard:
            self._lists[stamp] = entries
            while len(self._lists) > self._limit:
                self._lists.popitem(last=False)


@cache
def parsed_lists() -> ParsedLists:
    """What this process has parsed."""
    return ParsedLists()


class ChunkList:
    """One such file of a discussion, oldest entry first."""

    def __init__(self, store: DiscussionStore, name: str) -> None:
        self._store, self._name = store, name

    @property
    def exists(self) -> bool:
        return os.path.exists(self._store.path(self._name))

    def load(self) -> Entries:
        """The entries; none when there is no file, or one of another form (it is set aside).

        Raises Forbidden for a file of another key.
        """
        stamp = None if self._store.is_encrypted else self._stamp()
        if stamp is not None and (known := parsed_lists().get(stamp)) is not None:
            return known
        entries: Entries = self._store.read_json(self._name, (), entries_of)
        if stamp is not None:
            parsed_lists().put(stamp, entries)
        return entries

    def open(self) -> Entries:
        """As `load`, but a file that is missing is made, empty (it ends the time of rebuilding)."""
        if not self.exists:
            with suppress(FolderUnusable):  # without a folder there are no entries either
                self._store.update_json(self._name, lambda value: [] if value is None else None)
        return self.load()

    def update(self, change: Callable[[Entries], Sequence[Entry] | None]) -> Entries:
        """Change the entries under the discussion's lock (None: leave the file); what is stored then."""

        stored: Entries = ()

        def apply_change(entries: Entries) -> Any:
            nonlocal stored
            new = change(entries)
            stored = entries if new is None else tuple(new)
            if new is None:
                return None
            return [{"text_block": entry.text, "hash": entry.hash} for entry in new]

        self._store.update_json(self._name, apply_change, (), entries_of)
        return stored

    def append(self, entry: Entry, *, after: str | None) -> bool:
        """Add an entry if the newest one has the hash `after` (None: if there is none); tells whether."""
        added = False

        def change(entries: Entries) -> Sequence[Entry] | None:
            nonlocal added
            added = newest_hash(entries) == after
            return (*entries, entry) if added else None

        self.update(change)
        return added

    def replace(self, *entries: Entry) -> None:
        """Make these the whole list."""
        self.update(lambda _: entries)

    def _stamp(self) -> _Stamp | None:
        path = self._store.path(self._name)
        try:
            facts = path.stat()
        except OSError:  # what cannot be looked at is read, and whoever reads it says why not
            return None
        return str(path), facts.st_ino, facts.st_size, facts.st_mtime_ns


def entries_of(value: Any) -> Entries:
    """The form of such a file. Raises TypeError, ValueError."""
    if not isinstance(value, list):
        raise TypeError(f"found {_kind(value)}, allowed: a list of objects")
    return tuple(_entry(index, item) for index, item in enumerate(value))


def _entry(index: int, item: Any) -> Entry:
    text, covered = (item.get("text_block"), item.get("hash")) if isinstance(item, dict) else (None, None)
    if not isinstance(text, str) or not isinstance(covered, str):
        raise ValueError(f"entry {index + 1}: expected an object with the strings `text_block` and `hash`")
    return Entry(text, covered)


def newest_hash(entries: Sequence[Entry]) -> str | None:
    """The hash of the last entry, None when there is none."""
    return entries[-1].hash if entries else None


def _kind(value: Any) -> str:
    return "an object" if isinstance(value, dict) else f"a {type(value).__name__}"


# --------------------------------------------------------------------------
# A full disk, a read-only folder, a file that cannot be made: a line in the log, and the answer comes.


FAULTS = (OSError, sqlite3.Error)
_T = TypeVar("_T")
_Other = TypeVar("_Other")


def reason_of(error: OSError | sqlite3.Error) -> str:
    """What the system says, and of which file. With redaction on no path is told: it holds the discussion's
    id.
    """
    if isinstance(error, sqlite3.Error):
        return f"{VECTOR_DATABASE}: {error}"
    if not error.strerror:
        return str(error)
    place = f"{error.filename}: " if error.filename and not redaction_is_on() else ""
    return f"{place}{error.strerror}"


class DiskFaults:
    """What one node, or one request, meets on the disk. The first fault is told, at ERROR; no other is.

    `failed`: there was one.
    """

    def __init__(self) -> None:
        self.failed = False

    def try_work(self, work: Callable[[], _T], otherwise: _Other, consequence: str) -> _T | _Other:
        """What `work` gives, or `otherwise` when the disk does not let it. `consequence`: in words."""
        try:
            return work()
        except FAULTS as error:
            if not self.failed and not isinstance(error, FolderUnusable):  # the store reports that one itself
                logger.error("%s: %s", consequence, reason_of(error))
            self.failed = True
            return otherwise
