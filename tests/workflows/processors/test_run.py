"""What the runs of a request share, and which node answers."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from Middleware.common.errors import BackendError, ConfigError
from Middleware.common.instance_global_variables import (
    INSTALL_DIRECTORY,
    LaunchFacts,
    launch_facts,
    set_launch_facts,
)
from Middleware.common.request_context import ClientQuestion, RequestContext
from Middleware.config.loader import ConfigTree
from Middleware.config.users import UserSettings
from Middleware.config.workflows import WorkflowFile
from Middleware.workflows.processors.run import (
    ProcessServices,
    RequestState,
    Run,
    new_workflow_id,
    responder_index,
)


@pytest.fixture
def facts():
    before = launch_facts()
    yield lambda **more: set_launch_facts(LaunchFacts(public_directory=Path("/p"), **more))
    set_launch_facts(before)


def test_a_request_looks_for_old_data_nowhere_else(facts, monkeypatch, tmp_path):
    """The secret of one installation stays out of another one's prompts."""
    monkeypatch.setattr("Middleware.common.instance_global_variables.INSTALL_DIRECTORY", tmp_path)
    monkeypatch.setattr("Middleware.common.instance_global_variables.OLD_DATA_DIRECTORY", tmp_path)
    (tmp_path / "Public" / "DiscussionIds" / "talk").mkdir(parents=True)
    set_launch_facts(LaunchFacts(public_directory=tmp_path / "other"))
    state = RequestState(
        RequestContext("r", "ana", "openaichatcompletion"), UserSettings("ana"), None, ProcessServices()
    )
    assert state.stamps("talk").store.folder == tmp_path / "other" / "DiscussionIds" / "talk"


def test_an_encrypted_discussion_has_a_key(facts):
    """When the user wants it and the client sent a key."""

    def key(encrypt: bool, api_key: str | None) -> bytes | None:
        request = RequestContext("r", "ana", "openaichatcompletion", api_key=api_key)
        user = UserSettings("ana", encrypt_using_api_key=encrypt)
        return RequestState(request, user, None, ProcessServices()).encryption_key  # type: ignore[arg-type]

    assert [bool(key(True, "k")), key(False, "k"), key(True, None)] == [True, None, None]


@pytest.mark.parametrize(
    ("api_key", "folder"),
    [
        ("test-key", "/p/DiscussionIds/62af8704764faf8e/d"),
        ("None", "/p/DiscussionIds/dc937b59892604f5/d"),
        ("null", "/p/DiscussionIds/74234e98afe7498f/d"),
        (None, "/p/DiscussionIds/d"),
        ("", "/p/DiscussionIds/d"),
    ],
)
def test_a_key_selects_the_folder_of_the_data(facts, api_key, folder):
    """Whatever it says: what looks like no value is a key as any other."""
    facts()
    request = RequestContext("r", "ana", "openaichatcompletion", api_key=api_key)
    state = RequestState(request, UserSettings("ana"), None, ProcessServices())  # type: ignore[arg-type]
    assert state.stamps("d").store.folder == Path(folder)


@pytest.mark.parametrize(
    ("nodes", "index"),
    [([], -1), ([{}], 0), ([{"is_responder": None}, {"returnToUser": 1}, {}], 1)],
)
def test_the_responder(nodes, index):
    """The first with a truthy flag, else the last."""
    assert responder_index(tuple(nodes)) == index


@pytest.fixture
def failing(tmp_path):
    """A run of one node, whose user has an endpoint `Main`."""
    file = WorkflowFile(
        name="Main", folder="ana", file="Workflows/ana/Main.json", nodes=({"title": "T"},), variables={}
    )
    for name, text in ((file.file, '[\n  {"title": "T"}\n]'), ("Endpoints/lan/Main.json", "{}")):
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    user = UserSettings("ana", endpoint_configs_sub_directory="lan")
    state = SimpleNamespace(snapshot=ConfigTree(tmp_path).snapshot(), user=user)
    return Run(state=state, file=file, question=ClientQuestion([]))


PLACE = 'Workflows/ana/Main.json:2:3: node 1 "T" (Standard)'


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (FileNotFoundError("no file 'x.py'"), "no file 'x.py'"),
        (ValueError("Unsupported LLM type: 'foo'"), "Unsupported LLM type: 'foo'"),
        (KeyError("a"), "KeyError: 'a'"),
        (ValueError(), "ValueError"),
    ],
    ids=["missing-file", "bad-value", "fault-of-ours", "wordless"],
)
def test_the_failure_of_a_node_is_a_sentence(failing, error, said):
    """An error that speaks for itself is quoted as it is; of any other the class is named. A chat gets the cause
    first, for only the beginning of a long sentence is read there; a log gets the place first.
    """
    failure = failing.failure(0, error)
    assert str(failure) == f"{PLACE}: {said}"
    assert failure.cause_first() == f"{said}; in {PLACE}"


@pytest.mark.parametrize(
    ("endpoint", "who"),
    [("Main", "endpoint 'Main' (Endpoints/lan/Main.json)"), ("Gone", "endpoint 'Gone'")],
)
def test_the_failure_of_a_backend_names_the_file_of_its_endpoint(failing, endpoint, who):
    """That is what has to be edited; nothing is said of a file that is not there."""
    failure = failing.failure(0, BackendError(endpoint, "not_found", "model 'x' not found", status=404))
    assert failure.cause_first() == f"{who} answered 404: model 'x' not found; in {PLACE}"
    assert str(failure) == f"{PLACE}: {who} answered 404: model 'x' not found"


@pytest.mark.parametrize(
    ("file", "said"),
    [
        ("Workflows/ana/Main.json", 'node 1 "T", title: wrong; in Workflows/ana/Main.json:2:13'),
        ("Presets/P.json", f"0.title: wrong; in Presets/P.json; in {PLACE}"),
    ],
    ids=["its-own", "another"],
)
def test_a_fault_of_a_file_comes_before_its_place(failing, file, said):
    """Whether it is the workflow's own file or another."""
    assert failing.failure(0, ConfigError("wrong", file=file, pointer="/0/title")).cause_first() == said


def test_owners_of_locks_differ_whatever_a_script_seeds():
    """A script that seeds Python's generator at every call is nothing unusual."""
    ids = set()
    for _ in range(3):
        random.seed(0)
        ids.add(new_workflow_id())
    assert len(ids) == 3


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_owners_of_locks_differ_between_processes_that_were_one():
    """Servers load first and fork then."""
    code = (
        "import os\n"
        "from Middleware.workflows.processors.run import new_workflow_id\n"
        "new_workflow_id()\n"
        "child = os.fork()\n"
        "child and os.waitpid(child, 0)\n"
        "print(new_workflow_id(), flush=True)\n"
        "child or os._exit(0)\n"
    )
    said = subprocess.run(
        [sys.executable, "-c", code], cwd=INSTALL_DIRECTORY, capture_output=True, check=True
    )
    assert len(set(said.stdout.split())) == 2
