"""New files take the place of old ones below several folders: all of them, or none.

    begun     a journal names the folders; each gets a folder `.restoring-<id>`, in which the new files are
              made, on the same file system
    swapping  the journal names the renames; each old file or folder goes into that folder, the new one out
    done      the journal says so; the folders are removed, then the journal

Whoever finds a journal that is not done undoes what was renamed, as often as it takes: each step can be told
from the files alone. Knows nothing of backups. Source: spec operate.md 3.
"""

from __future__ import annotations

import json
import logging
import os
import secrets
import shutil
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from Middleware.utilities.file_utils import sync_folder

logger = logging.getLogger(__name__)

JOURNAL = ".restoring-journal.json"
_NEXT = ".restoring-journal.next"
"""The journal while it is written. Whoever finds it while nobody has the folders alone may remove it."""
STAGE = ".restoring-"
_POINTER = "journal"
BEGUN, SWAPPING, DONE = "begun", "swapping", "done"


class SwapUnclear(Exception):
    """A folder holds parts of an unfinished restore, and its journal cannot be read; the text says which."""


@dataclass(frozen=True, slots=True)
class Step:
    """One rename below the folder of number `base`. `had_old`: something is there; `has_new`: something
    comes.
    """

    base: int
    relative: str
    had_old: bool
    has_new: bool


@dataclass(slots=True)
class Swap:
    """One exchange. `home`: where the journal is; `bases`: the folders, which exist."""

    home: Path
    bases: Sequence[Path]
    id: str = field(default_factory=lambda: secrets.token_hex(8))
    steps: list[Step] = field(default_factory=list)
    state: str = BEGUN

    @property
    def journal(self) -> Path:
        return self.home / JOURNAL

    def stage(self, base: int) -> Path:
        """Where new and old files of a folder wait."""
        return self.bases[base] / f"{STAGE}{self.id}"

    def new(self, base: int) -> Path:
        """The folder for the new files of a base; it is called as the base itself."""
        return self.stage(base) / "new" / (self.bases[base].name or "root")

    def old(self, base: int) -> Path:
        return self.stage(base) / "old"

    def begin(self) -> None:
        """Make the folders for the new files. Raises OSError."""
        self._write(BEGUN)
        for number, _ in enumerate(self.bases):
            stage = self.stage(number)
            stage.mkdir(mode=0o700)
            (stage / _POINTER).write_text(str(self.journal), "utf-8")
            self.new(number).mkdir(parents=True)
            self.old(number).mkdir()

    def run(self, steps: Iterable[Step]) -> None:
        """Exchange the files; after an error all is as it was. Raises OSError."""
        self.steps = list(steps)
        for number, _ in enumerate(self.bases):
            _sync_tree(self.stage(number))
        self._write(SWAPPING)
        try:
            for step in self.steps:
                self._do(step)
            for folder in {self._place(step).parent for step in self.steps}:
                sync_folder(folder)
            self._write(DONE)
        except BaseException:
            self.undo()
            raise

    def _do(self, step: Step) -> None:
        place = self._place(step)
        if step.had_old:
            kept = self.old(step.base) / step.relative
            kept.parent.mkdir(parents=True, exist_ok=True)
            os.rename(place, kept)
        if step.has_new:
            place.parent.mkdir(parents=True, exist_ok=True)
            os.rename(self.new(step.base) / step.relative, place)

    def undo(self) -> None:
        """Put everything back where it was; may be called again after it was stopped. Raises OSError."""
        for step in reversed(self.steps):
            self._undo_step(step)
        for folder in {self._place(step).parent for step in self.steps}:
            if folder.is_dir():
                sync_folder(folder)
        self.steps = []
        self._write(DONE)

    def _undo_step(self, step: Step) -> None:
        place = self._place(step)
        kept, new = self.old(step.base) / step.relative, self.new(step.base) / step.relative
        was_moved = os.path.lexists(kept) if step.had_old else True
        if step.has_new and was_moved and os.path.lexists(place) and not os.path.lexists(new):
            new.parent.mkdir(parents=True, exist_ok=True)
            os.rename(place, new)
        if step.had_old and was_moved:
            os.rename(kept, place)

    def clean(self) -> None:
        """Remove what is not needed any more, the journal last; nothing where renames could not be undone.

        Raises OSError.
        """
        if self.state == SWAPPING:
            return
        for number, _ in enumerate(self.bases):
            shutil.rmtree(self.stage(number), ignore_errors=True)
        self.journal.unlink(missing_ok=True)
        sync_folder(self.home)

    def _place(self, step: Step) -> Path:
        return self.bases[step.base] / step.relative

    def _write(self, state: str) -> None:
        document = {
            "id": self.id,
            "state": state,
            "bases": [str(base) for base in self.bases],
            "steps": [[step.base, step.relative, step.had_old, step.has_new] for step in self.steps],
        }
        unfinished_journal = self.home / _NEXT
        with open(unfinished_journal, "wb") as file:
            file.write(json.dumps(document, indent=1).encode("ascii"))
            file.flush()
            os.fsync(file.fileno())
        os.replace(unfinished_journal, self.journal)
        sync_folder(self.home)
        self.state = state


