"""The keys file that is in force: looked at once a second at most, read anew when it changed, never open.

Once there was a file, keys are needed: a broken edit, or a file that vanished, leaves the last good one in
force; one that appears broken shuts everybody out until it is repaired. Source: spec keys.md 1.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from Middleware.common.errors import ConfigError, ConfigMissing
from Middleware.common.instance_global_variables import LaunchFacts
from Middleware.config.key_file import KeyEntry, lost_patterns, read_keys
from Middleware.config.loader import tree_of
from Middleware.config.paths import KEYS_FILE
from Middleware.config.validation import Finding

logger = logging.getLogger(__name__)

LOOK_S = 1.0
"""An edit is seen after this time at the latest."""
_SETTLED_S = 0.1
"""A file that changed less than this before it was read may change again within one tick of its clock."""


@dataclass(frozen=True, slots=True)
class KeyRing:
    """The entries of one version of the file. `broken`: it appeared with a fault, and opens nothing."""

    entries: tuple[KeyEntry, ...] = ()
    broken: bool = False
    _by_digest: Mapping[str, KeyEntry] = field(default_factory=dict, repr=False)
    _by_name: Mapping[str, KeyEntry] = field(default_factory=dict, repr=False)

    @classmethod
    def of(cls, entries: Sequence[KeyEntry]) -> KeyRing:
        by_digest, by_name = {one.sha256: one for one in entries}, {one.name: one for one in entries}
        return cls(tuple(entries), False, by_digest, by_name)

    def find(self, digest: str) -> KeyEntry | None:
        """The entry of a key's SHA-256, 64 hex digits in lower case."""
        return self._by_digest.get(digest)

    def named(self, name: str) -> KeyEntry | None:
        """The entry of this name, as it is written."""
        return self._by_name.get(name)


_MOST_TOLD = 10
"""So many patterns that fit nobody are named at once; `--validate` names them all."""
_Sign = tuple[int, ...]
_UNSEEN: _Sign = (0, 0, 0, 0)
"""Something is there that cannot be looked at."""
_UNSETTLED: _Sign = (-1, 0, 0, 0)


def load_key_file(path: Path) -> tuple[KeyEntry, ...]:
    """Raises ConfigError, ConfigMissing where no such file is there."""
    return read_keys(bytes_of_key_file(path), path.name)


def bytes_of_key_file(path: Path) -> bytes:
    """Raises ConfigError, ConfigMissing where no such file is there."""
    try:
        return tree_of(path.parent).bytes_of(path.name)
    except FileNotFoundError as error:
        if os.path.lexists(path):
            raise ConfigError("is a link that leads nowhere", file=str(path)) from error
        raise ConfigMissing("no such file", file=str(path)) from error
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise ConfigError(f"cannot be read: {why}", file=str(path)) from error


def mode_fault(path: Path) -> str:
    """What is wrong with who may read the file; empty: nothing, or it cannot be looked at."""
    try:
        mode = os.stat(path).st_mode & 0o777
    except OSError:
        return ""
    return f"has mode {mode:04o}, so that others can read it; set it to 0600" if mode & 0o077 else ""


def keys_path(facts: LaunchFacts) -> Path:
    """The keys file of this command line, whether or not it is there. Raises ConfigError for one that is only
    spelled otherwise: where the system takes that for another file, it would open the server.
    """
    if facts.keys_file is not None:
        return facts.keys_file
    path = facts.config_directory / KEYS_FILE
    if not os.path.lexists(path):
        _, files = tree_of(facts.config_directory).listing("")
        for name in files:
            if name.casefold() == KEYS_FILE.casefold():
                raise ConfigError(f"must be called {KEYS_FILE}; rename it", file=name)
    return path


def has_keys_file(facts: LaunchFacts) -> bool:
    """Whether keys are needed because of a file, good or not."""
    try:
        return facts.keys_file is not None or os.path.lexists(keys_path(facts))
    except ConfigError:
        return True


