"""Corrections that are killed, and two processes in one discussion: whole or not at all, nothing twice, nothing back.

Source: spec operate.md 6, 7 (6).
"""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing

import pytest

from Middleware.services.discussion_store import DiscussionStore
from Middleware.services.file_memories import FileMemories
from tests.patience import PATIENCE_S
from tests.workflows.memory.conftest import hash_of
from tests.workflows.memory.test_crashes import python

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")

KILLS = """
import contextlib, os, random, signal, sys, time
from pathlib import Path
from Middleware.services.discussion_folders import ArchiveRefused
from Middleware.services.discussion_store import ChunkList, DiscussionStore, Entry
from Middleware.services.file_memories import End, FileMemories
from Middleware.utilities.encryption_utils import api_key_hash, derive_key
from Middleware.workflows.memory.copying import copy_memories
from Middleware.workflows.memory.corrections import Corrections
from Middleware.workflows.memory.vector_store import ChunkRecord, VectorDatabase
from tests.services.backup.killed_restore import kill_at

root, key = Path(sys.argv[1]), os.environ.get("KEY")
whose = {"key_hash": api_key_hash(key), "encryption_key": derive_key(key, "ann")} if key else {}

def discussion(name):
    return DiscussionStore(root, name, **whose)

store = discussion("d")
ChunkList(store, "chat_summary.json").replace(Entry("summary 0", "h8"))
memories, database = FileMemories(store), VectorDatabase(store)
for number in range(1, 9):
    memories.append(f"m{number}", End(f"h{number}", f"b{number}", (f"h{number}",)), after=memories.load())
    database.save(ChunkRecord(f"h{number}", (f"h{number}",)), [{"summary": f"m{number}"}],
                  after=f"h{number - 1}" if number > 1 else None)

def files_of(store):
    return {entry.text for entry in FileMemories(store).load() if entry.text}

def facts_of(store):
    return {each.text for each in Corrections(store).all() if each.number.startswith("v")}

def forget(turn):
    number = turn % 8 + 1
    if not {f"m{number}"} & files_of(store):
        with contextlib.suppress(ArchiveRefused):  # five are kept, and those may be undone already
            Corrections(store).undo()
    else:
        Corrections(store).forget([f"f{number}", f"v{number}"])

def copy(turn):
    copy_memories(store, discussion(f"copy{turn}"))

def edit(turn):
    Corrections(store).edit("summary", f"summary {turn}")
    Corrections(store).pin(next(each.number for each in Corrections(store).all() if each.number[0] in "fv"))

rng = random.Random(7)
done = 0
for turn in range(120):
    work = (forget, edit, copy, forget)[turn % 4]
    how, moment = turn % 3, rng.random()  # killed at a moment, killed at a step, left alone
    child = os.fork()
    if not child:
        if how == 1:
            kill_at(1 + int(moment * 40))
        work(turn)
        os._exit(7)
    if how == 0:
        time.sleep(moment * 0.2)
        os.kill(child, signal.SIGKILL)
    done += os.waitpid(child, 0)[1] != signal.SIGKILL
    for each in (store, discussion(f"copy{turn}")):
        if each.folder.exists():
            each.settle()
        files, facts = files_of(each), facts_of(each)
        assert files == facts, (turn, work.__name__, files, facts)
    said = [each.text for each in Corrections(store).all() if each.number == "summary"]
    assert len(said) == 1 and said[0].startswith("summary "), (turn, said)
    assert not list(store.folder.glob("*.corrupt-*"))
    hashes = [entry.hash for entry in memories.load()]
    assert hashes == [f"h{number}" for number in range(1, 9)], hashes
    with database.reading() as log:
        assert len(list(log.chunk_hashes())) == 8
print(done)
"""

TURNS = """
import sys
from pathlib import Path
from tests.workflows.handlers.conftest import Bench
from tests.workflows.memory.conftest import talk
from Middleware.workflows.memory.file_writer import write_file_memories
from Middleware.workflows.memory.settings import SettingsFile
from Middleware.workflows.memory.writer import write_vector_memories

bench = Bench(Path(sys.argv[1]))
store = bench.store
sizes = {"chunkEstimatedTokenSize": 2, "vectorMemoryChunkEstimatedTokenSize": 2}
settings = SettingsFile("Memory", {"endpointName": "e", "lookbackStartTurn": 0, "prompt": "[TextChunk]", **sizes})
bench.engine.reply = lambda call: '{"summary": "s"}'
for number in range(1, 31):
    bench.messages = talk(number)
    for _ in range(2):  # what was in the way of a correction is made good
        write_file_memories(bench.context(""), store, settings)
        write_vector_memories(bench.context(""), store, settings)
"""

FORGETS = """
import sys
from pathlib import Path
from Middleware.services.discussion_store import DiscussionStore
from Middleware.workflows.memory.corrections import Corrections

store = DiscussionStore(Path(sys.argv[1]) / "discussions", "d")
corrections, gone = Corrections(store), set()
while len(gone) < 16:
    for each in corrections.all():
        if int(each.number[1:]) % 3 == 0 and len(gone) < 16:
            corrections.forget([each.number])
            gone.add(each.number)
print(",".join(sorted(gone)))
"""


@pytest.mark.parametrize("key", ["", "test-key"], ids=["plain", "encrypted"])
def test_a_correction_that_is_killed_is_whole_or_not_done(tmp_path, monkeypatch, key):
    """File and vector memory go together and come together; what they cover is never lost."""
    monkeypatch.setenv("KEY", key)
    child = python(KILLS, tmp_path)
    out, errors = child.communicate(timeout=PATIENCE_S)
    assert (child.returncode, [line for line in errors.splitlines() if "broken off" not in line]) == (0, [])
    assert 40 <= int(out) < 120


def test_what_one_process_forgets_another_does_not_make_again(tmp_path):
    """While it makes memories: each message is covered once, in order, and what was forgotten stays so."""
    children = [python(code, tmp_path) for code in (TURNS, FORGETS)]
    results = [child.communicate(timeout=PATIENCE_S) for child in children]
    assert [errors for _, errors in results] == ["", ""]
    gone = results[1][0].strip().split(",")
    store = DiscussionStore(tmp_path / "discussions", "d")
    entries = FileMemories(store).load()
    assert [entry.hash for entry in entries] == [hash_of(at) for at in range(30)]
    blank = {f"f{at}" for at, entry in enumerate(entries, 1) if entry.is_forgotten}
    assert blank == {number for number in gone if number.startswith("f")}
    with closing(sqlite3.connect(store.path("vector_memory.db"))) as connection:
        logged = connection.execute("SELECT message_hash FROM vector_memory_hash_log ORDER BY id").fetchall()
        assert [each for (each,) in logged] == [hash_of(at) for at in range(30)]
        kept = {f"v{each}" for (each,) in connection.execute("SELECT id FROM memories")}
    facts = {number for number in gone if number.startswith("v")}
    assert (len(kept), kept & facts) == (30 - len(facts), set())
