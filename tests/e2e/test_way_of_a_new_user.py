"""The way of a new user, from an empty home: install, `--setup` twice, a chat of SillyTavern's KoboldCpp type with each
user, a backup, an update, back again, uninstall. One chat goes on all the way, with its memory.

Nothing is typed that README and docs/install.md, docs/updates.md do not say, or that the program does not print.
"""

from __future__ import annotations

import http.client
import json
import os
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from Middleware.common.constants import VERSION
from tests.api.recorded import RECORDED, Recorded
from tests.e2e.fake_backend import FakeBackend, Reply, sse_objects
from tests.e2e.installed import (
    EXE,
    Program,
    copy_sources,
    environment,
    install,
    make_environment,
    python_of_tests,
    wheel_of,
)
from tests.e2e.terminal import Terminal, choose_backend, name_user
from tests.patience import PATIENCE_S, wait_until

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.skipif(os.name == "nt", reason="Windows has no pseudo terminals"),
]

MEMORY, CLEAN = 2, 1
"""Kinds of users, as `--setup` numbers them."""
FACT = {
    "title": "The cat",
    "summary": "The cat of the user is called Whiskers",
    "entities": ["Whiskers"],
    "key_phrases": ["cat"],
    "topics": ["pets"],
}
ASKS_FOR_FACTS, ASKS_WHAT_TO_LOOK_UP = "You take facts out of", "Choose what to look up"
SILLYTAVERN = [one for one in RECORDED if one.name == "sillytavern-text-koboldcpp"]


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """This version, and the next minor one, of the same tree."""
    source = copy_sources(tmp_path_factory.mktemp("source"))
    constants = source / "Middleware/common/constants.py"
    text = constants.read_text("utf-8")
    made = []
    for version in (VERSION, next_minor(VERSION)):
        constants.write_text(text.replace(f'VERSION = "{VERSION}"', f'VERSION = "{version}"'), "utf-8")
        out = tmp_path_factory.mktemp("dist")
        python_of_tests("build", "--no-isolation", "--wheel", "--outdir", out, source, cwd=out)
        made.append(wheel_of(out))
    return made[0], made[1]


def next_minor(version: str) -> str:
    major, minor, _ = version.split(".")
    return f"{major}.{int(minor) + 1}.0"


@pytest.fixture
def backend() -> Iterator[FakeBackend]:
    made = FakeBackend()
    made.on(ASKS_FOR_FACTS, Reply([json.dumps([FACT])]))
    made.on(ASKS_WHAT_TO_LOOK_UP, Reply(["cat; Whiskers"]))
    yield made
    made.close()


class Home:
    """Somebody's home, with the program installed for them; they work in an empty folder."""

    def __init__(self, folder: Path, wheel: Path) -> None:
        self.home, self.here = folder / "home", folder / "here"
        for made in (self.home, self.here, folder / "environment"):
            made.mkdir()
        self._python = make_environment(folder / "environment")
        self.install(wheel)

    @property
    def script(self) -> Path:
        return self._python.parent / f"headrace{EXE}"

    def install(self, wheel: Path) -> None:
        install(self._python, wheel)
        self.program = Program(self._python.parents[1], self.home)

    def uninstall(self) -> None:
        python_of_tests("pip", "--python", self._python, "uninstall", "--yes", "headrace", cwd=self.here)

    def __call__(self, *words: str | Path) -> str:
        return self.program(*words, cwd=self.here)

    def set_up(self, name: str, kind: int, url: str, last: str = "Start the server with") -> str:
        """A user, made at a terminal; what the program says in the end. `last`: words of its last line."""
        terminal = Terminal(self.script, "--setup", cwd=self.here, **environment(HOME=str(self.home)))
        try:
            choose_backend(terminal, url)
            name_user(terminal, name, kind)
            terminal.answer("Start the server", "no")
            said = terminal.read_until(rf"(?s).*{last}[^\n]*\n")[0]
            assert terminal.process.wait(PATIENCE_S) == 0
            return said
        finally:
            terminal.close()

    @property
    def data(self) -> Path:
        """The folder of the data, wherever this system has it."""
        (configs,) = self.home.rglob("headrace/Public/Configs")
        return configs.parent

    def files(self) -> dict[str, bytes]:
        """All below the data folder but what SQLite keeps beside a database."""
        files = [file for file in self.data.rglob("*") if file.is_file()]
        return {str(file): file.read_bytes() for file in files if not file.name.endswith(("-wal", "-shm"))}


