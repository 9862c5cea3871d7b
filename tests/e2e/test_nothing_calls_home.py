"""Nothing calls home: no address of another machine is in the program, but for those that somebody asks for, and
a server that answers, is looked at and is checked connects to nobody. Source: spec operate.md 2.
"""

from __future__ import annotations

import ast
import ipaddress
import json
import os
import re
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from tests.e2e.conftest import HOUSE
from tests.patience import PATIENCE_S, wait_until
from tests.shipped import copy_configs

pytestmark = pytest.mark.e2e

PROGRAM = [*sorted((HOUSE / "Middleware").rglob("*.py")), HOUSE / "server.py"]
ADDRESS = re.compile(r"https?://([A-Za-z0-9][A-Za-z0-9.-]*)")
OWN = re.compile(r"localhost|127\.[0-9.]+|host\.docker\.internal|[a-z]+|(.*\.)?example(\.com)?")
"""This machine, what a manual says in the place of an address, and names without a dot."""
ASKED_FOR = {
    "api.openai.com": "--setup proposes it as the address of a service, and somebody says yes",
    "opentelemetry.io": "names the language of a trace; nobody fetches it",
    "json-schema.org": "names the language of a schema; nobody fetches it",
}
"""Host in the texts of the program -> why it is there."""


def texts(path: Path) -> Iterator[str]:
    """The texts of a file that are no docstrings."""
    tree = ast.parse(path.read_text("utf-8"))
    said = {
        id(node.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in said:
            yield node.value


def test_the_program_knows_no_address_to_call() -> None:
    """Each host in its texts is known, with its reason."""
    hosts = {
        host: path.relative_to(HOUSE).as_posix()
        for path in PROGRAM
        for text in texts(path)
        for host in ADDRESS.findall(text)
        if not OWN.fullmatch(host)
    }
    assert set(hosts) == set(ASKED_FOR), hosts


def test_one_command_asks_the_package_index() -> None:
    """And nothing else starts pip or names an index."""
    asks = [path.name for path in PROGRAM if any(text == "pip" or "pypi" in text for text in texts(path))]
    assert asks == ["update_check.py"]


WATCH = """
import json, runpy, sys
log, script, *words = sys.argv[1:]
def hook(event, args):
    if event in ("socket.connect", "socket.sendto", "socket.getaddrinfo", "socket.gethostbyname"):
        with open(log, "a") as file:
            place = args[1] if event in ("socket.connect", "socket.sendto") else args[0]
            file.write(json.dumps(place if isinstance(place, str) else list(place or [""])[0], default=str) + "\\n")
sys.addaudithook(hook)
sys.argv = [script, *words]
runpy.run_path(script, run_name="__main__")
"""
"""Runs a script, and writes down whom it connects to or asks the name of."""


def is_here(place: str) -> bool:
    """Whether an address is this machine's, or in a container that of the machine around it."""
    if place in ("", "localhost", "host.docker.internal", socket.gethostname()) or place.startswith(
        ("/", "\0")
    ):
        return True
    try:
        return ipaddress.ip_address(place.partition("%")[0]).is_loopback or place in ("0.0.0.0", "::")
    except ValueError:
        return False


class Watched:
    """A Public folder of examples, on which commands and servers are watched."""

    def __init__(self, folder: Path) -> None:
        self.public, self.log = folder / "Public", folder / "places.txt"
        copy_configs(self.public / "Configs")
        self.log.touch()

    def words(self, *words: str) -> list[str]:
        script = str(HOUSE / "server.py")
        return [
            sys.executable,
            "-c",
            WATCH,
            str(self.log),
            script,
            "--PublicDirectory",
            str(self.public),
            *words,
        ]

    def strangers(self) -> list[str]:
        """Whom it connected to, or asked for, that isn't this machine."""
        return [place for line in self.log.read_text().splitlines() if not is_here(place := json.loads(line))]


@pytest.fixture
def watched(tmp_path: Path) -> Watched:
    return Watched(tmp_path)


def run(words: Sequence[str]) -> int:
    done = subprocess.run(words, capture_output=True, timeout=PATIENCE_S, stdin=subprocess.DEVNULL, cwd=HOUSE)
    return done.returncode


@pytest.mark.parametrize(
    "words",
    [
        ("--version",),
        ("--validate",),
        ("--doctor", "--User", "demo"),
        ("--dry-run", "chat", "--User", "demo"),
        ("--schemas", "{folder}/schemas"),
        ("--backup", "{folder}/b.zip"),
        ("--pack", "router", "{folder}/p.zip"),
        ("--setup", "--yes", "--User", "mine"),
    ],
    ids=lambda words: words[0],
)
def test_a_command_connects_to_nobody(watched: Watched, tmp_path: Path, words: tuple[str, ...]) -> None:
    """But to this machine's own servers."""
    run(watched.words(*(word.format(folder=tmp_path) for word in words)))
    assert watched.strangers() == []


def test_the_watch_sees_who_is_called(watched: Watched, tmp_path: Path) -> None:
    """Or the other tests would show nothing: an endpoint with a name is asked for."""
    endpoint = watched.public / "Configs/Endpoints/my-model/Main.json"
    fields = {
        "endpoint": "http://model.invalid",
        "apiTypeConfigFileName": "Open-AI-API",
        "modelNameToSendToAPI": "m",
    }
    endpoint.write_text(json.dumps(fields), encoding="utf-8")
    run(watched.words("--doctor", "--User", "chat"))
    assert "model.invalid" in watched.strangers()


def test_a_server_connects_to_nobody(watched: Watched) -> None:
    """While it starts, answers, and is looked at."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = int(probe.getsockname()[1])
    server = subprocess.Popen(
        watched.words("--User", "demo", "--port", str(port)),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        cwd=HOUSE,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )
    try:
        wait_until(lambda: answers(port, "/health"), server)
        body = json.dumps({"model": "demo", "messages": [{"role": "user", "content": "Hello!"}]}).encode()
        request = urllib.request.Request(
            f"http://127.0.0.1:{port}/v1/chat/completions", body, {"Content-Type": "application/json"}
        )
        with urllib.request.urlopen(request, timeout=PATIENCE_S) as response:
            assert "Hello!" in response.read().decode()
        for path in ("/v1/models", "/console/", "/metrics"):
            answers(port, path)
    finally:
        server.terminate()
        server.wait(timeout=PATIENCE_S)
    assert watched.strangers() == []


def answers(port: int, path: str) -> bool:
    try:
        urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=PATIENCE_S).close()
    except OSError:
        return False
    return True
