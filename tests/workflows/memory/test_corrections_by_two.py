"""Two processes correct one encrypted discussion at the same time, by the command: each correction is whole, none is
lost, nothing is made twice and nothing that was forgotten comes back.

Source: spec operate.md 6, 7 (6).
"""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from Middleware.services.discussion_store import DiscussionStore
from Middleware.services.file_memories import End, FileMemories
from Middleware.utilities.encryption_utils import TOKEN_START, api_key_hash, derive_key
from Middleware.workflows.memory.corrections import Corrections
from Middleware.workflows.memory.vector_store import ChunkRecord, VectorDatabase
from tests.patience import PATIENCE_S
from tests.workflows.memory.conftest import hash_of, talk

HOUSE = Path(__file__).parents[3]
KEY = "test-key"
COUNT = 12
WORK = """
import contextlib, io, sys
from Middleware.api.launch_arguments import parse
from Middleware.common.instance_global_variables import set_launch_facts

def memory(*words):
    launch = parse(["--PublicDirectory", sys.argv[1], "--User", "ann", "--memory", *words])
    set_launch_facts(launch.facts)
    with contextlib.redirect_stdout(io.StringIO()) as said:
        status = launch.command.run(launch.arguments)
    assert status == 0, (words, said.getvalue())
    return said.getvalue()
"""
FORGETS = """
for number in (1, 4, 7, 10):
    assert "forgotten:" in memory("forget", "trip", f"f{number}", f"v{number}")
    assert f"note of word {number - 1}\\n" not in memory("search", "trip", "note of")
    memory("pin", "trip", f"v{number + 2}")
"""
EDITS = """
for number in (2, 5, 8, 11):
    memory("edit", "trip", f"f{number}", f"better {number}")
    memory("edit", "trip", f"v{number}", f"better fact {number}")
    memory("pin", "trip", f"f{number}")
    memory("pin", "trip", f"f{number + 1}")
    memory("unpin", "trip", f"f{number + 1}")
    assert f"f{number}, memory {number}, pinned:\\nbetter {number}\\n" in memory("search", "trip", "BETTER")
"""
UNDOES = """
for turn in range(10):
    number = int(sys.argv[2]) + turn % 3
    if "forgotten:" in memory("forget", "trip", f"f{number}", f"v{number}"):
        memory("undo", "trip")
"""
REBUILDS = """
for _ in range(6):
    memory("rebuild", "trip", sys.argv[2])
"""
FORGETS_BEHIND = """
for number in (3, 6, 9):
    memory("forget", "trip", "--matching", f"note of word {number - 1}", "--for-good")
    assert f"note of word {number - 1}\\n" not in memory("search", "trip", "note of")
"""


@pytest.fixture
def public(tmp_path: Path) -> Path:
    """User `ann`, who encrypts, with a discussion of twelve memories of each kind."""
    public = tmp_path / "Public"
    settings = {
        "chunkEstimatedTokenSize": 2,
        "lookbackStartTurn": 0,
        "fileMemoryWorkflowName": "Note",
    }
    for name, document in {
        "Users/ann": {"encryptUsingApiKey": True, "discussionIdMemoryFileWorkflowSettings": "Memory"},
        "Workflows/ann/Memory": settings,
        "Workflows/ann/Note": [{"type": "StaticResponse", "content": "note of {agent1Input}"}],
    }.items():
        path = public / f"Configs/{name}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(document), "utf-8")
    (tmp_path / "talk.json").write_text(json.dumps(talk(COUNT)), "utf-8")
    memories, database = FileMemories(store_of(public)), VectorDatabase(store_of(public))
    for at in range(COUNT):
        end = End(hash_of(at), hash_of(at - 1) if at else "", (hash_of(at),))
        memories.append(f"note of word {at}", end, after=memories.load())
        database.save(
            ChunkRecord(hash_of(at), (hash_of(at),)),
            [{"summary": f"fact {at + 1}"}],
            after=hash_of(at - 1) if at else None,
        )
    return public


