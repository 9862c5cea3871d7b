"""The history of real servers: what clients did is what `--usage` adds up, and no answer waits for it."""

from __future__ import annotations

import csv
import io
import json
import os
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import pytest

from Middleware.services.history import history_file
from tests.e2e.conftest import NODE, Gunicorn, Server, write_tree
from tests.e2e.fake_backend import Reply
from tests.patience import PATIENCE_S, wait_until

pytestmark = pytest.mark.e2e

HOUSE = Path(__file__).resolve().parents[2]
PRICED = {"Model": {"pricePerMillionTokens": {"input": 1, "output": 2, "currency": "EUR"}}}
USERS = {
    "ann": {"endpoints": PRICED},
    "bob": {"user": {"redactLogOutput": True}},
    "eve": {"endpoints": PRICED, "workflows": {"Chat": [{**NODE, "readAhead": "end"}]}},
}


class TwoWorkers(Gunicorn):
    workers = 2


@pytest.fixture
def start(backend, tmp_path):
    """`start(kind)`: a server of this kind that keeps a history in `tmp_path / "history"`."""
    write_tree(tmp_path / "Public", USERS, backend.url)
    started = []

    def run(kind=Server, *arguments):
        words = ("--history", str(tmp_path / "history"), "--concurrency", "0", *arguments)
        started.append(kind(tmp_path / "Public", USERS, words))
        return started[-1]

    yield run
    for server in started:
        server.stop()


def asked(server, user, **more):
    body = {"model": user, "messages": [{"role": "user", "content": "hi"}], **more}
    status, answer = server.post("/v1/chat/completions", body)
    assert status == 200, answer
    return answer


def usage(folder, *arguments):
    """The sheet of `--usage`, by user."""
    told = subprocess.run(
        [sys.executable, "server.py", "--usage", "--history", str(folder), "--csv", *arguments],
        cwd=HOUSE,
        capture_output=True,
        check=True,
        text=True,
        timeout=PATIENCE_S,
    )
    return {row["user"]: row for row in csv.DictReader(io.StringIO(told.stdout))}


def until(claim):
    """True when it comes true in time: rows are written behind the answers."""
    end = time.monotonic() + PATIENCE_S
    while not claim() and time.monotonic() < end:
        time.sleep(0.02)
    return claim()


def rows_in(folder):
    """How many there are; None: the file is not there yet, or somebody writes."""
    try:
        with closing(sqlite3.connect(f"file:{history_file(folder)}?mode=ro", uri=True)) as sql:
            return sql.execute("SELECT count(*) FROM runs").fetchone()[0]
    except sqlite3.Error:
        return None


@pytest.mark.parametrize("kind", [Server, TwoWorkers])
@pytest.mark.parametrize("console", ["off", "view"])
def test_what_clients_did(start, tmp_path, kind, console):
    """Whole and streamed answers, in every process; a private user has no name. A stop writes what waits."""
    server, folder = start(kind, "--console", console), tmp_path / "history"
    told = [json.loads(asked(server, "ann"))["usage"] for _ in range(3)]
    asked(server, "ann", stream=True)
    asked(server, "bob")
    assert until(lambda: rows_in(folder) == 5)
    asked(server, "bob")
    server.stop()
    sheet = usage(folder)
    assert {name: row["runs"] for name, row in sheet.items()} == {"ann": "4", "private": "2"}
    [numbers] = {(one["prompt_tokens"], one["completion_tokens"]) for one in told}
    assert int(sheet["ann"]["prompt"]) >= 3 * numbers[0]
    assert float(sheet["ann"]["cost_EUR"]) >= 3 * (numbers[0] + 2 * numbers[1]) / 1e6
    assert sheet["private"]["cost_EUR"] == ""
    if os.name != "nt":
        assert history_file(folder).stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("kind", [Server, Gunicorn])
def test_a_stop_while_the_next_prompt_is_read(start, backend, tmp_path, kind):
    """The row waits for what is read ahead, not longer than the server lives, and has its price."""
    backend.on("ends here", Reply(hangs=True))
    backend.on("tell me", Reply(("It ends here",)))
    server, folder = start(kind), tmp_path / "history"
    told = json.loads(asked(server, "eve", messages=[{"role": "user", "content": "tell me"}]))["usage"]
    wait_until(lambda: backend.calls("ends here"))
    server.stop()
    [row] = usage(folder).values()
    assert (row["user"], row["runs"], int(row["prompt"])) == ("eve", "1", told["prompt_tokens"])
    assert float(row["cost_EUR"]) > (told["prompt_tokens"] + 2 * told["completion_tokens"]) / 1e6


def test_a_history_that_is_locked(start, tmp_path):
    """Answers come as ever; the rows come when they can."""
    server, folder = start(), tmp_path / "history"
    asked(server, "ann")
    assert until(lambda: rows_in(folder) == 1)
    with closing(sqlite3.connect(history_file(folder), isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        for _ in range(3):
            asked(server, "ann")
        assert server.wait_for_log("the history cannot be written")
        other.execute("ROLLBACK")
    assert until(lambda: rows_in(folder) == 4)
    assert server.wait_for_log("the history is written again")


def test_a_folder_that_cannot_be_used(backend, tmp_path):
    """The server does not start, and says why in one sentence."""
    write_tree(tmp_path / "Public", USERS, backend.url)
    (tmp_path / "taken").write_text("a file")
    command = [sys.executable, "server.py", "--PublicDirectory", str(tmp_path / "Public"), "--User", "ann"]
    told = subprocess.run(
        [*command, "--port", "0", "--history", str(tmp_path / "taken")],
        cwd=HOUSE,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )
    assert told.returncode == 1
    assert f"--history: {tmp_path / 'taken'} cannot be used" in told.stderr
