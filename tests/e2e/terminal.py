"""A pseudo terminal: what a command prints there, and what somebody types."""

from __future__ import annotations

import errno
import os
import re
import signal
import subprocess
from pathlib import Path

from tests.e2e.conftest import HOUSE
from tests.patience import PATIENCE_S, growing_limits


def _heed_ctrl_c() -> None:
    """A shell in whose background the tests run may have told them to ignore it."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


class Terminal:
    """A command on a pseudo terminal of its own. `more`: variables of its environment."""

    def __init__(self, *words: str | Path, cwd: Path = HOUSE, **more: str) -> None:
        self._ours, theirs = os.openpty()
        self.said = ""
        self.process = subprocess.Popen(
            list(map(str, words)),
            cwd=cwd,
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
            preexec_fn=_heed_ctrl_c,
            env={**os.environ, "PYTHONUNBUFFERED": "1", "TERM": "dumb", **more},
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
        """Ctrl-C; the exit status. Once more where nothing came of it: `input` misses a signal that comes
        between its prompt and its first look at the terminal, and who sits there presses the keys again.
        """
        for limit_s in growing_limits():
            self.process.send_signal(signal.SIGINT)
            try:
                return self.process.wait(limit_s)
            except subprocess.TimeoutExpired:
                continue
        raise AssertionError(f"it goes on: {self.said}")

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait(PATIENCE_S)
        os.close(self._ours)


def choose_backend(terminal: Terminal, url: str) -> None:
    """Answers of `--setup`. Whatever else answers on this machine: another address."""
    terminal.answer("Other machines", "none")
    number = terminal.read_until(r"  (\d+)  another address")[1]
    terminal.answer("Model server", number)
    terminal.answer("Address of the server", url)


def name_user(terminal: Terminal, name: str, kind: int) -> None:
    """The same, for a backend that has just been chosen: its model `fake` answers."""
    terminal.answer("API type", "")
    terminal.answer("Model", "fake")
    terminal.read_until(r"ok: http://127\.0\.0\.1:\d+: reachable")
    terminal.answer("Name of the new user", name)
    terminal.answer("Kind of user", str(kind))
