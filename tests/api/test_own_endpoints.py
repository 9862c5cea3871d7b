"""Endpoint files of the user's own, made once from the examples beside them."""

from __future__ import annotations

import json
import logging
import os
import shutil

import pytest

from Middleware.api.launch_arguments import parse
from Middleware.api.serving import startup
from Middleware.common.instance_global_variables import INSTALL_DIRECTORY
from Middleware.utilities.install_layout import FIELDS, FORMER, OWN_FOLDER, make_own_endpoints

SHIPPED = INSTALL_DIRECTORY / "Public" / "Configs"
EXAMPLE = f"{OWN_FOLDER}/Main.example.json"


@pytest.fixture
def tree(tmp_path):
    """The endpoints as they ship: no file of a user's own."""
    shutil.copytree(SHIPPED / "Endpoints", tmp_path / "Endpoints")
    for file in (tmp_path / OWN_FOLDER).iterdir():
        if not file.name.endswith(".example.json"):
            file.unlink()
    return tmp_path


def edit(file, **fields):
    file.write_text(json.dumps({**json.loads(file.read_text("utf-8")), **fields}), "utf-8")


def main_of(tree):
    return json.loads((tree / OWN_FOLDER / "Main.json").read_text("utf-8"))


def test_each_example_gives_one_file(tree):
    """Byte by byte."""
    made = make_own_endpoints(tree)
    assert [file.name for file in made] == ["Embeddings.json", "Main.json"]
    assert (tree / OWN_FOLDER / "Main.json").read_bytes() == (tree / EXAMPLE).read_bytes()


def test_what_is_there_is_not_touched(tree):
    """However old the user's file is."""
    (tree / OWN_FOLDER / "Main.json").write_text("{}")
    assert [file.name for file in make_own_endpoints(tree)] == ["Embeddings.json"]
    assert make_own_endpoints(tree) == []
    assert main_of(tree) == {}


@pytest.mark.parametrize("former", FORMER)
def test_an_edit_of_a_former_file_is_kept(tree, caplog, former):
    """Who edited the tracked file goes on with that model after an update; the log says so."""
    caplog.set_level(logging.INFO)
    edit(tree / former, endpoint="http://h:1", apiTypeConfigFileName="Open-AI-API", apiKey="k")
    make_own_endpoints(tree)
    assert (main_of(tree)["endpoint"], main_of(tree)["apiKey"]) == ("http://h:1", "k")
    assert f"{OWN_FOLDER}/Main.json was created as a copy of {former}" in caplog.text


@pytest.mark.parametrize("text", ["{", None], ids=["broken", "deleted"])
def test_a_former_file_that_cannot_be_read_is_no_edit(tree, text):
    """The example is used."""
    for former in FORMER:
        (tree / former).write_text(text) if text else (tree / former).unlink()
    make_own_endpoints(tree)
    assert main_of(tree)["apiTypeConfigFileName"] == "BuiltInDemo"


@pytest.mark.parametrize("former", FORMER)
def test_the_former_files_ship_as_they_are_known(former):
    """An edit is what differs from this; git must not meet it, so they never change."""
    document = json.loads((SHIPPED / former).read_text("utf-8"))
    assert tuple(document[field] for field in FIELDS) == FORMER[former]


class TestStart:
    @pytest.fixture
    def public(self, tree, tmp_path_factory):
        """A Public folder with one user who answers from `Main`."""
        public = tmp_path_factory.mktemp("public")
        shutil.copytree(tree, public / "Configs")
        user = public / "Configs" / "Users" / "mira.json"
        user.parent.mkdir()
        user.write_text('{"customWorkflowOverride": true, "customWorkflow": "Main"}')
        return public

    @pytest.fixture(autouse=True)
    def _quiet(self, monkeypatch, facts):
        monkeypatch.setattr(startup, "configure_logging", lambda *given: None)

    def start(self, public):
        return startup.prepare(parse(("--PublicDirectory", str(public), "--User", "mira")))

    def test_a_start_makes_them(self, public):
        """So that there is a file to edit."""
        self.start(public)
        assert (public / "Configs" / OWN_FOLDER / "Main.json").is_file()

    def test_a_tree_that_came_with_a_wheel_is_only_read(self, public, monkeypatch):
        """The next install writes it over."""
        monkeypatch.setattr(startup, "is_shipped", lambda path: True)
        self.start(public)
        assert not (public / "Configs" / OWN_FOLDER / "Main.json").exists()

    @pytest.mark.skipif(os.name == "nt" or os.geteuid() == 0, reason="such a user may write anywhere")
    def test_a_tree_that_cannot_be_written_is_served(self, public):
        """From the examples."""
        folder = public / "Configs" / OWN_FOLDER
        folder.chmod(0o555)
        assert self.start(public).app.test_client().get("/health").status_code == 200
        folder.chmod(0o755)

    def test_a_tree_without_examples_is_left_alone(self, public):
        """One that was written before there were any."""
        shutil.rmtree(public / "Configs" / OWN_FOLDER)
        self.start(public)
        assert not (public / "Configs" / OWN_FOLDER).exists()
