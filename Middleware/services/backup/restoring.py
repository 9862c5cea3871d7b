"""A backup goes back: where each of its files belongs, what stands in the way, and the exchange itself.

Knows nothing of users and of the command line. Source: spec operate.md 3.
"""

from __future__ import annotations

import os
import shutil
import unicodedata
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from Middleware.services.backup.archive import Archive, BackupRefused, Manifest
from Middleware.services.backup.taking import DATABASE_PARTS, stays_in_place
from Middleware.services.backup.tree_swap import Step, Swap
from Middleware.services.backup.tree_use import VERSION_FILE
from Middleware.utilities.file_utils import atomic_write, is_windows_name

Unit = tuple[int, str]
"""Number of a base, and the path below it: what is exchanged as a whole."""


@dataclass(slots=True)
class Plan:
    """Where the files of a backup go. `targets`: root -> its folder, real path. `bases`: the folders in which
    renames take place; `home`, the data root, is the first. `places`: file -> base and path below it.
    `units`: what is exchanged, and the files of each. `aside`: files in whose place another root goes.
    """

    manifest: Manifest
    targets: Mapping[str, Path]
    bases: list[Path]
    places: dict[str, Unit] = field(default_factory=dict)
    units: dict[Unit, list[str]] = field(default_factory=dict)
    aside: list[str] = field(default_factory=list)

    @property
    def home(self) -> Path:
        return self.bases[0]

    def path(self, unit: Unit) -> Path:
        base, relative = unit
        return self.bases[base] / relative

    def in_the_way(self) -> list[Path]:
        """What is there already where something of the backup goes; an empty folder counts for nothing."""
        return [path for path in map(self.path, self.units) if os.path.lexists(path) and not _is_empty(path)]

    @property
    def size(self) -> int:
        return sum(self.manifest.files[name].size for name in self.places)


def plan_restore(
    manifest: Manifest, targets: Mapping[str, Path], home: Path, kept: Iterable[Path] = ()
) -> Plan:
    """`targets`: root of the backup -> folder; a root without one is not restored. `home`: the data root.
    `kept`: what stays where it is, whatever holds it. Raises BackupRefused where two files would
    have one place.
    """
    real = {name: Path(os.path.realpath(path)) for name, path in targets.items()}
    bases = list(dict.fromkeys([Path(os.path.realpath(home)), *real.values()]))
    plan = Plan(manifest, real, bases)
    files = dict(_placed(manifest, real, plan.aside))
    _add_mounts(bases, files.values())
    direct = {str(path.parent) for path in files.values()}
    fixed = [*bases, *(Path(os.path.realpath(path)) for path in kept)]
    for name, path in files.items():
        number = max(
            (n for n, base in enumerate(bases) if path.is_relative_to(base)),
            key=lambda n: len(bases[n].parts),
        )
        unit = _unit_of(path, bases[number], fixed, direct if name.startswith("discussions") else None)
        plan.places[name] = number, path.relative_to(bases[number]).as_posix()
        plan.units.setdefault((number, unit), []).append(name)
    return plan


def kept_files(folder: Path) -> list[Path]:
    """Files below a folder that are in no backup and must stay: other backups, logs."""
    return [
        Path(place, name) for place, _, names in os.walk(folder) for name in names if stays_in_place(name)
    ]


def _placed(manifest: Manifest, targets: Mapping[str, Path], aside: list[str]) -> Iterator[tuple[str, Path]]:
    """File -> its place. What lies where another root goes is left aside: that root has the newer say."""
    taken: dict[Path, str] = {}
    for name in manifest.files:
        root, _, relative = name.partition("/")
        if root not in targets:
            continue
        path = targets[root] / relative
        others = (each for key, each in targets.items() if each != targets[root])
        if any(
            path.is_relative_to(other) and len(other.parts) > len(targets[root].parts) for other in others
        ):
            aside.append(name)
        elif path in taken:
            raise BackupRefused(f"{name} and {taken[path]} would both become {path}")
        else:
            taken[path] = name
            yield name, path


