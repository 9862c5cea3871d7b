"""`--setup` as somebody at a terminal meets it: a real process, a pseudo terminal, a model server, an answer."""

from __future__ import annotations

import http.client
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.fake_backend import FakeBackend, Reply
from tests.e2e.terminal import Terminal, choose_backend, name_user
from tests.patience import PATIENCE_S

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.skipif(os.name == "nt", reason="Windows has no pseudo terminals"),
]


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[Terminal]:
    words = ("--PublicDirectory", tmp_path / "Public", "--setup", "--port", "0")
    made = Terminal(sys.executable, "server.py", *words)
    yield made
    made.close()


@pytest.fixture
def backend() -> Iterator[FakeBackend]:
    made = FakeBackend()
    yield made
    made.close()


def chat(port: int, model: str, text: str) -> str:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_S)
    try:
        body = {"model": model, "messages": [{"role": "user", "content": text}]}
        connection.request(
            "POST", "/v1/chat/completions", json.dumps(body), {"Content-Type": "application/json"}
        )
        answer = json.loads(connection.getresponse().read())
    finally:
        connection.close()
    content: str = answer["choices"][0]["message"]["content"]
    return content


def make_user(terminal: Terminal, url: str, kind: int) -> int:
    """Type to the end; the port of the server that starts for `mira`."""
    choose_backend(terminal, url)
    name_user(terminal, "mira", kind)
    terminal.answer("Start the server", "yes")
    return int(terminal.read_until(r"listening on http://127\.0\.0\.1:(\d+) users=mira ")[1])


def test_a_user_is_made_and_answers(terminal: Terminal, backend: FakeBackend) -> None:
    """The server starts for the new user, and the model server gets what clients say."""
    port = make_user(terminal, backend.url, 5)
    backend.on("Write a draft", Reply(("Evening",)))
    backend.on("Write the final answer", Reply(("A fine", " evening")))
    assert chat(port, "mira", "Good evening") == "A fine evening"
    (draft,) = backend.calls("Write a draft")
    assert (draft.body["model"], draft.dialect) == ("fake", "openai")
    assert terminal.interrupt() == 0


@pytest.mark.parametrize("kind", range(1, 4))
def test_other_kinds_answer(terminal: Terminal, backend: FakeBackend, kind: int) -> None:
    """Plain chat, a memory, a router. (The agent is the example user `agent`, which has tests of its own.)"""
    port = make_user(terminal, backend.url, kind)
    assert chat(port, "mira", "Good evening").startswith("Good evening")
    assert backend.calls("Good evening")


@pytest.mark.parametrize("questions", range(1, 4))
def test_ctrl_c_leaves_no_file(
    terminal: Terminal, backend: FakeBackend, tmp_path: Path, questions: int
) -> None:
    """The signal of a terminal, while a question waits."""
    answers = [("Other machines", ""), ("Model server", "1")][: questions - 1]
    for question, line in answers:
        terminal.answer(question, line)
    terminal.read_until(r" \[[^\n]*\]: ")
    assert terminal.interrupt() == 130
    assert list(tmp_path.iterdir()) == []
