"""Kills `--setup` or `--unpack` at steps that a seed chooses, and says what was left.

    python killed_commands.py FOLDER (setup|unpack) SEED

`FOLDER/Public` is the tree before. A step is a call that changes the disk. Prints one line of JSON for each kill.
Run by `test_killed.py`.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import random
import shutil
import sys
from pathlib import Path

from Middleware.api.commands import setup
from Middleware.llmapis.find_servers import ServerSearch
from tests.services.backup.killed_restore import contents, in_child, run

KILLS = 10


def words_of(what: str, folder: Path) -> list[str]:
    words = ["--PublicDirectory", str(folder / "killed" / "Public")]
    if what == "setup":
        return [*words, "--setup", "--yes"]
    return [*words, "--unpack", str(folder / "ann.zip"), "--map", "Main=Ollama", "--map", "Vec=Nomic"]


def fresh(folder: Path) -> Path:
    killed = folder / "killed"
    shutil.rmtree(killed, ignore_errors=True)
    killed.mkdir()
    if (folder / "Public").exists():
        shutil.copytree(folder / "Public", killed / "Public")
    return killed


def count_steps(words: list[str], folder: Path) -> int:
    """How many steps the whole work has: the first that nobody reaches."""
    low, high = 1, 2
    while killed_at(words, folder, high):
        low, high = high, high * 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if killed_at(words, folder, middle) else (low, middle)
    return low


def killed_at(words: list[str], folder: Path, step: int) -> bool:
    fresh(folder)
    return in_child(lambda: run(words), step)


def make_old(folder: Path) -> None:
    """What is left of a killed process, as it looks to who comes much later."""
    for path in [folder, *folder.rglob("*")]:
        os.utime(path, (0, 0))


def users_of(tree: dict[str, str]) -> set[str]:
    return {name for name in tree if "/Users/" in name and name.endswith(".json") and "/_" not in name}


def main(folder: Path, what: str, seed: int) -> None:
    setup.find_servers = lambda hosts: ServerSearch((), (), 0.0)  # type: ignore[assignment]
    setup.SPACING_S = 0.0
    words = words_of(what, folder)
    killed = fresh(folder)
    before = contents(killed)
    with contextlib.redirect_stdout(None):
        run(words)
    after = contents(killed)
    gc.freeze()
    steps = count_steps(words, folder)
    rng = random.Random(seed)
    for step in [*sorted(rng.sample(range(1, steps), KILLS - 1)), steps]:
        assert killed_at(words, folder, step)
        left = contents(killed)
        make_old(killed)
        in_child(lambda: run(words) * 0, None)  # it may say that all of it is there already
        again = contents(killed)
        facts = {
            "step": step,
            "steps": steps,
            "untouched": all(left.get(name) == data for name, data in before.items()),
            "new_users": sorted(users_of(left) - set(before)),
            "users_then": sorted(users_of(again)),
            "whole": all(left.get(name) == data for name, data in after.items()),
            "again": sorted(name for name in set(after) | set(again) if after.get(name) != again.get(name)),
        }
        print(json.dumps(facts), flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]))
