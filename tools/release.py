"""What a release is made from: its notes, and packages that come out the same each time.

    .venv/bin/python tools/release.py --notes v1.2.3     print the section of CHANGELOG.md for this tag
    .venv/bin/python tools/release.py --build DIR        build wheel and source archive twice, and compare

A tag that names another version than the program, a version that CHANGELOG.md doesn't date, and an address
in setup.cfg that is still the example's are refused.
The time in the packages is that of the last commit (SOURCE_DATE_EPOCH), so that anybody can build them again
and compare. Needs git and the package `build`. Source: docs/releasing.md and spec operate.md 2.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

HOUSE = Path(__file__).resolve().parents[1]
if str(HOUSE) not in sys.path:
    sys.path.insert(0, str(HOUSE))

from Middleware.common.constants import VERSION  # noqa: E402

EXAMPLE_OWNER = "OWNER"
"""Stands for the owner of the repository until a first release."""


def notes_of(tag: str, changelog: str) -> str:
    """The text below the heading `## 1.2.3 - 2027-01-31`. Raises SystemExit for a tag that may not go out."""
    version = tag.removeprefix("v")
    if version != VERSION:
        raise SystemExit(f"the tag {tag} names another version than the program, which is {VERSION}")
    heading = rf"^## \[?{re.escape(version)}\]? - \d{{4}}-\d\d-\d\d\n(.*?)(?=^## |\Z)"
    found = re.search(heading, changelog, re.M | re.S)
    if found is None:
        raise SystemExit(f'CHANGELOG.md has no section "## {version} - <date>"')
    return found[1].strip() + "\n"


def refuse_example_address(setup: str) -> None:
    """Raises SystemExit while the text of setup.cfg has the repository of nobody in an address: the packages
    would name it for ever.
    """
    if found := re.search(rf"^ +(\w+) = \S*/{EXAMPLE_OWNER}/", setup, re.M):
        place = f"setup.cfg, project_urls, {found[1]}"
        raise SystemExit(f"{place}: put your repository in place of {EXAMPLE_OWNER}")


def build(target: Path, source: Path = HOUSE, *, isolated: bool = True) -> list[Path]:
    """The packages, in `target`. `isolated` False: with the setuptools that is installed here.

    Raises SystemExit, naming the file, if two builds differ.
    """
    time = subprocess.run(
        ["git", "log", "-1", "--format=%ct"], cwd=source, check=True, capture_output=True, text=True
    ).stdout.strip()
    with tempfile.TemporaryDirectory() as made:
        builds = [_build_once(source, Path(made, name), time, isolated) for name in ("first", "second")]
        first, second = ({path.name: _digest(path) for path in paths} for paths in builds)
        different = sorted(name for name in first if first[name] != second.get(name))
        if different:
            raise SystemExit(f"two builds differ: {', '.join(different)}")
        target.mkdir(parents=True, exist_ok=True)
        return [Path(shutil.copy2(path, target)) for path in builds[0]]


def _build_once(source: Path, target: Path, time: str, isolated: bool) -> list[Path]:
    """From a copy of what git holds, so that nothing else in the folder gets in."""
    copy = target / "source"
    copy.mkdir(parents=True)
    archive = subprocess.run(["git", "archive", "HEAD"], cwd=source, check=True, capture_output=True).stdout
    subprocess.run(["tar", "-x", "-C", str(copy)], input=archive, check=True)
    environment = {**os.environ, "SOURCE_DATE_EPOCH": time, "PYTHONHASHSEED": "0"}
    command = [sys.executable, "-m", "build", "--outdir", str(target / "dist"), str(copy)]
    if not isolated:
        command.insert(3, "--no-isolation")
    subprocess.run(command, check=True, env=environment, stdout=subprocess.DEVNULL)
    paths = sorted((target / "dist").iterdir())
    for path in paths:
        if path.name.endswith(".tar.gz"):
            _settle(path, int(time))
    return paths


def _settle(path: Path, time: int) -> None:
    """A source archive whose files have one time, no owner and a fixed order: setuptools leaves those of the
    moment."""
    new = path.with_suffix(".new")
    with tarfile.open(path) as archive, new.open("wb") as raw:
        members = sorted(archive.getmembers(), key=lambda member: member.name)
        with (
            gzip.GzipFile("", "wb", mtime=time, fileobj=raw) as packed,
            tarfile.open(mode="w", fileobj=packed, format=tarfile.PAX_FORMAT) as made,
        ):
            for member in members:
                member.mtime, member.uid, member.gid, member.uname, member.gname = time, 0, 0, "", ""
                member.pax_headers = {}
                made.addfile(member, archive.extractfile(member) if member.isfile() else None)
    new.replace(path)


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def main(words: list[str] | None = None) -> int:
    """Exit status 0; SystemExit with a sentence for what may not go out."""
    parser = argparse.ArgumentParser(description="Makes the notes and the packages of a release.")
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--notes", metavar="TAG", help="Print the notes of this tag.")
    what.add_argument("--build", metavar="DIR", type=Path, help="Build the packages into this folder.")
    parser.add_argument(
        "--no-isolation", action="store_true", help="Build with the setuptools that is installed here."
    )
    given = parser.parse_args(words)
    if given.notes:
        refuse_example_address((HOUSE / "setup.cfg").read_text("utf-8"))
        print(notes_of(given.notes, (HOUSE / "CHANGELOG.md").read_text("utf-8")), end="")
        return 0
    for path in build(given.build, isolated=not given.no_isolation):
        print(f"{_digest(path)}  {path.name}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
