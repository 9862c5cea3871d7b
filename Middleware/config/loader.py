"""The only reader of config files: JSON text -> checked, shared, read-only values; hot reload; one view a
request.

A `ConfigTree` remembers each file by path, mtime and size and reads it again when these change. A
`ConfigSnapshot` is one request's view: it costs a `stat` per file and never mixes versions. A file that was
edited after the snapshot began is seen as it was; an edit with an error of its own leaves the last good
version in use (workflows.md 16.2). What is handed out is shared by all requests: nobody changes it.
"""

from __future__ import annotations

import errno
import logging
import os
import stat
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar
from weakref import WeakSet

from Middleware.common.errors import NOWHERE, ConfigError, ConfigMissing, where
from Middleware.common.instance_global_variables import launch_facts
from Middleware.common.request_context import RequestContext, current_request
from Middleware.config.json_positions import parse, place_findings, position_in
from Middleware.config.validation import (
    ERROR,
    NO_NODES,
    NOTE,
    WARNING,
    Finding,
    check_file,
    errors_of,
    has_nodes,
)

logger = logging.getLogger(__name__)


# --------------------------------------------------------------------------
# Names that differ from a file on disk in upper and lower case alone: who names them, told once.


class Spelling:
    """One snapshot's teller. `said`: what the process has logged; `notes`: what a check keeps, or None."""

    __slots__ = ("_place", "notes", "said")

    def __init__(self, said: set[str]) -> None:
        self.said = said
        self.notes: list[Finding] | None = None
        self._place: tuple[str, str] = ("", "")

    @contextmanager
    def named_at(self, file: str, pointer: str) -> Iterator[None]:
        """What is found within is named there (a check knows; a request does not always)."""
        before, self._place = self._place, (file, pointer)
        try:
            yield
        finally:
            self._place = before

    def tell(self, wanted: str, found: str, named_at: tuple[str, str] | None = None) -> None:
        """`named_at`: file and JSON pointer of the name, where the caller knows it better."""
        file, pointer = named_at or self._place
        message = (
            f"{wanted} does not exist; {found} is used instead, although its upper and lower case differ"
        )
        if self.notes is not None:
            self.notes.append(Finding(file or found, pointer, NOTE, message))
        elif wanted not in self.said:
            logger.warning("%s", f"{where(file, pointer)}: {message}" if file else message)
        self.said.add(wanted)


# --------------------------------------------------------------------------
# The states of one config file that running requests may still see. Values; nothing here reads a file.


@dataclass(slots=True)
class Version:
    """One state of one file. `since`: from when (ns) requests see it. Neither document nor error: it is
    gone.
    """

    since: int
    document: Any = None
    parsed: bool = False
    error: ConfigError | None = None
    missing: bool = False
    fingerprint: int = 0
    derived: dict[Any, Any] = field(default_factory=dict)

    @property
    def is_good(self) -> bool:
        return self.error is None and not self.missing


GONE = Version(0, missing=True)


@dataclass(slots=True)
class History:
    """The versions of one file that a running request may still see, oldest first."""

    key: tuple[int, ...] | None
    settled: bool
    versions: tuple[Version, ...]

    def at(self, since: int) -> Version:
        """What a request that began at `since` uses: its own version, or the last good one before it."""
        if len(self.versions) == 1:  # nearly every file, and a request asks for seven
            return self.versions[0]
        last = self._own(since)
        if self.versions[last].error is not None:
            return next((v for v in reversed(self.versions[:last]) if v.is_good), self.versions[last])
        return self.versions[last]

    def refusal_of_edit(self, since: int) -> ConfigError | None:
        """Why a request that began at `since` uses an older version than its own; None: it does not."""
        if len(self.versions) == 1:
            return None
        own = self.versions[self._own(since)]
        return None if self.at(since) is own else own.error

    def _own(self, since: int) -> int:
        """The index of the version that a request which began at `since` would see, good or not."""
        last = len(self.versions) - 1
        while last > 0 and self.versions[last].since > since:
            last -= 1
        return last