def _sync_tree(folder: Path) -> None:
    for place, _, _ in os.walk(folder):
        sync_folder(Path(place))


# --------------------------------------------------------------------------
# What a restore that was killed has left.


def unfinished(home: Path, folders: Iterable[Path]) -> list[Path]:
    """The journals of unfinished exchanges of which something lies in these folders. Only for whoever holds
    them, so that no restore is at work.

    Raises SwapUnclear for parts whose journal is not there.
    """
    with suppress(OSError):
        (home / _NEXT).unlink(missing_ok=True)
    found = [home / JOURNAL] if (home / JOURNAL).exists() else []
    for folder in folders:
        for stage in sorted(folder.glob(f"{STAGE}*")):
            if not stage.is_dir():
                continue
            journal = _journal_of(stage)
            if any(_read(known)["id"] == stage.name.removeprefix(STAGE) for known in found):
                continue
            if journal is None or not journal.exists():
                raise SwapUnclear(
                    f"{stage} holds parts of a restore that was interrupted, and its journal"
                    f"{f' {journal}' if journal else ''} is not there"
                )
            found.append(journal)
    return list(dict.fromkeys(found))


def _journal_of(stage: Path) -> Path | None:
    try:
        return Path((stage / _POINTER).read_text("utf-8"))
    except OSError:
        return None


def bases_of(journal: Path, own: Iterable[Path]) -> list[Path]:
    """The folders of an unfinished exchange: where they were, else those of `own` that hold its parts, as
    when a container saw them under another name.
    """
    document = _read(journal)
    stage = f"{STAGE}{document['id']}"
    candidates = [folder for folder in own if (folder / stage).is_dir()]
    bases = []
    for text in document["bases"]:
        base = Path(text)
        if not (base / stage).is_dir():
            base = next((each for each in candidates if each.name == base.name), base)
        bases.append(base)
    return bases


def undo_unfinished(journal: Path, own: Iterable[Path]) -> bool:
    """Undo an unfinished exchange, or clean up after a finished one; true: something was undone.

    Only for whoever holds the folders alone. Raises SwapUnclear, OSError.
    """
    document = _read(journal)
    steps = [Step(*each) for each in document["steps"]]
    swap = Swap(journal.parent, bases_of(journal, own), document["id"], steps, document["state"])
    is_open: bool = document["state"] == SWAPPING
    if is_open:
        lost = [str(base) for number, base in enumerate(swap.bases) if not swap.stage(number).is_dir()]
        if lost:
            raise SwapUnclear(f"{journal} names old files that are not there, in {', '.join(lost)}")
        swap.undo()
    swap.clean()
    return is_open


def _read(journal: Path) -> dict[str, Any]:
    try:
        document = json.loads(journal.read_bytes())
        if isinstance(document, dict) and {"id", "state", "bases", "steps"} <= document.keys():
            return document
    except (ValueError, RecursionError) as error:
        raise SwapUnclear(f"{journal} cannot be read: {error}") from error
    raise SwapUnclear(f"{journal} is not the journal of a restore")
