"""States of a discussion's files, kept before somebody corrects them: `.undo/<UTC time>` in its folder.

The newest of them is put back when that is asked for, and also when a correction was killed halfway: until it
is whole, `.undo/unfinished` names the state before it, and whoever takes the discussion's lock next puts that
one back. Knows nothing of what the files mean; encrypted files are kept as they lie. Whoever calls holds the
discussion's lock. Source: spec operate.md 6.
"""

from __future__ import annotations

import json
import logging
import os
import re
import shutil
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

from Middleware.utilities.file_utils import atomic_write, sync_folder
from Middleware.utilities.sqlite_files import copy_database, restore_database

logger = logging.getLogger(__name__)

UNDO = ".undo"
MOST_STATES = 5
_UNFINISHED, _MAKING, _GOING, _NAMES = "unfinished", ".making", ".going", "names"
_TIME = "%Y%m%dT%H%M%S.%fZ"
_STATE = re.compile(r"\d{8}T\d{6}\.\d{6}Z")
_DATABASE = ".db"

Place = Callable[[str], Path]
"""A file's name -> where it is, or would be made."""


class KeptStates:
    """The states in the discussion's `folder`. Methods raise OSError, `sqlite3.Error`."""

    def __init__(self, folder: Path, place: Place, now: Callable[[], datetime] | None = None) -> None:
        self._folder, self._place = folder / UNDO, place
        self._now = now or (lambda: datetime.now(UTC))

    @property
    def states(self) -> list[str]:
        """Their names, oldest first; the times are UTC."""
        try:
            names = os.listdir(self._folder)
        except OSError:
            return []
        return sorted(name for name in names if _STATE.fullmatch(name))

    def keep(self, names: Iterable[str], others: Iterable[str] = ()) -> str:
        """Keep the files with these names as they are; one that is missing is kept as missing. The state.

        `others`: files that no correction changes; they are kept, too, but never put back.
        """
        made = self._folder / _MAKING
        shutil.rmtree(made, ignore_errors=True)
        self._folder.mkdir(mode=0o700, exist_ok=True)
        made.mkdir(mode=0o700)
        wanted = list(names)
        for name in (*wanted, *others):
            self._keep_file(self._place(name), made / name)
        atomic_write(made / _NAMES, json.dumps(wanted).encode(), new_mode=0o600)
        state = self._next_name()
        os.rename(made, self._folder / state)
        sync_folder(self._folder)
        return state

    @staticmethod
    def _keep_file(path: Path, kept: Path) -> None:
        if path.suffix == _DATABASE:
            if path.exists():
                copy_database(path, kept)
            return
        try:
            data = path.read_bytes()
        except FileNotFoundError:
            return
        atomic_write(kept, data, new_mode=0o600)

    def _next_name(self) -> str:
        """The time, but later than that of the newest state: a clock may go back."""
        name = self._now().strftime(_TIME)
        newest = max(self.states, default="")
        if name <= newest:
            name = (datetime.strptime(newest, _TIME) + timedelta(microseconds=1)).strftime(_TIME)
        return name

    def begin(self, state: str) -> None:
        """From now on files change; until `end`, whoever comes next puts `state` back."""
        atomic_write(self._folder / _UNFINISHED, state.encode(), new_mode=0o600)

    def end(self) -> None:
        """The change is whole. The oldest of more than five states go."""
        (self._folder / _UNFINISHED).unlink(missing_ok=True)
        sync_folder(self._folder)
        for state in self.states[:-MOST_STATES]:
            self._remove(state)

    def put_back(self, state: str) -> None:
        """Make the files what they were. A file that was not there goes; a database becomes empty, for others
        may have it open.
        """
        kept = self._folder / state
        for name in json.loads((kept / _NAMES).read_bytes()):
            path, source = self._place(name), kept / name
            if path.suffix == _DATABASE:
                if source.exists() or path.exists():
                    restore_database(source if source.exists() else None, path)
            elif source.exists():
                atomic_write(path, source.read_bytes(), new_mode=0o600)
            else:
                path.unlink(missing_ok=True)

    @property
    def has_unfinished(self) -> bool:
        """Whether a correction is at work, or was killed."""
        return (self._folder / _UNFINISHED).exists()

    def undo_unfinished(self) -> bool:
        """Put back what was before a correction that was killed; tells whether there was one."""
        try:
            state = (self._folder / _UNFINISHED).read_text("ascii")
        except (FileNotFoundError, NotADirectoryError):
            return False
        if _STATE.fullmatch(state) and (self._folder / state).exists():  # else it was put back whole
            self.put_back(state)
        self.drop(state)
        return True

    def drop(self, state: str) -> None:
        """`state` is put back, so it is not kept any longer."""
        if _STATE.fullmatch(state):
            self._remove(state)
        (self._folder / _UNFINISHED).unlink(missing_ok=True)
        with suppress(OSError):  # other states are in it
            self._folder.rmdir()

    def remove(self) -> None:
        """Remove all states."""
        for state in self.states:
            self._remove(state)
        if self._folder.exists():
            shutil.rmtree(self._folder)

    def _remove(self, state: str) -> None:
        """At once, whoever is killed meanwhile: a state that had lost some of its files would say that they
        had not been there.
        """
        going = self._folder / _GOING
        shutil.rmtree(going, ignore_errors=True)
        with suppress(FileNotFoundError):
            os.rename(self._folder / state, going)
        shutil.rmtree(going, ignore_errors=True)


class Correctable(ABC):
    """Files that are corrected together, whole or not at all."""

    def __init__(self) -> None:
        self._correcting = False

    @property
    @abstractmethod
    def folder(self) -> Path:
        """Where the states are kept."""

    @abstractmethod
    def path(self, name: str) -> Path:
        """Where the file `name` is or would be."""

    @abstractmethod
    def lock(self) -> AbstractContextManager[None]:
        """The lock of all changes; who takes it calls `undo_unfinished`."""

    @property
    def kept_states(self) -> KeptStates:
        """What the files were before they were corrected."""
        return KeptStates(self.folder, self.path)

    def settle(self) -> None:
        """Wait for a correction that is at work; one that was killed is undone."""
        if not self._correcting and self.kept_states.has_unfinished:
            with self.lock():
                pass

    def undo_unfinished(self) -> None:
        """Undo a correction that was killed. For who holds the lock."""
        if not self._correcting and self.kept_states.undo_unfinished():
            logger.warning("a correction of the discussion was broken off, so it is undone")

    @contextmanager
    def correct(self, names: Sequence[str], others: Sequence[str] = ()) -> Iterator[str]:
        """Hold the lock for a change of several files, all or nothing: what the files with these `names` are
        is kept first, and put back when the block raises or the process is killed. `others`: as in
        KeptStates. Gives the state that is kept.
        """
        with self.lock():
            states = self.kept_states
            state = states.keep(names, others)
            states.begin(state)
            self._correcting = True
            try:
                yield state
            except BaseException:
                states.put_back(state)
                states.drop(state)
                raise
            finally:
                self._correcting = False
            states.end()
