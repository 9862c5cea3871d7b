"""Where things lie when nobody says so: a clone, and a program that came out of a wheel."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from platformdirs import user_data_path

from Middleware.api.command_registry import check_config_folder
from Middleware.api.launch_arguments import parse
from Middleware.api.serving.waitress_server import demo_hints
from Middleware.common import instance_global_variables
from Middleware.config.loader import ConfigTree
from Middleware.config.users import UserSettings
from Middleware.services.data_folders import discussions_root, lock_folder
from Middleware.utilities import install_layout
from tests.api.commands.test_init import ship


@pytest.fixture
def wheel(tmp_path, monkeypatch):
    """The program as a wheel leaves it; the folder that it was put into. The working directory is empty."""
    shipped = ship(tmp_path / "site-packages", monkeypatch)
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    monkeypatch.setattr(install_layout, "own_public", lambda: tmp_path / "data" / "Public")
    return shipped


@pytest.fixture
def kept(monkeypatch):
    """`kept(*words)`: the folders of discussions, locks and logs of a command line."""

    def folders(*words):
        launch = parse((*words, "--file-logging"))
        monkeypatch.setattr(instance_global_variables, "_facts", launch.facts)
        user = UserSettings("mira", {})
        return {discussions_root(user).parent, lock_folder(user).parent, launch.log_folder.parent}

    return folders


DATA = user_data_path("headrace", appauthor=False)


class TestWheel:
    def test_without_arguments_the_examples_are_served(self, wheel):
        """The first answer needs no file of the user's."""
        facts = parse(()).facts
        assert (facts.public_directory, facts.config_directory) == (wheel, wheel / "Configs")

    def test_files_of_the_user_are_served_once_they_are_there(self, wheel, kept, tmp_path):
        """`--setup` has written them; data lies with them. A folder that is named goes before."""
        own = tmp_path / "data" / "Public"
        (own / "Configs").mkdir(parents=True)
        facts = parse(()).facts
        assert (facts.public_directory, facts.config_directory) == (own, own / "Configs")
        assert kept() == {own} and install_layout.layout_notes(facts) == []
        assert parse(("--PublicDirectory", str(wheel))).facts.public_directory == wheel

    def test_a_folder_without_configuration_is_not_served(self, wheel, tmp_path):
        """It may hold anything."""
        (tmp_path / "data" / "Public").mkdir(parents=True)
        assert parse(()).facts.public_directory == wheel

    def test_they_lie_in_the_data_folder_of_the_user(self):
        """On every system."""
        assert install_layout.own_public() == DATA / "Public"

    @pytest.mark.parametrize(
        "words",
        [(), ("--PublicDirectory", "{wheel}"), ("{wheel}/Configs",)],
        ids=["none", "public", "config"],
    )
    def test_data_never_lies_where_the_installer_writes(self, wheel, kept, words):
        """It goes to the user's data folder, whatever way leads to the examples."""
        assert kept(*(word.format(wheel=wheel) for word in words)) == {DATA}

    def test_data_lies_beside_a_config_root(self, wheel, kept, tmp_path):
        """Of any name."""
        assert kept("--ConfigDirectory", str(tmp_path / "mine" / "Configs")) == {tmp_path / "mine"}
        assert kept("conf") == {tmp_path / "here"}

    def test_a_public_folder_holds_all(self, wheel, kept, tmp_path):
        """As in a clone."""
        assert kept("--PublicDirectory", str(tmp_path / "mine")) == {tmp_path / "mine"}
        assert parse(("--PublicDirectory", str(tmp_path / "mine"))).warnings[:-1] == ()

    def test_a_start_says_what_is_served_and_where_data_goes(self, wheel):
        (note,) = install_layout.layout_notes(parse(()).facts)
        assert str(DATA) in note and "headrace --setup" in note and "headrace --init DIR" in note

    def test_a_tree_in_the_working_directory_is_not_taken_by_itself(self, wheel, tmp_path):
        """It is told that it is there, and how to name it."""
        (tmp_path / "here" / "Public" / "Configs").mkdir(parents=True)
        assert parse(()).facts.config_directory == wheel / "Configs"
        assert (
            f"{tmp_path / 'here' / 'Public'} is not used; name it with --PublicDirectory to use it"
            in parse(()).warnings
        )

    def test_a_folder_that_is_not_there_leads_to_init(self, wheel):
        with pytest.raises(SystemExit, match=r"nowhere: there is no such folder\. .* headrace --init DIR"):
            check_config_folder(parse(("nowhere",)).facts)

    def test_nobody_is_told_to_change_the_examples(self, wheel, tmp_path):
        """The way leads over files of the user's."""
        text = "\n".join(demo_hints(ConfigTree(wheel / "Configs").snapshot(), ["demo"], "http://h"))
        assert str(wheel) not in text and "headrace --init DIR" in text
        assert str(Path("Public/Configs/Endpoints/my-model/Main.json")) in text


class TestClone:
    def test_all_lies_beside_the_server(self, kept):
        """Also with a config root of another place. Source: workflows.md 1.1."""
        public = instance_global_variables.INSTALL_DIRECTORY / "Public"
        assert kept() == kept("elsewhere/Configs") == {public}
        assert install_layout.layout_notes(parse(()).facts) == []

    def test_the_program_is_the_script_that_starts_it(self):
        assert install_layout.program() == ("run.bat" if os.name == "nt" else "./run")
