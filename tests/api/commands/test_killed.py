"""`--setup` and `--unpack` are killed at ten steps each: what was there is untouched, a user is there only with all that
it needs, and the same command once more leaves what it would have left at first.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from Middleware.common.instance_global_variables import INSTALL_DIRECTORY, launch_facts, set_launch_facts
from tests.api.commands import killed_commands
from tests.api.commands.pack_house import PackHouse, small_user
from tests.patience import PATIENCE_S

pytestmark = pytest.mark.skipif(os.name == "nt", reason="needs fork and SIGKILL")


@pytest.fixture
def kills(tmp_path: Path) -> Callable[[str], list[dict]]:
    """What each kill of a command left."""

    def run(what: str) -> list[dict]:
        done = subprocess.run(
            [sys.executable, killed_commands.__file__, str(tmp_path), what, "17"],
            env={**os.environ, "PYTHONPATH": str(INSTALL_DIRECTORY)},
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )
        assert done.returncode == 0, done.stderr[-3000:]
        return [json.loads(line) for line in done.stdout.splitlines()]

    return run


@pytest.fixture
def there(tmp_path: Path, capsys, monkeypatch) -> Iterator[None]:
    """A pack, and the tree into which it goes."""
    before = launch_facts()
    home = PackHouse(tmp_path / "from" / "Public", capsys, monkeypatch)
    small_user(home)
    os.rename(home.packed("ann"), tmp_path / "ann.zip")
    made = PackHouse(tmp_path / "Public", capsys, monkeypatch)
    made.endpoint("box/Ollama")
    made.endpoint("box/Nomic", "Vectors")
    yield
    set_launch_facts(before)


def check(found: list[dict]) -> None:
    assert len(found) == killed_commands.KILLS
    assert [each for each in found if not each["untouched"]] == []
    assert [each for each in found if each["new_users"] and not each["whole"]] == []
    assert {each["whole"] for each in found} == {True, False}


def test_a_killed_unpack_is_done_by_the_next(there, kills):
    """Files that are there already, exactly so, are in nobody's way."""
    found = kills("unpack")
    check(found)
    assert [each for each in found if each["again"] and not each["whole"]] == []


def test_a_killed_setup_leaves_no_half_user(tmp_path, kills):
    """In a tree that is there. The next try makes a whole one: of the next name, once files have the first."""
    for name, document in (("Users/_current-user", {"currentUser": "ann"}), ("Users/ann", {"port": 5000})):
        path = tmp_path / f"Public/Configs/{name}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(document), "utf-8")
    found = kills("setup")
    check(found)
    assert [len(each["users_then"]) for each in found] == [3 if each["whole"] else 2 for each in found]