# --------------------------------------------------------------------------

T = TypeVar("T")
WorkflowCheck = Callable[[str, Any], list[Finding]]
"""(file, its nodes or object) -> findings: the nodes' own schemas, handed in by the floor that knows them.

`advise`: likewise for any file, and all that it shows by itself, for the log when the file is edited.
"""

VANISHED_NS = 200_000_000
"""How long a file that was just there is looked for again: editors rename the old one, then write the new."""
_LOOKS = 20

_SETTLED_NS = 100_000_000
"""A file that changed less than this before it was read may change again within one tick of its clock."""


class ConfigTree:
    """All files below one config root. One a process; thread-safe."""

    def __init__(
        self,
        root: Path | str,
        check_workflow: WorkflowCheck | None = None,
        *,
        advise: WorkflowCheck | None = None,
        clock: Callable[[], int] = time.time_ns,
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        self.root = Path(root)
        self.check_workflow = check_workflow
        self.advise = advise
        self._clock, self._pause = clock, pause
        self._prefix = os.path.join(os.fspath(self.root), "")
        self._lock = threading.RLock()
        self._files: dict[str, History] = {}
        self._listings: dict[str, tuple[int, tuple[list[str], list[str]]]] = {}
        self._live: WeakSet[ConfigSnapshot] = WeakSet()
        self.said: set[str] = set()

    def snapshot(self) -> ConfigSnapshot:
        """One consistent view, as of now."""
        snapshot = ConfigSnapshot(self, self._clock())
        self.keep_for(snapshot)
        return snapshot

    def keep_for(self, snapshot: ConfigSnapshot) -> None:
        """As long as this view lives, the versions that it may see are kept."""
        with self._lock:
            self._live.add(snapshot)

    def version(self, relative: str, since: int) -> Version:
        """The state of a file that a request which began at `since` sees."""
        key = self._key(relative)
        history = self._files.get(relative)
        if key is None and history is not None and not history.versions[-1].missing:
            key = self._looked_for_again(relative, since)
        if history is None or history.key != key or not history.settled:
            history = self._refresh_history(relative, key)
        return history.at(since) if history else GONE

    def _key(self, relative: str) -> tuple[int, ...] | None:
        """What changes when the file does; None: it is not there."""
        try:
            seen = os.stat(self._prefix + relative)
        except (OSError, ValueError):
            return None
        return (seen.st_mtime_ns, seen.st_size, seen.st_ctime_ns, seen.st_ino)

    def _looked_for_again(self, relative: str, since: int) -> tuple[int, ...] | None:
        """The key of a file that was there, once it is back; None: it stays away.

        Whoever began before it vanished needs no waiting: the old version is theirs.
        """
        now = self._clock()
        vanished = self._missing_version(relative, now).since
        looks = 0 if since < vanished else _LOOKS * (VANISHED_NS - (now - vanished)) // VANISHED_NS
        for _ in range(looks):
            self._pause(VANISHED_NS / _LOOKS / 1e9)
            if key := self._key(relative):
                return key
        return None

    def refusal_of_edit(self, relative: str, since: int) -> ConfigError | None:
        """The error of an edit in whose place `version` gives the last good version; None: there is none."""
        history = self._files.get(relative)
        return history.refusal_of_edit(since) if history else None

    def newest(self, relative: str) -> Version:
        """The state of a file on disk now, good or not."""
        self.version(relative, 0)
        history = self._files.get(relative)
        return history.versions[-1] if history else GONE

    def _refresh_history(self, relative: str, key: tuple[int, ...] | None) -> History | None:
        with self._lock:
            history = self._files.get(relative)
            if key is None and history is None:
                return None
            now = self._clock()
            version = self._missing_version(relative, now) if key is None else self._load(relative, key, now)
            settled = key is None or now - max(key[0], key[2]) > _SETTLED_NS
            if history is None:
                versions: tuple[Version, ...] = (version,)
            elif history.versions[-1].fingerprint == version.fingerprint:
                versions = history.versions
            else:
                versions = (*self._still_needed(history.versions), version)
                self._report_edit(relative, versions)
                if version.is_good:
                    self._warn_of_edit(relative, version.document)
            self._files[relative] = history = History(key, settled, versions)
            return history

    def _missing_version(self, relative: str, now: int) -> Version:
        """The state "no such file", since the nearest folder that is there changed."""
        folder = os.path.dirname(self._prefix + relative)
        while folder != os.path.dirname(folder):
            try:
                now = min(os.stat(folder).st_mtime_ns, now)
                break
            except OSError:
                folder = os.path.dirname(folder)
        return Version(now, missing=True, fingerprint=-1)

    def _load(self, relative: str, key: tuple[int, ...], now: int) -> Version:
        version = Version(min(max(key[0], key[2]), now))
        try:
            raw = self.bytes_of(relative)
        except OSError as error:
            version.fingerprint = hash(str(error))
            version.error = ConfigError(f"cannot be read: {error.strerror}", file=relative)
            return version
        self.fill(version, relative, raw)
        return version

    def fill(self, version: Version, relative: str, raw: bytes) -> None:
        """Write into a version what these bytes of the file say, or what is wrong with them."""
        version.fingerprint = hash(raw)
        try:
            version.document = parse(raw, relative)
            version.parsed = True
            self._check(relative, version.document, raw)
        except ConfigError as error:
            version.error = error.fresh_copy()  # what it was raised through would keep a request alive

    def _check(self, relative: str, document: Any, raw: bytes) -> None:
        """Raise one ConfigError that holds every error of the file's own, with their places."""
        faults = [f for f in self._own_findings(relative, document) if f.level == ERROR]
        if error := errors_of(faults and place_findings(faults, raw)):
            raise error

    def _own_findings(self, relative: str, document: Any) -> list[Finding]:
        findings = check_file(relative, document)
        if errors_of(findings) or not relative.startswith("Workflows/"):
            return findings
        if self._lost_its_nodes(relative, document):
            return [Finding(relative, "", ERROR, NO_NODES)]
        return self.check_workflow(relative, document) if self.check_workflow is not None else []

    def _lost_its_nodes(self, relative: str, document: Any) -> bool:
        """Whether an edit took the last node away: an unfinished one, or a slip."""
        history = self._files.get(relative)
        good = [version for version in history.versions if version.is_good] if history else []
        return bool(good) and has_nodes(good[-1].document) and not has_nodes(document)

    def _still_needed(self, versions: tuple[Version, ...]) -> tuple[Version, ...]:
        """What running requests may see, and always the last good version."""
        oldest = min((snapshot.since for snapshot in self._live), default=self._clock())
        keep = len(versions) - 1
        while keep > 0 and (versions[keep].since > oldest or not versions[keep].is_good):
            keep -= 1
        return versions[keep:]

    def _report_edit(self, relative: str, versions: tuple[Version, ...]) -> None:
        error = versions[-1].error
        if versions[-1].missing:
            logger.info("%s was removed", relative)
        elif error is None:
            logger.info("%s was edited and has been reloaded", relative)
        elif any(version.is_good for version in versions):
            logger.error("%s; the last good version stays in use%s", error, error.excerpt)
        else:
            logger.error("%s%s", error, error.excerpt)

    def _warn_of_edit(self, relative: str, document: Any) -> None:
        """Log what of an edited file is hardly as meant: at a start this is said of every file."""
        findings = self.advise(relative, document) if self.advise is not None else []
        for finding in place_findings([one for one in findings if one.level == WARNING], self.text(relative)):
            logger.warning("%s", finding)

    def listing(self, folder: str) -> tuple[list[str], list[str]]:
        """(sub-folders, files) of a folder, sorted. A folder that is not there has none."""
        path = self._prefix + folder
        try:
            changed = os.stat(path).st_mtime_ns
            known = self._listings.get(folder)
            if known is not None and known[0] == changed:
                return known[1]
            with os.scandir(path) as entries:
                marked = sorted(
                    (entry.name, os.path.isdir(entry))  # of a link in a circle `entry.is_dir()` would raise
                    for entry in entries
                    if not self._leads_back(folder, entry)
                )
        except (OSError, ValueError):
            return [], []
        found = ([n for n, is_dir in marked if is_dir], [n for n, is_dir in marked if not is_dir])
        if self._clock() - changed > _SETTLED_NS:
            self._listings[folder] = (changed, found)
        return found

    def _leads_back(self, folder: str, entry: os.DirEntry[str]) -> bool:
        """Whether the entry of `folder` links to a folder above it: who walks in would walk for ever."""
        if not entry.is_symlink():
            return False
        parts = folder.split("/")
        above = (self._prefix + "/".join(parts[:length]) for length in range(len(parts) + 1))
        return os.path.realpath(entry.path) in {os.path.realpath(path) for path in above}

    def text(self, relative: str) -> bytes:
        """The bytes of a file as they are now, for places in it; none when it cannot be read."""
        try:
            return self.bytes_of(relative)
        except (OSError, ValueError):
            return b""

    def bytes_of(self, relative: str) -> bytes:
        """The bytes of a file as they are now. Raises OSError, also for what would never end (a pipe, a
        device), and ValueError for what is no path.
        """
        path = Path(self._prefix + relative)
        if not stat.S_ISREG(path.stat().st_mode) and not path.is_dir():
            raise OSError(errno.EINVAL, "it is not a regular file", relative)
        return path.read_bytes()

    def is_new(self, note: str) -> bool:
        """As `ConfigSnapshot.is_new`."""
        with self._lock:
            is_new = note not in self.said
            self.said.add(note)
        return is_new

    def is_folder(self, relative: str) -> bool:
        return os.path.isdir(self._prefix + relative)


class ConfigSnapshot:
    """The config tree as one request sees it. Reading a file twice is a dict look-up.

    `outdated`: of each file that was read in its last good version, as a later edit has an error, a sentence
    that says so. It grows while the request runs.
    """

    __slots__ = (
        "__weakref__",
        "_found",
        "_made",
        "_refused",
        "_tree",
        "_versions",
        "outdated",
        "root",
        "since",
        "spelling",
    )

    def __init__(self, tree: ConfigTree, since: int) -> None:
        self.root = tree.root
        self.since = since
        self.spelling = Spelling(tree.said)
        self._tree = tree
        self.outdated: dict[str, str] = {}
        self._versions: dict[str, Version] = {}
        self._refused: dict[str, ConfigError] = {}
        self._found: dict[str, str | None] = {}
        self._made: dict[Any, Any] = {}

    @property
    def tree(self) -> ConfigTree:
        return self._tree

    def _version(self, relative: str) -> Version:
        version = self._versions.get(relative)
        if version is None:
            version = self._versions.setdefault(relative, self._tree.version(relative, self.since))
            if refused := self._tree.refusal_of_edit(relative, self.since):
                self._refused[relative] = refused
        return version

    def read(self, relative: str) -> Any:
        """The JSON value of a file (`Users/ana.json`), shared and read-only.

        Raises ConfigMissing (no such file) and ConfigError (every fault of the file in one message).
        """
        version = self._version(relative)
        if version.missing:
            raise ConfigMissing("no such file", file=relative)
        if version.error is not None:
            raise version.error.fresh_copy()
        if relative in self._refused:
            self.outdated[relative] = f"{self._refused[relative]}; the last good version was used"
        return version.document

    def derive(self, relative: str, key: Any, build: Callable[[Any], T]) -> T:
        """`build(document)`, made once for each version of the file and key, and shared."""
        document = self.read(relative)
        kept = self._versions[relative].derived
        if key not in kept:
            kept[key] = build(document)
        value: T = kept[key]
        return value

    def once(self, key: Any, build: Callable[[], T]) -> T:
        """`build()`, made once for this view of the files."""
        if key not in self._made:
            self._made[key] = build()
        value: T = self._made[key]
        return value

    def is_new(self, note: str) -> bool:
        """Whether this fault of the files is reported for the first time in this process."""
        return self._tree.is_new(note)

    def inspect(self, relative: str) -> tuple[Any, ConfigError | None]:
        """(the JSON value, None) however wrong it is, or (None, why it is no JSON): for the checker alone.

        Unlike `read` it never falls back to an older version. Raises ConfigMissing.
        """
        version = self._tree.newest(relative)
        if version.missing:
            raise ConfigMissing("no such file", file=relative)
        return (version.document, None) if version.parsed else (None, version.error)

    def text(self, relative: str) -> bytes:
        """As `ConfigTree.text`."""
        return self._tree.text(relative)

    def where(self, file: str, pointer: str) -> str:
        """`Users/ana.json:3:11: port`: how messages name a place.

        Without line and column when the request uses another version than the text on disk.
        """
        raw, version = self.text(file), self._versions.get(file)
        is_used = version is None or version.fingerprint == hash(raw)
        return where(file, pointer, position_in(raw, file, pointer) if is_used else NOWHERE)

    def looked_at(self) -> list[str]:
        """The files that were there when they were read or asked for, sorted."""
        return sorted(relative for relative, version in self._versions.items() if not version.missing)

    def exists(self, relative: str) -> bool:
        """Whether the file (`.json`) or folder is there, spelled exactly so."""
        if relative.endswith(".json"):
            return not self._version(relative).missing
        return self._tree.is_folder(relative)

    def find(self, relative: str, named_at: tuple[str, str] | None = None) -> str | None:
        """`relative` if it exists, else the one that differs in case alone (told by `spelling`), else None.

        `named_at`: see `Spelling.tell`. Raises ConfigError when two such exist. Source: workflows.md 16.3.
        """
        if self.exists(relative):
            return relative
        if relative not in self._found:
            self._found[relative] = self._last_good_notice(relative)
        found = self._found[relative]
        if found:
            self.spelling.tell(relative, found, named_at)
        return found

    def first(self, candidates: Sequence[str]) -> str | None:
        """The first that exists exactly; if none does, the first that `find` forgives."""
        for candidate in candidates:
            if self.exists(candidate):
                return candidate
        return next((found for found in map(self.find, candidates) if found), None)

    def _last_good_notice(self, relative: str) -> str | None:
        found: list[str] = []
        for part in relative.split("/"):
            folders, files = self._tree.listing("/".join(found))
            names = [*folders, *files]
            matches = [part] if part in names else [n for n in names if n.casefold() == part.casefold()]
            if not matches:
                return None
            if len(matches) > 1:
                raise ConfigError(f"has two spellings on disk: {', '.join(matches)}", file=relative)
            found.append(matches[0])
        return "/".join(found)

    def folders(self, relative: str) -> list[str]:
        """Names of the sub-folders, sorted; none for a folder that does not exist."""
        return list(self._tree.listing(relative.rstrip("/"))[0])

    def files(self, relative: str) -> list[str]:
        """Names (without `.json`) of the JSON files of a folder, sorted; none if it does not exist."""
        names = self._tree.listing(relative.rstrip("/"))[1]
        return [name.removesuffix(".json") for name in names if name.endswith(".json")]


@lru_cache(maxsize=8)
def tree_of(root: Path) -> ConfigTree:
    """The one tree of a config root in this process."""
    return ConfigTree(root)


def outdated_files(request: RequestContext | None) -> Mapping[str, str]:
    """`ConfigSnapshot.outdated` of a request: the very mapping, which grows while the request runs."""
    snapshot = request.snapshot if request is not None else None
    return snapshot.outdated if isinstance(snapshot, ConfigSnapshot) else {}


def default_snapshot() -> ConfigSnapshot:
    """The current request's snapshot, else a new one of the launch configuration."""
    request = current_request()
    if request is not None and isinstance(request.snapshot, ConfigSnapshot):
        return request.snapshot
    return tree_of(launch_facts().config_directory).snapshot()
