"""`--setup` as somebody at a terminal meets it: a real process, a pseudo terminal, a model server, an answer."""

from __future__ import annotations

import errno
import http.client
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.conftest import HOUSE
from tests.e2e.fake_backend import FakeBackend, Reply
from tests.patience import PATIENCE_S

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.skipif(os.name == "nt", reason="Windows has no pseudo terminals"),
]


def _heed_ctrl_c() -> None:
    """A shell in whose background the tests run may have told them to ignore it."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


class Terminal:
    """`python server.py --setup` on a pseudo terminal of its own."""

    def __init__(self, public: Path, *words: str) -> None:
        self._ours, theirs = os.openpty()
        self.said = ""
        self.process = subprocess.Popen(
            [sys.executable, "server.py", "--PublicDirectory", str(public), "--setup", *words],
            cwd=HOUSE,
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
            preexec_fn=_heed_ctrl_c,
            env={**os.environ, "PYTHONUNBUFFERED": "1", "TERM": "dumb"},
        )
        os.close(theirs)

    def read_until(self, pattern: str) -> re.Match[str]:
        """What came since the last call, as far as the pattern, which it must hold."""
        while not (found := re.search(pattern, self.said)):
            try:
                piece = os.read(self._ours, 65536)
            except OSError as error:
                assert error.errno == errno.EIO, error
                piece = b""
            assert piece, f"it ended: {self.said}"
            self.said += piece.decode("utf-8", "replace").replace("\r\n", "\n")
        self.said = self.said[found.end() :]
        return found

    def type(self, line: str) -> None:
        os.write(self._ours, f"{line}\n".encode())

    def answer(self, question: str, line: str) -> None:
        self.read_until(rf"{question}.* \[[^\n]*\]: ")
        self.type(line)

    def interrupt(self) -> int:
        """Ctrl-C; the exit status."""
        self.process.send_signal(signal.SIGINT)
        return self.process.wait(PATIENCE_S)

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait(PATIENCE_S)
        os.close(self._ours)


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[Terminal]:
    made = Terminal(tmp_path / "Public", "--port", "0")
    yield made
    made.close()


@pytest.fixture
def backend() -> Iterator[FakeBackend]:
    made = FakeBackend()
    yield made
    made.close()


def choose_backend(terminal: Terminal, url: str) -> None:
    """Whatever else answers on this machine: another address."""
    terminal.answer("Other machines", "")
    number = terminal.read_until(r"  (\d+)  another address")[1]
    terminal.answer("Model server", number)
    terminal.answer("Address of the server", url)


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
    terminal.answer("API type", "")
    terminal.answer("Model", "fake")
    terminal.read_until(r"ok: http://127\.0\.0\.1:\d+: reachable")
    terminal.answer("Name of the new user", "mira")
    terminal.answer("Kind of user", str(kind))
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
    """Plain chat, a memory, a router. (The agent is the example user `tool-agent`, which has tests of its own.)"""
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
