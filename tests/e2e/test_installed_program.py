"""The wheel is a program: built, installed into an empty environment, started; it never writes where it lies.

What it needs is taken from the environment of the tests, so that no index is asked: that the list of it is
whole is shown by `tests/test_packages.py`.
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
import tarfile
import venv
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.patience import PATIENCE_S

pytestmark = pytest.mark.e2e

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


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What a wheel is made of, in a folder of its own; the data of a server that ran there; an old build."""
    folder = tmp_path_factory.mktemp("clone")
    for name in (*SOURCES, *EXAMPLES, PAGES):
        source, target = HOUSE / name, folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copyfile(source, target)
    for name in (
        "logs/wilmerai.log",
        "DiscussionIds/d/timestamps.json",
        "SqlLiteDBs/WilmerDb.demo.sqlite",
        "Configs/Endpoints/my-model/Main.json",
    ):
        (folder / "Public" / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / "Public" / name).write_text("mine")
    for name in (
        "Middleware/llmapis/handlers/impl/old.py",
        "Middleware/shipped/Public/Configs/Users/old.json",
    ):
        (folder / "build/lib" / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / "build/lib" / name).write_text("left by a former build")
    return folder


@pytest.fixture(scope="module")
def built(clone: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A source archive and the wheel that was made of it."""
    out = tmp_path_factory.mktemp("dist")
    python_of_tests("build", "--no-isolation", "--outdir", out, clone, cwd=out)
    return out


def wheel_of(folder: Path) -> Path:
    (wheel,) = folder.glob("*.whl")
    return wheel


def carried(wheel: Path) -> set[str]:
    with zipfile.ZipFile(wheel) as archive:
        return {name for name in archive.namelist() if ".dist-info/" not in name}


class TestWheel:
    def test_it_carries_the_code_the_examples_and_the_pages(self, clone: Path, built: Path) -> None:
        """Each file (the console's page and templates are code, types for developers are not), and nothing of a server
        or of a user: his endpoints have his keys."""
        own = {
            clone / "Public/Configs/Endpoints/my-model" / name for name in ("Main.json", "Embeddings.json")
        }
        files = [f for f in (clone / "Middleware").rglob("*") if f.is_file() and not f.name.endswith(".d.ts")]
        code = {f.relative_to(clone).as_posix() for f in files}
        examples = {f for part in EXAMPLES for f in (clone / part).rglob("*") if f.is_file() and f not in own}
        pages = {f for f in (clone / PAGES).rglob("*.md") if "spec" not in f.parts}
        shipped = {f"Middleware/shipped/{f.relative_to(clone).as_posix()}" for f in examples | pages}
        assert carried(wheel_of(built)) == code | shipped | {"server.py"}

    def test_it_is_the_same_from_the_clone_and_from_the_archive(
        self, clone: Path, built: Path, tmp_path: Path
    ) -> None:
        """Whatever a former build has left in the clone: a plug-in that is gone would be loaded again."""
        python_of_tests("build", "--no-isolation", "--wheel", "--outdir", tmp_path, clone, cwd=tmp_path)
        assert carried(wheel_of(tmp_path)) == carried(wheel_of(built))

    def test_the_archive_holds_no_data_of_the_server(self, built: Path) -> None:
        (archive,) = built.glob("*.tar.gz")
        with tarfile.open(archive) as opened:
            parts = {part for name in opened.getnames() for part in Path(name).parts}
        assert (
            parts.isdisjoint({"logs", "DiscussionIds", "SqlLiteDBs"}) and "workflow_python_scripts" in parts
        )

    def test_the_clone_holds_no_second_copy(self, clone: Path, built: Path) -> None:
        """It is made in the build folder."""
        assert not (clone / "Middleware" / "shipped").exists()


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
        with self._running(*words, cwd=cwd) as process:
            return _ready_line(process)

    @contextmanager
    def serving(self, *words: str | Path, cwd: Path) -> Iterator[int]:
        """Its port, as long as it serves."""
        with self._running(*words, cwd=cwd) as process:
            found = re.match(r"listening on http://127\.0\.0\.1:(\d+) ", _ready_line(process))
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


def _ready_line(process: subprocess.Popen[str]) -> str:
    """Once it is there."""
    assert process.stdout is not None
    said = ""
    for line in process.stdout:
        if line.startswith("listening on "):
            return line
        said += line
    raise AssertionError(f"it ended: {said}")


def _asked(port: int, path: str) -> tuple[int, str]:
    """Status and text of a page, or of what it asks for."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=LIMIT_S)
    try:
        connection.request("GET", path, headers={"X-Headrace-Console": "1"})
        answer = connection.getresponse()
        return answer.status, answer.read().decode("utf-8")
    finally:
        connection.close()


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


@pytest.fixture(scope="module")
def program(built: Path, tmp_path_factory: pytest.TempPathFactory) -> Program:
    folder = tmp_path_factory.mktemp("environment")
    venv.EnvBuilder(with_pip=False).create(folder)
    python = folder / SCRIPTS / f"python{EXE}"
    python_of_tests("pip", "--python", python, "install", "--quiet", "--no-deps", wheel_of(built), cwd=folder)
    place = run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))", cwd=folder).strip()
    needed = dict.fromkeys(sysconfig.get_path(name) for name in ("purelib", "platlib"))
    Path(place, "of_the_tests.pth").write_text("\n".join(needed), "utf-8")
    return Program(folder, tmp_path_factory.mktemp("home"))


