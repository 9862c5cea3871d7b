"""The installed program as tests use it: built from a copy of the tree, put into an environment of its own, started.

What it needs is taken from the environment of the tests, so that no index is asked.
"""

from __future__ import annotations

import hashlib
import http.client
import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import venv
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.patience import PATIENCE_S

HOUSE = Path(__file__).resolve().parents[2]
METADATA = (
    "setup.cfg",
    "pyproject.toml",
    "MANIFEST.in",
    "README.md",
    "LICENSE",
    "CHANGELOG.md",
    "SECURITY.md",
)
SOURCES = (*METADATA, "server.py", "deploy/wheel_contents.py", "Middleware")
EXAMPLES = ("Public/Configs", "Public/workflow_python_scripts")
PAGES = "docs"
SCRIPTS, EXE = ("Scripts", ".exe") if os.name == "nt" else ("bin", "")
LIMIT_S = PATIENCE_S


def run(*words: str | Path, cwd: Path, **more: str) -> str:
    """What a command prints. Raises CalledProcessError, its text shown, when it fails."""
    done = subprocess.run(
        list(map(str, words)),
        cwd=cwd,
        env=environment(**more),
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def environment(**more: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "XDG_DATA_HOME")}
    return {**kept, "PIP_NO_INDEX": "1", "PYTHONUNBUFFERED": "1", "PYTHONIOENCODING": "utf-8", **more}


def python_of_tests(*words: str | Path, cwd: Path) -> str:
    return run(sys.executable, "-m", *words, cwd=cwd)


def copy_sources(folder: Path) -> Path:
    """What a wheel is made of, and nothing else, in a folder of its own."""
    for name in (*SOURCES, *EXAMPLES, PAGES):
        source, target = HOUSE / name, folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copyfile(source, target)
    return folder


def wheel_of(folder: Path) -> Path:
    (wheel,) = folder.glob("*.whl")
    return wheel


class Program:
    """`headrace` in an environment that holds the wheel alone. `home`: that of its user."""

    def __init__(self, folder: Path, home: Path) -> None:
        self.folder, self.home = folder, home
        self.places = [Path(p) for p in (folder / "Lib", folder / "lib") if p.is_dir()]
        self._script = folder / SCRIPTS / f"headrace{EXE}"

    def __call__(self, *words: str | Path, cwd: Path) -> str:
        return run(self._script, *words, cwd=cwd, HOME=str(self.home))

    def files(self) -> dict[str, str]:
        """Hashes of all that lies in the environment."""
        files = sorted(file for place in self.places for file in place.rglob("*") if file.is_file())
        return {str(file): hashlib.sha256(file.read_bytes()).hexdigest() for file in files}

    def answer(self, *words: str | Path, cwd: Path) -> str:
        """Start it, ask the demo model for a stream, stop it; the text of the answer."""
        with self.serving(*words, cwd=cwd) as port:
            return _streamed(port)

    def ready_line(self, *words: str | Path, cwd: Path) -> str:
        """Start it and stop it; the line that says where it listens."""
        return self.start_lines(*words, cwd=cwd)[-1]

    def start_lines(self, *words: str | Path, cwd: Path) -> list[str]:
        """The same with the lines before it."""
        with self._running(*words, cwd=cwd) as process:
            return _start_lines(process)

    @contextmanager
    def serving(self, *words: str | Path, cwd: Path) -> Iterator[int]:
        """Its port, as long as it serves."""
        with self._running(*words, cwd=cwd) as process:
            found = re.match(r"listening on http://127\.0\.0\.1:(\d+) ", _start_lines(process)[-1])
            assert found is not None
            yield int(found[1])

    @contextmanager
    def _running(self, *words: str | Path, cwd: Path) -> Iterator[subprocess.Popen[str]]:
        process = subprocess.Popen(
            list(map(str, (self._script, "--port", "0", *words))),
            cwd=cwd,
            env=environment(HOME=str(self.home)),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            encoding="utf-8",
        )
        try:
            yield process
        finally:
            process.terminate()
            process.communicate(timeout=LIMIT_S)


def _start_lines(process: subprocess.Popen[str]) -> list[str]:
    """Up to the one that says where it listens, once it is there."""
    assert process.stdout is not None
    said = []
    for line in process.stdout:
        said.append(line)
        if line.startswith("listening on "):
            return said
    raise AssertionError(f"it ended: {''.join(said)}")


def _streamed(port: int) -> str:
    """The text of a stream that came in pieces and has its end mark."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=LIMIT_S)
    body = {"model": "demo", "stream": True, "messages": [{"role": "user", "content": "Hello!"}]}
    try:
        connection.request(
            "POST", "/v1/chat/completions", json.dumps(body), {"Content-Type": "application/json"}
        )
        answer = connection.getresponse()
        events = [
            line[6:] for line in answer.read().decode("utf-8").splitlines() if line.startswith("data: ")
        ]
    finally:
        connection.close()
    assert answer.status == 200 and events[-1] == "[DONE]"
    deltas = [json.loads(event)["choices"][0]["delta"].get("content") or "" for event in events[:-1]]
    pieces = [delta for delta in deltas if delta]
    assert len(pieces) > 1
    return "".join(pieces)


def make_environment(folder: Path) -> Path:
    """An environment that has what the program needs, and no program yet; its Python."""
    venv.EnvBuilder(with_pip=False).create(folder)
    python = folder / SCRIPTS / f"python{EXE}"
    place = run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))", cwd=folder).strip()
    needed = dict.fromkeys(sysconfig.get_path(name) for name in ("purelib", "platlib"))
    Path(place, "of_the_tests.pth").write_text("\n".join(needed), "utf-8")
    return python


def install(python: Path, wheel: Path) -> None:
    """Put this wheel into the environment of `python`, in place of one that is there."""
    words = ("pip", "--python", python, "install", "--quiet", "--no-deps", "--force-reinstall", wheel)
    python_of_tests(*words, cwd=python.parent)
