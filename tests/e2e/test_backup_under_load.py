"""A backup while chats write memories, a restore elsewhere, and every chat goes on. Source: spec operate.md 7, row 3."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import subprocess
import sys
import threading
from contextlib import closing

import pytest

from Middleware.utilities.hashing_utils import message_hash
from tests.e2e.conftest import HOUSE, Gunicorn, Server, write, write_tree
from tests.e2e.fake_backend import Reply
from tests.patience import PATIENCE_S

pytestmark = pytest.mark.e2e

ANSWER = {"type": "StaticResponse", "content": "yes", "returnToUser": True}
SETTINGS = {
    "endpointName": "Model",
    "prompt": "note-of-backup [TextChunk]",
    "chunkEstimatedTokenSize": 40,
    "maxMessagesBetweenChunks": 4,
    "lookbackStartTurn": 3,
}
FACTS = {"type": "Standard", "endpointName": "Model", "prompt": "note-of-backup {agent1Input}"}
OF_VECTORS = {
    "useVectorForQualityMemory": True,
    "vectorMemoryWorkflowName": "Facts",
    "vectorMemoryChunkEstimatedTokenSize": 40,
    "vectorMemoryMaxMessagesBetweenChunks": 4,
    "lookbackStartTurn": 3,
}
FILES, VECTORS = ("file-a", "file-b"), ("vector-a", "vector-b")
USERS = {
    "ann": {
        "user": {"discussionIdMemoryFileWorkflowSettings": "Memory"},
        "workflows": {"Chat": [ANSWER, {"type": "QualityMemory"}]},
    },
    "vic": {
        "user": {"discussionIdMemoryFileWorkflowSettings": "Memory"},
        "workflows": {"Chat": [ANSWER, {"type": "QualityMemory"}], "Facts": [FACTS]},
    },
}
TURNS = 12


class TwoWorkers(Gunicorn):
    workers = 2


@pytest.fixture
def server(backend, tmp_path):
    """Two processes; `ann` writes file memories, `vic` vector memories."""
    note = json.dumps([{"title": "t", "summary": "a note", "entities": [], "key_phrases": []}])
    backend.on("note-of-backup", Reply((note,), gap_s=0.01))
    public = tmp_path / "Public"
    write_tree(public, USERS, backend.url)
    for folder in ("ApiTypes", "PromptTemplates"):
        link = public / "Configs" / folder
        real = link.resolve()
        link.unlink()
        shutil.copytree(real, link)
    write(public / "Configs" / "Workflows" / "ann" / "Memory.json", SETTINGS)
    write(public / "Configs" / "Workflows" / "vic" / "Memory.json", OF_VECTORS)
    started = TwoWorkers(public, USERS, ("--concurrency", "8"))
    yield started
    started.stop()


def said(chat, count):
    texts = [("continue", "part")[i % 2] + f" {i}" for i in range(count)]
    tag = [{"role": "system", "content": f"[DiscussionId]{chat}[/DiscussionId]"}]
    return tag + [{"role": ("user", "assistant")[i % 2], "content": text} for i, text in enumerate(texts)]


def ask(server, chat, turn):
    user = "ann" if chat in FILES else "vic"
    return server.post("/v1/chat/completions", {"model": user, "messages": said(chat, 2 * turn + 3)})[0]


def run(*words):
    """A command of the program."""
    done = subprocess.run(
        [sys.executable, "server.py", *map(str, words)],
        cwd=HOUSE,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )
    return done.returncode, done.stdout + done.stderr


def covered(public, chat):
    """Hashes of the messages that the memories of a chat cover, in order; each once."""
    folder = public / "DiscussionIds" / chat
    if chat in FILES:
        file = folder / "memory_ends.json"
        lines = json.loads(file.read_text()) if file.exists() else []
        return [each for line in lines for each in line["messages"]]
    if not (folder / "vector_memory.db").exists():
        return []
    with closing(sqlite3.connect(folder / "vector_memory.db")) as database:
        assert database.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        logged = [row[0] for row in database.execute("SELECT message_hash FROM vector_memory_hash_log")]
        rows = database.execute("SELECT count(*) FROM memories").fetchone()[0]
        indexed = database.execute("SELECT count(*) FROM memories_fts").fetchone()[0]
    assert rows == indexed
    return logged


def test_a_backup_under_load_goes_on_elsewhere(server, tmp_path):
    """Each backup holds each chat as of one moment: whatever the live one had then, and nothing half."""
    failed, stop = [], threading.Event()

    def chat_on(chat):
        for turn in range(TURNS):
            failed.extend([(chat, turn)] if ask(server, chat, turn) != 200 else [])

    def back_up():
        number = 0
        while not stop.is_set() or number == 0:
            number += 1
            status, text = run("--PublicDirectory", server.public, "--backup", tmp_path / f"{number}.zip")
            failed.extend([text] if status else [])

    clients = [threading.Thread(target=chat_on, args=(chat,)) for chat in (*FILES, *VECTORS)]
    backups = threading.Thread(target=back_up)
    for each in (*clients, backups):
        each.start()
    for each in clients:
        each.join()
    stop.set()
    backups.join()
    assert failed == []
    archives = sorted(tmp_path.glob("*.zip"), key=lambda path: int(path.stem))
    server.stop()
    live = {chat: covered(server.public, chat) for chat in FILES}
    for archive in archives:
        check_restored(archive, tmp_path / f"restored-{archive.stem}" / "Public", live)
    go_on(archives[-1], tmp_path / "last" / "Public")


def check_restored(archive, public, live):
    """Valid, sound, and a beginning of what the live chats have by now."""
    assert run("--PublicDirectory", public, "--restore", archive)[0] == 0
    status, text = run("--PublicDirectory", public, "--validate")
    assert status == 0, text
    for chat in FILES:
        assert covered(public, chat) == live[chat][: len(covered(public, chat))]
    for chat in VECTORS:
        hashes = covered(public, chat)
        assert len(hashes) == len(set(hashes))


def go_on(archive, public):
    """Every chat answers on the restored tree, and nothing is remembered twice."""
    assert run("--PublicDirectory", public, "--restore", archive)[0] == 0
    restored = Server(public, USERS, ())
    try:
        assert [ask(restored, chat, TURNS) for chat in (*FILES, *VECTORS)] == [200] * 4
    finally:
        restored.stop()
    for chat in FILES:
        hashes = [message_hash(message) for message in said(chat, 2 * TURNS + 3)[1:]]
        assert covered(public, chat) == hashes[: len(covered(public, chat))]
        assert covered(public, chat)
    for chat in VECTORS:
        assert covered(public, chat)


def test_a_server_keeps_a_restore_away(launch, tmp_path):
    """`--replace` needs the folders alone; the server goes on."""
    public = launch({"ann": {"workflows": {"Chat": [ANSWER]}}}).public
    archive = tmp_path / "a.zip"
    assert run("--PublicDirectory", public, "--backup", archive)[0] == 0
    status, text = run("--PublicDirectory", public, "--restore", archive, "--replace")
    assert (status, "a server or another command uses these folders" in text) == (1, True)
