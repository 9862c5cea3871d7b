"""The tests of what was changed, in one command: called by `./check PATH ...` and `./check --changed`.

    .venv/bin/python tools/check_paths.py [--changed] [PATH ...] [OPTION OF PYTEST ...]

A file leads to its own test, a test to itself and to those that import it; the rules of the tree come along.
No coverage is asked for: that is a measure of all tests together. Standard library only.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

HOUSE = Path(__file__).resolve().parents[1]

RULES = (
    "tests/test_architecture.py",
    "tests/test_docs.py",
    "tests/test_docs_blocks.py",
    "tests/test_faces.py",
    "tests/test_shelf.py",
    "tests/test_spec_citations.py",
    "tests/protocols/test_registry.py",
    "tests/workflows/checks/test_shipped_configs.py",
)
"""What asks every plug-in, page and file of the tree the same questions."""

OF_FOLDERS = {
    "docs": (),
    "packs": (),
    "Public": ("tests/e2e/test_example_users.py",),
    "deploy": ("tests/test_deploy.py", "tests/test_make_venv.py"),
    ".github": ("tests/test_deploy.py",),
}
"""Top folder -> tests of its files besides the rules."""

SCRIPTS = ("tests/test_deploy.py", "tests/test_install.py", "tests/test_make_venv.py")
"""Of files in the top folder that are no Python."""


def tests_of(path: str) -> list[str]:
    """The tests of one file or folder, named from the top folder."""
    file = Path(path)
    top = file.parts[0] if file.parts else ""
    if top == "tests":
        return _of_a_test(path)
    mirrored = Path("tests", *file.parts[1:]) if top == "Middleware" else Path("tests", file.name)
    own = mirrored.with_name(f"test_{file.name}")
    if file.suffix == ".py" and (HOUSE / own).is_file():
        return [own.as_posix(), *OF_FOLDERS.get(top, ())]
    if top == "Middleware":
        return [_nearest(mirrored if file.suffix == "" else mirrored.parent)]
    if len(file.parts) > 1:
        return list(OF_FOLDERS.get(top, ()))
    return [] if file.suffix == ".md" else list(SCRIPTS)


def _of_a_test(path: str) -> list[str]:
    """A file of tests and those that take names from it; the folder of any other."""
    file = Path(path)
    if file.suffix != ".py":
        return [path]
    module = ".".join(file.with_suffix("").parts)
    takes = re.compile(rf"^\s*(?:from|import) {re.escape(module)}\b", re.MULTILINE)
    takers = [
        other.relative_to(HOUSE).as_posix()
        for other in sorted(HOUSE.glob("tests/**/test_*.py"))
        if takes.search(other.read_text("utf-8"))
    ]
    if file.name.startswith("test_"):
        return [path, *takers]
    return [str(file.parent), *(taker for taker in takers if file.parent not in Path(taker).parents)]


def _nearest(folder: Path) -> str:
    """The folder of tests, or the first above it that is there."""
    while not (HOUSE / folder).is_dir():
        folder = folder.parent
    return folder.as_posix()


def changed() -> list[str]:
    """The files that differ from the last commit, and new ones; none that is deleted or that git ignores."""
    asked = ["git", "status", "--porcelain", "-z", "--no-renames", "--untracked-files=all"]
    told = subprocess.run(asked, cwd=HOUSE, capture_output=True, text=True, check=True).stdout
    return [entry[3:] for entry in told.split("\0") if entry and "D" not in entry[:2]]


def relative(paths: Iterable[str]) -> Iterator[str]:
    """Named from the top folder. Raises SystemExit for one that is not there."""
    for path in paths:
        file, _, inside = path.partition("::")
        if not (HOUSE / file).exists():
            raise SystemExit(f"{file}: there is no such file or folder in {HOUSE}")
        name = (HOUSE / file).resolve().relative_to(HOUSE).as_posix()
        yield f"{name}::{inside}" if inside else name


def arguments(words: Sequence[str]) -> list[str]:
    """The words for pytest."""
    first = next(
        (at for at, word in enumerate(words) if word.startswith("-") and word != "--changed"), len(words)
    )
    paths, options = words[:first], words[first:]
    named = [path for path in paths if path != "--changed"]
    wanted = [*relative(named), *(changed() if "--changed" in paths else ())]
    tests = [test for path in wanted for test in tests_of(path)]
    return [*dict.fromkeys([*tests, *(RULES if wanted else ())]), *options]


def main(words: Sequence[str]) -> int:
    """The exit status of pytest, 0 when nothing has changed."""
    call = arguments(words)
    if not call and "--changed" in words:
        print("nothing has changed since the last commit")
        return 0
    return subprocess.call([sys.executable, "-m", "pytest", "-q", *call], cwd=HOUSE)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