@pytest.fixture(autouse=True)
def unchanged(request: pytest.FixtureRequest) -> Iterator[None]:
    """Whatever a test of the program does, its files are those that were installed."""
    if "program" not in request.fixturenames:
        yield
        return
    program: Program = request.getfixturevalue("program")
    before = program.files()
    assert any(name.endswith("server.py") for name in before)
    yield
    assert program.files() == before


class TestProgram:
    def test_it_tells_its_version(self, program: Program, built: Path, tmp_path: Path) -> None:
        """That of the wheel."""
        version = wheel_of(built).name.split("-")[1]
        assert program("--version", cwd=tmp_path) == f"headrace {version}\n"

    def test_the_examples_can_be_written_and_served(self, program: Program, tmp_path: Path) -> None:
        """Data lies beside them."""
        told = program("--init", "x", cwd=tmp_path)
        public = tmp_path / "x" / "Public"
        assert f"Start the server with: headrace --PublicDirectory {public}\n" in told
        text = program.answer("--PublicDirectory", "x/Public", "--file-logging", cwd=tmp_path)
        assert text and "<think>" not in text and not text.startswith("Assistant")
        assert {entry.name for entry in public.iterdir()} == {
            "Configs",
            "logs",
            "version.json",
            "workflow_python_scripts",
        }
        assert [entry.name for entry in tmp_path.iterdir()] == ["x"]

    @pytest.mark.skipif(os.name == "nt", reason="the data folder of Windows cannot be moved for a test")
    def test_without_anything_the_examples_answer(self, program: Program, tmp_path: Path) -> None:
        """In an empty folder, which stays empty: data goes to the user's data folder."""
        assert program.answer("--file-logging", cwd=tmp_path)
        assert list(tmp_path.iterdir()) == []
        (log,) = program.home.rglob("wilmerai.log")
        assert log.parts[-3:-1] == ("headrace", "logs")

    @pytest.mark.skipif(os.name == "nt", reason="the data folder of Windows cannot be moved for a test")
    def test_a_user_of_ones_own(self, program: Program, tmp_path: Path) -> None:
        """`--setup` writes to the data folder, and from then on that is served, from any folder. Whatever model
        servers this machine has: the demo user answers."""
        home = Program(program.folder, tmp_path / "home")
        (tmp_path / "empty").mkdir()
        told = home("--setup", "--yes", cwd=tmp_path / "empty")
        (configs,) = (tmp_path / "home").rglob("Configs")
        assert configs.parts[-3:] == ("headrace", "Public", "Configs") and f"{configs}: wrote " in told
        assert told.endswith("Start the server with: headrace\n")
        assert (configs / "Users" / "assistant.json").is_file()
        assert "users=assistant " in home.ready_line(cwd=tmp_path / "empty")
        assert home.ready_line(cwd=tmp_path / "empty").endswith(f" public={configs.parent}\n")
        demo = (configs / "Endpoints/my-model/Main.example.json").read_bytes()
        (configs / "Endpoints/my-model/Main.json").write_bytes(demo)
        assert home.answer(cwd=tmp_path / "empty")
        assert list((tmp_path / "empty").iterdir()) == []

    def test_data_of_strangers_among_the_packages_is_not_taken(
        self, program: Program, tmp_path: Path
    ) -> None:
        """In a clone such files are those of an old program, and stay in use."""
        (code,) = (place for lib in program.places for place in lib.rglob("Middleware") if place.is_dir())
        strange = code.parent / "Public" / "DiscussionIds" / "trip" / "timestamps.json"
        strange.parent.mkdir(parents=True)
        strange.write_text("{}")
        database = code.parent / "WilmerDb.demo.sqlite"
        database.touch()
        try:
            assert "discussions of user demo: 0" in program(
                "--User", "demo", "--memory", "list", cwd=tmp_path
            )
            program.answer("--User", "demo", cwd=tmp_path)
            assert (strange.read_text(), database.read_bytes()) == ("{}", b"")
        finally:
            shutil.rmtree(code.parent / "Public")
            database.unlink()

    @pytest.mark.parametrize("name", ["Public", "headrace-data"])
    def test_an_example_finds_its_script(self, program: Program, tmp_path: Path, name: str) -> None:
        """In the folder that is served, whatever its name is; not in that of the program."""
        program("--init", "x", cwd=tmp_path)
        (tmp_path / "x" / "Public").rename(tmp_path / name)
        words = ("--dry-run", "Main", "--User", "tool-agent", "--PublicDirectory", tmp_path / name)
        (tmp_path / "elsewhere").mkdir()
        told = program(*words, cwd=tmp_path / "elsewhere")
        script = tmp_path / name / "workflow_python_scripts" / "mcp_agent" / "prepare_tools.py"
        assert f"would run {script}" in told

    def test_the_schemas_for_editors_are_in_it(self, program: Program, tmp_path: Path) -> None:
        """They are data of the package."""
        program("--schemas", "s", cwd=tmp_path)
        assert (tmp_path / "s" / "node" / "Standard.json").is_file()

    def test_the_examples_have_no_fault(self, program: Program, tmp_path: Path) -> None:
        assert "0 errors, 0 warnings" in program("--validate", cwd=tmp_path)

    def test_it_shows_the_console(self, program: Program, tmp_path: Path) -> None:
        """The page, all that it names, and what it asks first: nothing of it is anywhere else."""
        with program.serving(cwd=tmp_path) as port:
            status, page = _asked(port, "/console/")
            assert status == 200
            named = re.findall(r'(?:src|href)="([^"#]+)"', page)
            assert [name for name in named if name.endswith(".js")]
            assert {_asked(port, f"/console/{name}")[0] for name in named} == {200}
            status, state = _asked(port, "/console/api/state")
        assert status == 200 and json.loads(state)["rights"] == ["look", "act"]

    def test_the_pages_of_the_console_are_in_it(self, program: Program) -> None:
        """What Help shows."""
        (docs,) = (place for lib in program.places for place in lib.rglob("shipped/docs"))
        assert (docs / "nodes" / "Standard.md").is_file() and not (docs / "spec").exists()
