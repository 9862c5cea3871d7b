"""Every example user is packed, unpacked into a tree that has endpoints and nothing else, and answers there as it
answers where it comes from (workbench.md 11, row 17).

The model is the scripted Ollama server of the examples' own tests; what each user says is what they expect.
"""

from __future__ import annotations

import http.server
import json
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import urlencode

import pytest

from Middleware.api.console.pack_views import ZIP
from Middleware.api.console.view_contract import Reply
from Middleware.api.console.views import Views
from Middleware.common.instance_global_variables import (
    INSTALL_DIRECTORY,
    LaunchFacts,
    launch_facts,
    set_launch_facts,
)
from Middleware.config.loader import ConfigTree
from tests.api.console.conftest import a_hub, asking
from tests.e2e.test_example_users import EXAMPLES, FakeOllama, Server, _start
from tests.patience import PATIENCE_S, wait_until
from tests.shipped import copy_configs
from tests.workflows.tools.conftest import stdio_file

pytestmark = pytest.mark.e2e

USERS = sorted(file.stem for file in (INSTALL_DIRECTORY / "Public/Configs/Users").glob("[!_]*.json"))
MODEL, VECTORS = "Talker", "Vectors"
"""Endpoints of the new tree: none has the name of a role."""
WITH_PROGRAMS = "agent"


