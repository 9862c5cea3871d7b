"""A backup, a restore and the undoing of one are killed at each step: nothing is lost, nothing is half.

Source: spec operate.md 7, row 3.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from Middleware.common.instance_global_variables import INSTALL_DIRECTORY
from Middleware.services.discussion_store import ChunkList, DiscussionStore, Entry
from Middleware.workflows.memory.vector_store import ChunkRecord, VectorDatabase
from tests.patience import PATIENCE_S

pytestmark = pytest.mark.skipif(os.name == "nt", reason="needs fork and SIGKILL")

LEAST_KILLS = 50


def write(path: Path, document: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(document), "utf-8")


def make_tree(public: Path, text: str) -> None:
    """A small installation with two discussions, one of them below the folder of a key."""
    configs = public / "Configs"
    write(configs / "Users" / "_current-user.json", {"currentUser": "ana"})
    write(configs / "Users" / "ana.json", {"port": 5000})
    write(configs / "ApiTypes" / "Demo.json", {"type": "builtInDemo", "presetType": "any"})
    write(configs / "Endpoints" / "Main.json", {"endpoint": "http://x.test", "apiTypeConfigFileName": "Demo"})
    node = {"type": "StaticResponse", "content": text}
    write(configs / "Workflows" / "ana" / "_DefaultWorkflow.json", [node])
    (public / "notes.txt").write_text(text, "utf-8")
    for name, key in (("trip", None), ("story", "62af8704764faf8e")):
        store = DiscussionStore(public / "DiscussionIds", name, key_hash=key)
        ChunkList(store, "memories.json").replace(Entry(text, "1"))
        VectorDatabase(store).save(ChunkRecord("h", ("h",)), [{"summary": text}], after=None)


def run(*words: str) -> str:
    driver = Path(__file__).with_name("killed_restore.py")
    done = subprocess.run(
        [sys.executable, str(driver), *words],
        env={**os.environ, "PYTHONPATH": str(INSTALL_DIRECTORY)},
        cwd=words[0],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A backup of one state beside a live tree of another."""
    make_tree(tmp_path / "before" / "Public", "before")
    server = [sys.executable, str(INSTALL_DIRECTORY / "server.py")]
    words = [
        "--PublicDirectory",
        str(tmp_path / "before" / "Public"),
        "--backup",
        str(tmp_path / "backup.zip"),
    ]
    subprocess.run([*server, *words], check=True, timeout=PATIENCE_S, stdout=subprocess.DEVNULL)
    make_tree(tmp_path / "live" / "Public", "now")
    return tmp_path


def kills(folder: Path, what: str) -> list[dict]:
    found = [json.loads(line) for line in run(str(folder), what).splitlines()]
    assert [each["killed"] for each in found] == [True] * (len(found) - 1) + [False]
    return found[:-1]


def test_a_killed_backup_is_none(folder):
    """The tree is as it was; the next backup removes what the killed one left."""
    found = kills(folder, "backup")
    assert len(found) >= 10
    assert [each for each in found if not (each["whole"] and each["same"]) or each["left"]] == []


def test_a_killed_restore_leaves_the_old_or_the_new(folder):
    """Never a mixture of both, and nothing of its own; at least once each of the two."""
    found = kills(folder, "restore")
    assert len(found) >= LEAST_KILLS
    assert [each for each in found if each["state"] == "half" or each["left"]] == []
    assert {each["state"] for each in found} == {"old", "new"}


def test_a_killed_undoing_is_undone(folder):
    """By whoever starts after it."""
    found = kills(folder, "undo")
    assert len(found) >= 5
    assert [each for each in found if each["state"] != "old" or each["left"]] == []