def _add_mounts(bases: list[Path], paths: Iterable[Path]) -> None:
    """A folder on another file system, between a root and a file of it, cannot be renamed: it is a base."""
    looked: set[Path] = set(bases)
    for path in paths:
        for folder in path.parents:
            if folder in looked:
                break
            looked.add(folder)
            if os.path.ismount(folder) and any(folder.is_relative_to(base) for base in bases):
                bases.append(folder)


def _unit_of(path: Path, base: Path, fixed: Iterable[Path], direct: set[str] | None) -> str:
    """What is exchanged for a file: the child of the base in which it lies. A child that holds a folder that
    stays is not moved, its own children are. `direct`: for discussions, the folders that hold files: a
    folder without any is that of a key, and each of its discussions goes by itself.
    """
    parts = path.relative_to(base).parts
    for length in range(1, len(parts)):
        folder = base.joinpath(*parts[:length])
        holds_fixed = any(each != base and each.is_relative_to(folder) for each in fixed)
        if not holds_fixed and (direct is None or str(folder) in direct):
            return "/".join(parts[:length])
    return "/".join(parts)


def _is_empty(path: Path) -> bool:
    """A folder in which there is no file, however deep."""
    if path.is_symlink() or not path.is_dir():
        return False
    return all(_is_empty(child) for child in path.iterdir())


# --------------------------------------------------------------------------
# What this system cannot hold.


def refused_names(plan: Plan, *, windows: bool = os.name == "nt") -> list[str]:
    """A sentence for each file whose name the system, or the file system of its place, cannot hold."""
    told: list[str] = []
    folded: dict[tuple[int, str], str] = {}
    folds = {number: _folds_case(base) for number, base in enumerate(plan.bases)}
    for name, (number, relative) in plan.places.items():
        if why := _why_no_name(relative, windows):
            told.append(f"{name}: {why}")
        elif folds[number]:
            other = folded.setdefault((number, _fold(relative)), name)
            if other != name:
                told.append(f"{name}: here it is the same name as {other}")
    return told


def _why_no_name(relative: str, windows: bool) -> str:
    try:
        os.fsencode(relative)
    except UnicodeEncodeError:
        return "this system cannot write such a name"
    if not windows:
        return ""
    for part in relative.split("/"):
        if not is_windows_name(part):
            return f"Windows cannot have a file or folder of the name {part!r}"
    return ""


def _fold(relative: str) -> str:
    return unicodedata.normalize("NFC", relative).casefold()


def _folds_case(folder: Path) -> bool:
    """Whether the file system of a folder, which need not exist yet, takes `A` and `a` for one name."""
    for place in (folder, *folder.parents):
        other = place.with_name(place.name.swapcase()) if place.name else place
        if place.exists() and other.name != place.name:
            return other.exists() and other.samefile(place)
    return False


def lacking_space(plan: Plan) -> list[str]:
    """A sentence for each file system that has too little room."""
    wanted: dict[int, int] = defaultdict(int)
    places: dict[int, Path] = {}
    for name, (number, _) in plan.places.items():
        place = next(each for each in (plan.bases[number], *plan.bases[number].parents) if each.exists())
        device = place.stat().st_dev
        wanted[device] += plan.manifest.files[name].size
        places.setdefault(device, place)
    return [
        f"{places[device]}: {size} bytes are needed, {free} are free"
        for device, size in wanted.items()
        if (free := shutil.disk_usage(places[device]).free) < size
    ]


# --------------------------------------------------------------------------
# The exchange.


def run_restore(
    archive: Archive, plan: Plan, version_file: bytes | None, is_fit: Callable[[Mapping[str, Path]], bool]
) -> bool:
    """Unpack, check and exchange: all of it or nothing. `version_file`: what the data root says afterwards.
    `is_fit(root -> folder of its unpacked files)` false: nothing is exchanged, and the result is false.

    Only for whoever holds the folders alone. Raises BackupRefused, OSError.
    """
    made = _make_folders(plan.bases)
    swap = Swap(plan.home, plan.bases)
    done = False
    try:
        swap.begin()
        unpack(archive, plan, swap.new)
        keep_links(plan, swap.new)
        if is_fit(unpacked_roots(plan, swap.new)):
            swap.run(_steps(plan, swap, version_file))
            done = True
    finally:
        swap.clean()
        if not done:
            for folder in reversed(made):
                with suppress(OSError):
                    folder.rmdir()
    return done


