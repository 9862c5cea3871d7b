"""The wheel is a program: built, installed into an empty environment, started; it never writes where it lies.

What it needs is taken from the environment of the tests, so that no index is asked: that the list of it is
whole is shown by `tests/test_packages.py`.
"""

from __future__ import annotations

import http.client
import json
import os
import re
import shutil
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.installed import (
    EXAMPLES,
    LIMIT_S,
    PAGES,
    Program,
    copy_sources,
    install,
    make_environment,
    python_of_tests,
    wheel_of,
)

pytestmark = pytest.mark.e2e


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What a wheel is made of, in a folder of its own; the data of a server that ran there; an old build."""
    folder = copy_sources(tmp_path_factory.mktemp("clone"))
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


def _asked(port: int, path: str) -> tuple[int, str]:
    """Status and text of a page, or of what it asks for."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=LIMIT_S)
    try:
        connection.request("GET", path, headers={"X-Headrace-Console": "1"})
        answer = connection.getresponse()
        return answer.status, answer.read().decode("utf-8")
    finally:
        connection.close()


@pytest.fixture(scope="module")
def program(built: Path, tmp_path_factory: pytest.TempPathFactory) -> Program:
    folder = tmp_path_factory.mktemp("environment")
    install(make_environment(folder), wheel_of(built))
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
        node = {
            "type": "PythonModule",
            "module_path": "Public/workflow_python_scripts/mcp_agent/prepare_tools.py",
        }
        workflow = tmp_path / name / "Configs" / "Workflows" / "agent" / "Main.json"
        workflow.write_text(json.dumps([node]), "utf-8")
        words = ("--dry-run", "Main", "--User", "agent", "--PublicDirectory", tmp_path / name)
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