def store_of(public: Path) -> DiscussionStore:
    return DiscussionStore(
        public / "DiscussionIds",
        "trip",
        key_hash=api_key_hash(KEY),
        encryption_key=derive_key(KEY, "ann"),
    )


@pytest.fixture
def side_by_side(public: Path) -> Callable[..., None]:
    """Runs scripts, each with a word, in processes of their own; each must end well."""

    def run(*scripts: tuple[str, str]) -> None:
        children = [
            subprocess.Popen(
                [sys.executable, "-c", WORK + script, str(public), word],
                cwd=HOUSE,
                env={**os.environ, "HEADRACE_API_KEY": KEY},
                stderr=subprocess.PIPE,
                text=True,
            )
            for script, word in scripts
        ]
        told = [child.communicate(timeout=PATIENCE_S)[1] for child in children]
        assert [(child.returncode, errors) for child, errors in zip(children, told, strict=True)] == [
            (0, "") for _ in scripts
        ]

    return run


def held(public: Path) -> dict[str, str]:
    return {each.number: each.text for each in Corrections(store_of(public)).all()}


def pins(public: Path) -> set[str]:
    return {each.number for each in Corrections(store_of(public)).all() if each.is_pinned}


def check_whole(public: Path) -> None:
    """Encrypted, sound, and each message covered once, in order."""
    store = store_of(public)
    files = [path for path in store.folder.rglob("*.json*") if path.is_file()]
    assert {path.read_bytes()[: len(TOKEN_START)] for path in files} == {TOKEN_START}
    assert [entry.hash for entry in FileMemories(store).load()] == [hash_of(at) for at in range(COUNT)]
    assert list(store.folder.glob("*.corrupt-*")) == []
    with closing(sqlite3.connect(store.path("vector_memory.db"))) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        logged = connection.execute("SELECT message_hash FROM vector_memory_hash_log ORDER BY id").fetchall()
        found = connection.execute("SELECT count(*) FROM memories_fts").fetchone()
        kept = connection.execute("SELECT count(*) FROM memories").fetchone()
    assert [each for (each,) in logged] == [hash_of(at) for at in range(COUNT)]
    assert found == kept


def test_corrections_of_different_memories_are_all_there(public, side_by_side):
    """One forgets and pins facts, the other edits and pins notes, and both search all the time."""
    side_by_side((FORGETS, ""), (EDITS, ""))
    wanted = {f"f{at + 1}": f"note of word {at}" for at in range(COUNT)}
    wanted |= {f"v{at}": f"fact {at}" for at in range(1, COUNT + 1)}
    wanted |= {f"f{at}": f"better {at}" for at in (2, 5, 8, 11)}
    wanted |= {f"v{at}": f"better fact {at}" for at in (2, 5, 8, 11)}
    for at in (1, 4, 7, 10):
        del wanted[f"f{at}"], wanted[f"v{at}"]
    assert held(public) == wanted
    assert pins(public) == {f"f{at}" for at in (2, 5, 8, 11)} | {f"v{at}" for at in (3, 6, 9, 12)}
    check_whole(public)


def test_as_many_undos_as_corrections_lead_back(public, side_by_side):
    """Whoever's correction an undo takes back: each puts back the newest."""
    before = held(public)
    side_by_side((UNDOES, "1"), (UNDOES, "2"))
    assert held(public) == before
    check_whole(public)


def test_a_rebuild_brings_back_nothing_that_is_forgotten_meanwhile(public, side_by_side, tmp_path):
    """Each memory is made once, and what was forgotten while memories were made stays so."""
    side_by_side((REBUILDS, str(tmp_path / "talk.json")), (FORGETS_BEHIND, ""))
    notes = {number: text for number, text in held(public).items() if number[0] == "f"}
    assert notes == {f"f{at + 1}": f"note of word {at}" for at in range(COUNT) if at not in (2, 5, 8)}
    check_whole(public)