def chat(port: int, address: str, *texts: str) -> str:
    """What SillyTavern sends for one more turn, in its order; the text of the answer."""
    prompt = "[Beg_Sys]You are Mara. [DiscussionId]trip[/DiscussionId]\n"
    prompt += "".join(f"[Beg_User]{text}\n[Beg_Assistant]Mara: I see.\n" for text in texts[:-1])
    prompt += f"[Beg_User]{texts[-1]}\n[Beg_Assistant]Mara:"
    models, count, completion = (send(port, f"{address}{one.path}", one, prompt) for one in SILLYTAVERN)
    assert json.loads(models)["data"] and json.loads(count)["value"]
    return "".join(one["choices"][0]["text"] for one in sse_objects(completion))


def send(port: int, path: str, recorded: Recorded, prompt: str) -> bytes:
    request = recorded.request
    body = {**request["body"], "prompt": prompt} if request["body"] else None
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_S)
    try:
        connection.request(request["method"], path, body and json.dumps(body), dict(request["headers"]))
        answer = connection.getresponse()
        told = answer.read()
        assert answer.status == 200, told
        return told
    finally:
        connection.close()


TURNS = [f"Turn {number}: my cat Whiskers likes fish. " + "word " * 300 for number in range(12)]


def remembers(backend: FakeBackend, port: int, question: str) -> bool:
    """Whether the model is told of the fact when `mira` is asked this."""
    chat(port, "/as/mira", *TURNS, question)
    answering = [call for call in backend.calls(question) if ASKS_WHAT_TO_LOOK_UP not in call.text]
    return any(FACT["summary"] in call.text for call in answering)


def words_of(said: str, line: str) -> list[str]:
    """The arguments of the command that the program says after `line`."""
    found = re.search(rf"{line}[^\n]*?: headrace(.*)", said)
    assert found is not None, said
    return shlex.split(found[1])


def test_one_chat_goes_on_all_the_way(
    wheels: tuple[Path, Path], backend: FakeBackend, tmp_path: Path
) -> None:
    """With its memory: after the backup, in the new version, in the old one again, and from the backup."""
    home = Home(tmp_path, wheels[0])
    assert words_of(home.set_up("mira", MEMORY, backend.url), "Start the server") == []
    of_both = "together with mira"
    *both, _, port_told = words_of(home.set_up("rex", CLEAN, backend.url, of_both), of_both)
    assert port_told == "5000"
    with home.program.serving(*both, cwd=home.here) as port:
        chat(port, "/as/mira", *TURNS)
        wait_until(lambda: "The cat of the user" in home(*both[:2], "--memory", "search", "trip", "cat"))
        assert remembers(backend, port, "first question")
        assert "Hello" in chat(port, "/as/rex", "Hello")
        assert "files" in home("--backup", tmp_path / "before.zip")

    home.install(wheels[1])
    assert home("--version") == f"headrace {next_minor(VERSION)}\n"
    assert " 0 errors, " in home("--validate")
    with home.program.serving(*both, cwd=home.here) as port:
        assert remembers(backend, port, "second question")
    home.install(wheels[0])
    warning = home.program.start_lines(*both, cwd=home.here)[0]
    assert f"version {next_minor(VERSION)} has written to" in warning and "before.zip --replace" in warning
    with home.program.serving(*both, cwd=home.here) as port:
        assert remembers(backend, port, "third question")

    assert "restored" in home("--restore", tmp_path / "before.zip", "--replace")
    with home.program.serving(*both, cwd=home.here) as port:
        assert remembers(backend, port, "fourth question")
    before = home.files()
    home.uninstall()
    assert home.files() == before and any("vector_memory" in name for name in before)
    assert not home.script.exists() and list(home.here.iterdir()) == []