def commands(public: Path, *lines: list[str]) -> str:
    """What commands printed, given one after the other in one process; each must end well."""
    program = (
        "import json, server, sys\nfor line in json.load(sys.stdin):\n    assert server.main(line) == 0, line"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        input=json.dumps([["--PublicDirectory", str(public), *line] for line in lines]),
        cwd=INSTALL_DIRECTORY,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def packs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a pack of each example user, made from a copy of what ships."""
    home = tmp_path_factory.mktemp("from")
    public = home / "Public"
    copy_configs(public / "Configs")
    scripts = "workflow_python_scripts"
    shutil.copytree(INSTALL_DIRECTORY / "Public" / scripts, public / scripts)
    tools = {**stdio_file(home / "trace.txt"), "env": {"PLAN": "Sail north."}}
    (public / "Configs/MCPServers/files.json").write_text(json.dumps(tools), encoding="utf-8")
    commands(public, *(["--pack", user, str(home / f"{user}.zip")] for user in USERS))
    return home


@pytest.fixture(scope="module")
def unpacked(packs: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """The new tree, served."""
    calls: list[dict[str, object]] = []
    handler = type("Handler", (FakeOllama,), {"calls": calls})
    backend = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=backend.serve_forever, daemon=True).start()
    public = tmp_path_factory.mktemp("to") / "Public"
    write_endpoints(public / "Configs", backend.server_port)
    commands(public, *(unpacking(packs, user) for user in USERS))
    process, port = _start(public, USERS)
    yield Server(port, calls, public)
    process.terminate()
    process.wait(timeout=PATIENCE_S)
    backend.shutdown()
    backend.server_close()


def unpacking(packs: Path, user: str) -> list[str]:
    """The command that unpacks an example."""
    roles = [word for role in roles_of(user) for word in ("--map", role)]
    programs = ["--with-programs"] if user == WITH_PROGRAMS else []
    return ["--unpack", str(packs / f"{user}.zip"), *roles, *programs]


def roles_of(user: str) -> list[str]:
    """Which endpoint plays which role of an example."""
    return [f"Main={MODEL}", *([f"Embeddings=box/{VECTORS}"] if user == "memory-assistant" else [])]


def write_endpoints(configs: Path, port: int) -> None:
    """Two endpoints with their API types: all that a tree needs before anything is unpacked."""
    for name, api_type, model in (
        (MODEL, "OllamaApiChat", "thinks-aloud"),
        (VECTORS, "Ollama-Embeddings", "vectors"),
    ):
        (configs / "ApiTypes").mkdir(parents=True, exist_ok=True)
        (configs / "Endpoints/box").mkdir(parents=True, exist_ok=True)
        shutil.copy(INSTALL_DIRECTORY / f"Public/Configs/ApiTypes/{api_type}.json", configs / "ApiTypes")
        example = json.loads(
            (INSTALL_DIRECTORY / "Public/Configs/Endpoints/my-model/Main.example.json").read_text("utf-8")
        )
        endpoint = {
            **(example if name == MODEL else {}),
            "endpoint": f"http://127.0.0.1:{port}",
            "apiTypeConfigFileName": api_type,
            "modelNameToSendToAPI": model,
        }
        (configs / f"Endpoints/box/{name}.json").write_text(json.dumps(endpoint), encoding="utf-8")


@pytest.mark.parametrize("user", USERS)
def test_an_unpacked_example_answers(unpacked: Server, user: str) -> None:
    """Whole and streamed, with the calls of the original."""
    said, expected, calls = EXAMPLES[user]
    if user == WITH_PROGRAMS:  # the first start of its MCP server may take longer than the node waits for it
        wait_until(lambda: unpacked.ask(user, said, stream=False) == expected)
    before = len(unpacked.calls)
    assert unpacked.ask(user, said, stream=False) == expected
    between = len(unpacked.calls)
    assert unpacked.ask(user, said, stream=True) == expected
    assert (between - before, len(unpacked.calls) - between) == calls


def test_the_new_tree_has_no_error(unpacked: Server) -> None:
    """Of all that was unpacked, one after the other: `--validate` ends well."""
    assert (
        commands(unpacked.public, ["--validate"]).rstrip().splitlines()[-1].startswith(str(unpacked.public))
    )


class TestByThePage:
    """What the console gives and writes is what the command does."""

    @pytest.fixture
    def post(self) -> Iterator[Callable[..., Reply]]:
        """A request to a page over a tree."""
        before = launch_facts()

        def send(public: Path, path: str, body: object, *query: tuple[str, str]) -> Reply:
            set_launch_facts(LaunchFacts(public_directory=public, config_directory=public / "Configs"))
            hub = a_hub(snapshot=lambda: ConfigTree(public / "Configs").snapshot(), mode="edit")
            environ = asking("POST", path, body=body, query=urlencode(query))
            return Views(hub).answer({**environ, "CONTENT_TYPE": ZIP}, ("look", "act", "save"))

        yield send
        set_launch_facts(before)

    @pytest.mark.parametrize("user", USERS)
    def test_a_pack_has_the_same_bytes(self, packs: Path, post: Callable[..., Reply], user: str) -> None:
        assert post(packs / "Public", "pack", {"name": user}).value == (packs / f"{user}.zip").read_bytes()

    @pytest.mark.parametrize("user", [user for user in USERS if user != WITH_PROGRAMS])
    def test_an_unpacked_one_has_the_same_files(
        self, packs: Path, unpacked: Server, post: Callable[..., Reply], tmp_path: Path, user: str
    ) -> None:
        write_endpoints(tmp_path / "Configs", 9)
        roles = [("map", role) for role in roles_of(user)]
        reply = post(tmp_path, "unpack", (packs / f"{user}.zip").read_bytes(), *roles, ("write", "1"))
        assert reply.status == 201, reply.value
        for file in reply.value["files"]:
            by_command = unpacked.public / "Configs" / file
            assert (tmp_path / "Configs" / file).read_bytes() == by_command.read_bytes()

    def test_one_that_runs_programs_is_for_the_command(
        self, packs: Path, post: Callable[..., Reply], tmp_path: Path
    ) -> None:
        write_endpoints(tmp_path / "Configs", 9)
        before = sorted(tmp_path.rglob("*"))
        reply = post(tmp_path, "unpack", (packs / f"{WITH_PROGRAMS}.zip").read_bytes(), ("write", "1"))
        assert (reply.status, bool(reply.value["programs"])) == (422, True)
        assert sorted(tmp_path.rglob("*")) == before