def _make_folders(bases: Sequence[Path]) -> list[Path]:
    """Make those that are missing; all that were made, parents first."""
    made: list[Path] = []
    for base in bases:
        missing = [folder for folder in (base, *base.parents) if not folder.exists()]
        for folder in reversed(missing):
            folder.mkdir()
            made.append(folder)
    return made


def unpack(archive: Archive, plan: Plan, folder_of: Callable[[int], Path]) -> None:
    """Write the files below other folders. Raises BackupRefused, OSError."""
    modes = plan.manifest.folders
    known: set[Path] = set()
    for name, (number, relative) in plan.places.items():
        target = folder_of(number) / relative
        _make_parents(target.parent, folder_of(number), name.rpartition("/")[0], modes, known)
        archive.unpack(name, target)


def _make_parents(folder: Path, top: Path, name: str, modes: Mapping[str, int], known: set[Path]) -> None:
    """`name`: of the folder in the backup, which knows its mode."""
    if folder in known or folder == top:
        return
    _make_parents(folder.parent, top, name.rpartition("/")[0], modes, known)
    folder.mkdir(exist_ok=True)
    if name in modes:
        folder.chmod(modes[name] | 0o700)
    known.add(folder)


def unpacked_roots(plan: Plan, folder_of: Callable[[int], Path]) -> dict[str, Path]:
    """Root -> the folder in which `unpack` has written its files."""
    return {name: folder_of(plan.bases.index(path)) for name, path in plan.targets.items()}


@contextmanager
def show_what_stays(plan: Plan, roots: Mapping[str, Path]) -> Iterator[None]:
    """Inside the block the unpacked folders of these roots also show, as links, what no exchange touches: of
    a root, what the backup does not have. A system that gives links to few shows nothing.
    """
    shown: list[Path] = []
    try:
        for name, unpacked in roots.items():
            there = plan.targets[name]
            for child in sorted(there.iterdir()) if there.is_dir() else ():
                link = unpacked / child.name
                if not os.path.lexists(link):
                    with suppress(OSError):
                        link.symlink_to(child, target_is_directory=child.is_dir())
                        shown.append(link)
        yield
    finally:
        for link in shown:
            link.unlink()


def keep_links(plan: Plan, folder_of: Callable[[int], Path]) -> None:
    """A link that leads out of all roots is in no backup. It goes along, if nothing comes in its place.
    `folder_of`: as of `unpack`.
    """
    for number, relative in plan.units:
        old = plan.path((number, relative))
        if old.is_symlink() or not old.is_dir():
            continue
        for link in _links_below(old):
            real = Path(os.path.realpath(link))
            target = folder_of(number) / link.relative_to(plan.bases[number])
            if any(real.is_relative_to(base) for base in plan.bases) or os.path.lexists(target):
                continue
            target.parent.mkdir(parents=True, exist_ok=True)
            os.symlink(os.readlink(link), target)


def _links_below(folder: Path) -> Iterator[Path]:
    for place, folders, files in os.walk(folder):
        for name in (*folders, *files):
            if (path := Path(place, name)).is_symlink():
                yield path


def _steps(plan: Plan, swap: Swap, version_file: bytes | None) -> list[Step]:
    steps = []
    for number, relative in plan.units:
        path = plan.path((number, relative))
        steps.append(Step(number, relative, os.path.lexists(path), True))
        for ending in DATABASE_PARTS:  # of the old database: they would be taken for the new one's
            if os.path.lexists(f"{path}{ending}") and (number, f"{relative}{ending}") not in plan.units:
                steps.append(Step(number, f"{relative}{ending}", True, False))
    if version_file is not None:
        atomic_write(swap.new(0) / VERSION_FILE, version_file)
        steps.append(Step(0, VERSION_FILE, os.path.lexists(plan.home / VERSION_FILE), True))
    return steps
