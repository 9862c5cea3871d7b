"""Kills a backup, a restore or the undoing of one at each of its steps in turn, and says what was left.

    python killed_restore.py FOLDER (backup|restore|undo)

A step is a call that changes the disk. Prints one line of JSON for each kill: the step, and the state of the
tree after somebody started again. Run by `test_killed.py`.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import shutil
import signal
import sys
from pathlib import Path

from Middleware.api.launch_arguments import parse
from Middleware.common.instance_global_variables import set_launch_facts
from Middleware.services.backup.archive import Archive
from Middleware.services.backup.tree_use import folders_of, use_together

CALLS = ("rename", "replace", "link", "fsync", "mkdir", "unlink", "rmdir", "chmod")
"""Each changes the disk, or says that it has changed."""


def kill_at(step: int) -> None:
    """Let this process die, as by a loss of power, instead of the call of that number."""
    count = 0

    def wrapped(call):
        def counted(*words, **how):
            nonlocal count
            count += 1
            if count == step:
                os.kill(os.getpid(), signal.SIGKILL)
            return call(*words, **how)

        return counted

    for name in CALLS:
        setattr(os, name, wrapped(getattr(os, name)))


def run(words: list[str]) -> int:
    """A command of the program in this process."""
    launch = parse(words)
    set_launch_facts(launch.facts)
    assert launch.command is not None
    use = (
        use_together(launch.facts.data_root, folders_of(launch.facts))
        if launch.command.USES_FOLDERS
        else None
    )
    try:
        return launch.command.run(launch.arguments)
    finally:
        if use is not None:
            use.give_back()


def warm_up(folder: Path) -> None:
    """Load in this process what every child would load again."""
    public, target = folder / "live" / "Public", folder / "warm.zip"
    with contextlib.redirect_stdout(None):
        run(["--PublicDirectory", str(public), "--backup", str(target)])
        run(["--PublicDirectory", str(folder / "warm" / "Public"), "--restore", str(target)])
    target.unlink()
    gc.freeze()


def in_child(work, step: int | None) -> bool:
    """Do `work` in a process of its own; whether it was killed at the step."""
    child = os.fork()
    if child == 0:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        if step is not None:
            kill_at(step)
        status = 1
        try:
            status = work()
        finally:
            os._exit(status)
    _, ended = os.waitpid(child, 0)
    if not os.WIFSIGNALED(ended):
        assert os.waitstatus_to_exitcode(ended) == 0
        return False
    return True


def contents(folder: Path) -> dict[str, str]:
    """Every file and folder below, but for the note of versions (and what is left of writing it), and for what
    whoever opens a discussion or a database next removes: a lock of a process that is gone, empty parts of a
    database.
    """
    found = {}
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if path.is_dir():
            found[f"{name}/"] = ""
        elif (
            "version.json" not in path.name
            and path.name != ".lock"
            and not path.name.endswith(("-shm", "-wal"))
        ):
            found[name] = path.read_bytes().hex()
    return found


def start_again(public: Path) -> None:
    """What a server does first."""
    facts = parse(["--PublicDirectory", str(public)]).facts
    use_together(facts.data_root, folders_of(facts)).give_back()


def kill_backups(folder: Path) -> None:
    public, target = folder / "live" / "Public", folder / "backups"
    step, killed = 0, True
    while killed:
        step += 1
        shutil.rmtree(target, ignore_errors=True)
        target.mkdir()
        before = contents(public)
        killed = in_child(
            lambda: run(["--PublicDirectory", str(public), "--backup", str(target / "a.zip")]), step
        )
        is_whole = not (target / "a.zip").exists()
        if not is_whole:
            with Archive(target / "a.zip") as archive:
                archive.check()
            is_whole = True
        in_child(lambda: run(["--PublicDirectory", str(public), "--backup", str(target / "b.zip")]), None)
        left = sorted(path.name for path in target.iterdir() if path.name not in ("a.zip", "b.zip"))
        report(step, killed, whole=is_whole, same=contents(public) == before, left=left)


def kill_restores(folder: Path, *, undoing: bool) -> None:
    backup, live, public = folder / "backup.zip", folder / "live", folder / "killed" / "Public"
    words = ["--PublicDirectory", str(public), "--restore", str(backup), "--replace"]
    fresh(live, public)
    old = contents(public)
    in_child(lambda: run(words), None)
    new = contents(public)
    step, killed = 0, True
    while killed:
        step += 1
        for path in folder.glob("headrace-before-restore-*"):
            path.unlink()
        fresh(live, public)
        if undoing:
            in_child(lambda: run(words), last_step_of_swap(folder, live, public, words))
            killed = in_child(lambda: start_again(public) or 0, step)
        else:
            killed = in_child(lambda: run(words), step)
        start_again(public)
        is_now = contents(public)
        state = "old" if is_now == old else "new" if is_now == new else "half"
        report(step, killed, state=state, left=[name for name in is_now if ".restoring" in name])


_last: list[int] = []


def last_step_of_swap(folder: Path, live: Path, public: Path, words: list[str]) -> int:
    """A step of the restore in the middle of its renames."""
    if not _last:
        step = 0
        while True:
            step += 1
            fresh(live, public)
            in_child(lambda: run(words), step)
            journal = public / ".restoring-journal.json"
            if journal.exists() and json.loads(journal.read_bytes())["state"] == "swapping":
                _last.append(step + 12)
                break
        fresh(live, public)
    return _last[0]


def fresh(live: Path, public: Path) -> None:
    shutil.rmtree(public.parent, ignore_errors=True)
    shutil.copytree(live, public.parent)


def report(step: int, killed: bool, **facts) -> None:
    print(json.dumps({"step": step, "killed": killed, **facts}), flush=True)


if __name__ == "__main__":
    place, what = Path(sys.argv[1]), sys.argv[2]
    warm_up(place)
    if what == "backup":
        kill_backups(place)
    else:
        kill_restores(place, undoing=what == "undo")
