"""A killed writer, and two writers at once: no file breaks, nothing is lost or doubled. Source: spec memory.md 18.9."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from Middleware.services.discussion_store import DiscussionStore
from tests.patience import PATIENCE_S
from tests.workflows.memory.conftest import hash_of

HOUSE = Path(__file__).resolve().parents[3]
pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")

KILLS = """
import os, random, select, signal, sys, time
from pathlib import Path
from Middleware.services.discussion_store import DiscussionStore
from Middleware.services.file_memories import End, FileMemories
from Middleware.workflows.memory.vector_store import ChunkRecord, VectorDatabase

store = DiscussionStore(Path(sys.argv[1]), "d")
memories, database = FileMemories(store), VectorDatabase(store)

def known():
    with database.reading() as log:
        return len(memories.load()), len(list(log.chunk_hashes())), len(store.read_text("state_document.md") or "")

def remember(number, chunks, length):
    end = End(f"m{number}", f"before {number}", (f"m{number}",))
    memories.append("memory " * 200, end, after=memories.load())
    return b"m"

def save(number, chunks, length):
    fact = {"title": "t", "summary": f"s{chunks}", "entities": [], "key_phrases": []}
    database.save(ChunkRecord(f"c{chunks}", (f"c{chunks}",)), [fact], after=f"c{chunks - 1}" if chunks else None)
    return b"c"

def lengthen(number, chunks, length):
    store.update_text("state_document.md", lambda _: "x" * (length + 1))
    return b"x"

def write(done, turn):
    # each is first in its turn: on a slow disk a child may not live for a second write
    while True:
        os.write(done, (remember, save, lengthen)[turn % 3](*known()))
        turn += 1

rng = random.Random(5)
for turn in range(200):
    before = known()
    seen, done = os.pipe()
    child = os.fork()
    if not child:
        os.close(seen)
        write(done, turn)
    os.close(done)
    if turn % 2:  # on a busy machine nobody would live for a first write
        select.select([seen], [], [])
    time.sleep(rng.random() * 0.03)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    told = os.read(seen, 100_000)
    os.close(seen)
    for mark, old, new in zip(b"mcx", before, known(), strict=True):
        assert 0 <= new - old - told.count(mark) <= 1, (chr(mark), old, new, told)
print(*known())
"""

ROUNDS = """
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
for number in range(1, 51):
    bench.messages = talk(number)
    write_file_memories(bench.context(""), store, settings)
    write_vector_memories(bench.context(""), store, settings)
"""


def python(code: str, folder: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", code, str(folder)],
        cwd=HOUSE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def rows(database: Path, statement: str) -> list[str]:
    with closing(sqlite3.connect(database)) as connection:
        return [row[0] for row in connection.execute(statement)]


def test_a_writer_killed_at_200_random_moments_loses_only_the_write_in_flight(tmp_path):
    """Every file can be read after each kill, and holds all that was told as written."""
    child = python(KILLS, tmp_path)
    out, errors = child.communicate(timeout=PATIENCE_S)
    assert (child.returncode, errors) == (0, "")
    memories, chunks, length = map(int, out.split())
    folder = tmp_path / "d"
    assert [entry["hash"] for entry in json.loads((folder / "memories.json").read_text())] == [
        f"m{i}" for i in range(memories)
    ]
    covered = [line["before"] for line in json.loads((folder / "memory_ends.json").read_text())]
    assert covered[:memories] == [f"before {i}" for i in range(memories)]
    assert rows(folder / "vector_memory.db", "SELECT memory_text FROM memories ORDER BY id") == [
        f"s{i}" for i in range(chunks)
    ]
    assert rows(folder / "vector_memory.db", "PRAGMA integrity_check") == ["ok"]
    assert (DiscussionStore(tmp_path, "d").read_text("state_document.md") or "") == "x" * length


def test_two_processes_in_one_discussion_lose_and_double_nothing(tmp_path):
    """Fifty turns each, at the same time: every message is remembered once, in order."""
    children = [python(ROUNDS, tmp_path) for _ in range(2)]
    errors = [child.communicate(timeout=PATIENCE_S)[1] for child in children]
    assert errors == ["", ""]
    folder = tmp_path / "discussions" / "d"
    expected = [hash_of(i) for i in range(50)]
    assert [entry["hash"] for entry in json.loads((folder / "memories.json").read_text())] == expected
    database = folder / "vector_memory.db"
    assert rows(database, "SELECT message_hash FROM vector_memory_hash_log ORDER BY id") == expected
    assert rows(database, "SELECT count(*) FROM memories") == [50]
