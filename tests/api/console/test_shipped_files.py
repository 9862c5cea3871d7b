"""The example files over the routes: each is shown as it is, and may be saved untouched."""

from __future__ import annotations

import shutil

import pytest

from Middleware.workflows.checks.config_check import checked_tree
from tests.api.console.config_house import House, recorder
from tests.api.console.conftest import a_hub
from tests.shipped import CONFIGS, shipped_files

FILES = [path.relative_to(CONFIGS).as_posix() for path in shipped_files()]
USERS = [path.stem for path in shipped_files("Users") if not path.stem.startswith("_")]
BY_HAND = ("Users/", "ApiTypes/", "MCPServers/")


@pytest.fixture(scope="module")
def examples(tmp_path_factory) -> House:
    """A copy of the tree that ships; every user of it is served."""
    root = tmp_path_factory.mktemp("examples") / "Public" / "Configs"
    shutil.copytree(CONFIGS, root)
    hub = a_hub(
        snapshot=lambda: checked_tree(root).snapshot(), served_users=lambda: USERS, recorder=recorder()
    )
    return House(root, hub)


@pytest.mark.parametrize("file", FILES)
def test_a_file_is_shown_and_saved(examples, file):
    """Without an error; none of them holds a secret, so the text is the file."""
    route = "workflows" if file.startswith("Workflows/") else "files"
    status, told = examples.ask("GET", f"{route}/{file}")
    raw = examples.bytes_of(file)
    assert (status, told["text"]) == (200, raw.decode())
    assert [one for one in told["problems"] if one["level"] == "error"] == []
    status, _ = examples.save(file, told["text"])
    assert status == (403 if file.startswith(BY_HAND) else 200)
    assert examples.bytes_of(file) == raw


@pytest.mark.parametrize("file", [file for file in FILES if file.startswith("Workflows/")])
def test_a_workflow_has_a_graph_and_can_be_walked(examples, file):
    """For the user whose folder it lies in; settings have neither."""
    told = examples.ask("GET", f"workflows/{file}")[1]
    body = {"path": file, "user": told["user"]}
    status, walked = examples.ask("POST", "dry-run", body=body)
    assert (told["graph"] is not None) is (told["kind"] == "workflow") is bool(walked["nodes"])
    assert (status, walked["error"] is None) == (200, told["kind"] == "workflow")