class KeysInForce:
    """One keys file, read at once if it is there. Raises ConfigError for one with faults.

    `path`: where it is, or would be. `must_exist`: a file that is not there is a fault. `served_users()`:
    whom patterns should fit; what fits nobody is a warning, once for each version of the file.
    """

    def __init__(
        self,
        path: Path,
        *,
        must_exist: bool = False,
        served_users: Callable[[], Sequence[str]] = tuple,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.path = path
        self._served_users, self._clock = served_users, clock
        self._lock = threading.Lock()
        self._fault = ""
        self._warned: set[str] = set()
        self._ring: KeyRing | None = None
        self._looked = clock()
        self._seen = self._look()
        if must_exist or self._seen is not None:
            self._ring = self._load()
            self._warn_of_mode()
            self._settle(self._seen)

    def ring(self) -> KeyRing | None:
        """What holds now; None: there is no file, and none has been since the start, so no key is needed."""
        if self._clock() - self._looked >= LOOK_S:
            with self._lock:
                if self._clock() - self._looked >= LOOK_S:
                    self._look_again()
                    self._looked = self._clock()
        return self._ring

    def _look(self) -> _Sign | None:
        """What changes when the file does; None: it is not there. One that cannot be looked at is there."""
        try:
            seen = os.stat(self.path)
        except (FileNotFoundError, NotADirectoryError):
            return _UNSEEN if os.path.lexists(self.path) else None
        except (OSError, ValueError):
            return _UNSEEN
        return (seen.st_mtime_ns, seen.st_size, seen.st_ctime_ns, seen.st_ino)

    def _look_again(self) -> None:
        seen = self._look()
        if seen is None:
            if self._ring is not None:
                self._tell_fault("the file is gone")
            self._seen = None
        elif seen != self._seen:
            self._read_again()
            self._settle(seen)

    def _read_again(self) -> None:
        try:
            ring = self._load()
        except ConfigError as error:
            self._tell_fault(str(error))
            self._ring = self._ring or KeyRing(broken=True)
            return
        if self._ring is None:
            logger.warning("keys file %s has appeared: from now on every request needs a key", self.path)
        elif self._fault or ring != self._ring:
            logger.info("keys file %s has been read again: %d keys", self.path, len(ring.entries))
        self._fault, self._ring = "", ring
        self._warn_of_mode()

    def _settle(self, seen: _Sign | None) -> None:
        """What was read is this state, unless it may still change without a sign."""
        is_settled = seen is not None and time.time() - max(seen[0], seen[2]) / 1e9 > _SETTLED_S
        self._seen = seen if is_settled else _UNSETTLED

    def _load(self) -> KeyRing:
        entries = load_key_file(self.path)
        self._warn_of_patterns(lost_patterns(entries, self._served_users(), self.path.name))
        return KeyRing.of(entries)

    def _warn_of_patterns(self, findings: Sequence[Finding]) -> None:
        fresh = [finding for finding in map(str, findings) if finding not in self._warned]
        for finding in fresh[:_MOST_TOLD]:
            logger.warning("%s", finding)
        if len(fresh) > _MOST_TOLD:
            logger.warning("keys file %s: and %d more of this kind", self.path, len(fresh) - _MOST_TOLD)
        self._warned.update(fresh)

    def _tell_fault(self, why: str) -> None:
        """Once, until it is repaired."""
        if why == self._fault:
            return
        self._fault = why
        is_open = self._ring is not None and not self._ring.broken
        then = "the last good version stays in use" if is_open else "nobody is let in until it is repaired"
        logger.error("keys file %s: %s; %s", self.path, why, then)

    def _warn_of_mode(self) -> None:
        """Once for each mode."""
        why = mode_fault(self.path) if os.name == "posix" else ""
        if why and why not in self._warned:
            logger.warning("keys file %s %s", self.path, why)
        self._warned.add(why)
