"""A config tree that was made for another server is put in place as it is: no finding, and every user answers."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from Middleware.common.instance_global_variables import LaunchFacts, launch_facts, set_launch_facts
from Middleware.config.loader import ConfigTree
from Middleware.workflows.checks import config_check, workflow_check
from Middleware.workflows.handlers import node_types as registry
from tests.e2e.conftest import HOUSE, Server
from tests.e2e.test_packed_examples import commands
from tests.patience import PATIENCE_S

pytestmark = pytest.mark.e2e

FOREIGN = HOUSE / "tests" / "fixtures" / "foreign" / "Public"
USERS = sorted(
    path.stem for path in (FOREIGN / "Configs" / "Users").glob("*.json") if path.stem != "_current-user"
)
MODELS = [
    "_harbour-routing", "_harbour-routing:notes", "_lighthouse-memory", "_tools-shared:notes", "_tools-shared:translate",
    "_tools-shared:_drafts", "quay-shared:boats", "harbour-scripts", "every-node", "Mixed-Case",
]  # fmt: skip


@pytest.fixture(scope="module")
def public(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tree elsewhere, its backends replaced by the built-in demo."""
    public = tmp_path_factory.mktemp("moved") / "Public"
    shutil.copytree(FOREIGN, public)
    for file in (public / "Configs" / "ApiTypes").glob("*.json"):
        document = json.loads(file.read_text("utf-8"))
        kind = document["type"] if "Embeddings" in document["type"] else "builtInDemo"
        file.write_text(json.dumps({**document, "type": kind}), "utf-8")
    return public


@pytest.fixture(scope="module")
def server(public: Path) -> Iterator[Server]:
    """All users at once, started with `--strict`."""
    server = Server(public, dict.fromkeys(USERS), ("--strict",))
    yield server
    server.stop()


def ask(server: Server, model: str, **more: object) -> dict:
    body = {"model": model, "messages": [{"role": "user", "content": "Which way is north?"}], **more}
    status, answer = server.post("/v1/chat/completions", body)
    assert status == 200, (answer, server.log)
    return json.loads(answer)


def answered(server: Server, model: str) -> str:
    return ask(server, model)["choices"][0]["message"]["content"]


@pytest.fixture
def as_launched() -> Iterator[None]:
    """Scripts are looked for where a server of this tree looks."""
    before = launch_facts()
    set_launch_facts(LaunchFacts(public_directory=FOREIGN, config_directory=FOREIGN / "Configs"))
    yield
    set_launch_facts(before)


class TestCheck:
    def test_there_is_no_error_and_no_warning(self):
        """On the command line, neither in the output nor in the log."""
        words = [sys.executable, "server.py", "--validate", "--PublicDirectory", str(FOREIGN)]
        done = subprocess.run(
            words, cwd=HOUSE, capture_output=True, text=True, timeout=PATIENCE_S, check=False
        )
        assert (done.returncode, done.stderr) == (0, "")
        assert "0 errors, 0 warnings" in done.stdout.splitlines()[-1]

    @pytest.mark.parametrize("user", USERS)
    def test_nor_for_one_user(self, user, as_launched):
        tree = ConfigTree(FOREIGN / "Configs", workflow_check.own_errors)
        levels = {finding.level for finding in config_check.check_users(tree.snapshot(), [user])}
        assert levels <= {"note"}

    def test_every_node_type_is_in_it(self):
        """And the old name of one. Those that only we have are in none."""
        documents = [
            json.loads(path.read_text("utf-8"))
            for path in (FOREIGN / "Configs" / "Workflows").rglob("*.json")
        ]
        lists = [
            document.get("nodes", []) if isinstance(document, dict) else document for document in documents
        ]
        types = {node["type"] for nodes in lists for node in nodes}
        assert types == {*registry.NODES, *registry.OLD_NAMES} - {"Agent", "Candidates"}


class TestAnswers:
    @pytest.mark.parametrize("model", MODELS)
    def test_every_user_answers(self, server, model):
        assert answered(server, model).strip()

    def test_scripts_are_found_beside_the_public_folder(self, server):
        """And what they import from there."""
        assert answered(server, "harbour-scripts") == "4 words"

    def test_what_only_shared_workflows_answer_is_refused_by_name(self, server):
        """The plain user has no workflow: the models that it does offer are named."""
        body = {"model": "_tools-shared", "messages": [{"role": "user", "content": "Hi"}]}
        status, answer = server.post("/v1/chat/completions", body)
        assert status == 404 and b"_tools-shared:notes" in answer

    def test_the_models_are_listed(self, server):
        """Folders that begin with `_` are hidden, users that do are not."""
        listed = {model["id"] for model in json.loads(server.request("GET", "/v1/models")[1])["data"]}
        assert {*USERS, "_tools-shared:notes", "_tools-shared:translate", "quay-shared:boats"} <= listed
        assert "_tools-shared:_drafts" not in listed

    def test_the_log_has_no_error(self, server):
        answered(server, "Mixed-Case")
        assert "ERROR" not in server.log


def test_the_pointed_user_is_served_without_a_name(public):
    """`currentUser` may begin with `_`."""
    server = Server(public, {}, ("--strict",))
    try:
        assert answered(server, "anything").strip()
    finally:
        server.stop()


@pytest.fixture(scope="module")
def packs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a pack of each user."""
    folder = tmp_path_factory.mktemp("packs")
    commands(FOREIGN, *(["--pack", user, str(folder / f"{user}.zip")] for user in USERS))
    return folder


@pytest.mark.parametrize("prefix", [(), ("--prefix", "z-")], ids=["as-it-is", "prefix"])
@pytest.mark.parametrize("user", USERS)
def test_a_pack_fits_the_endpoints_that_it_was_made_with(
    packs: Path, tmp_path: Path, user: str, prefix: tuple[str, ...]
) -> None:
    """Whatever their kinds, in a tree that has nothing but them and what they name."""
    configs = tmp_path / "Configs"
    for name in ("ApiTypes", "Endpoints", "PromptTemplates"):
        shutil.copytree(FOREIGN / "Configs" / name, configs / name)
    appended = "Presets/OpenAiCompatibleApis/_Append.json"
    (configs / appended).parent.mkdir(parents=True)
    shutil.copy(FOREIGN / "Configs" / appended, configs / appended)
    unpack = ["--unpack", str(packs / f"{user}.zip"), "--with-programs", *prefix]
    told = commands(tmp_path, unpack, ["--validate"])
    assert ": 0 errors, 0 warnings, " in told, told
