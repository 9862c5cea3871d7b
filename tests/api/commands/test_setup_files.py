"""The files of a new user: whole or not at all, and nothing that is there is changed."""

from __future__ import annotations

import json
import os
import stat

import pytest

from Middleware.api.commands import setup_files
from Middleware.api.commands.setup_files import (
    KINDS,
    SetupPlace,
    draft_of,
    endpoint_folder_for,
    files_of_user,
    free_user_name,
    place_of_setup,
    seen_tree,
    why_no_user_name,
    write_setup,
)
from Middleware.api.launch_arguments import parse
from Middleware.config.validation import NOTE
from Middleware.utilities.config_text import json_bytes
from Middleware.workflows.checks.config_check import check_users
from tests.api.commands.test_init import contents, ship

ENDPOINT = {
    "endpoint": "http://127.0.0.1:8080",
    "apiTypeConfigFileName": "LlamaCppServer",
    "modelNameToSendToAPI": "tiny",
    "maxContextTokenSize": 8192,
}
KIND = KINDS[0]


@pytest.fixture(autouse=True)
def shipped(tmp_path, monkeypatch):
    """The Public folder as it ships: a clone's may have endpoints of the developer's own."""
    return ship(tmp_path / "elsewhere" / "site-packages", monkeypatch)


@pytest.fixture
def home(tmp_path):
    folder = tmp_path / "home"
    folder.mkdir()
    return folder


@pytest.fixture
def place(home):
    """A Public folder that is not there yet."""
    return place_of_setup(parse(["--PublicDirectory", str(home / "Public")]).facts)


@pytest.fixture
def bare(home):
    """A tree of somebody else's, with one user and nothing else."""
    users = home / "Public" / "Configs" / "Users"
    users.mkdir(parents=True)
    (users / "ana.json").write_text('{"port": 5000}')
    return place_of_setup(parse(["--PublicDirectory", str(home / "Public")]).facts)


def new_files(place, user="mira", kind=KIND, endpoint=ENDPOINT):
    snapshot = seen_tree(place)
    return files_of_user(kind, user, endpoint, endpoint_folder_for(snapshot, endpoint, user), snapshot)


class TestPlace:
    def test_the_named_folders(self, place, home):
        """What is not there yet is made with the examples."""
        assert place.config == home / "Public" / "Configs" and place.is_new

    def test_a_tree_that_is_there(self, bare):
        assert not bare.is_new and bare.seen == bare.config

    def test_of_a_wheel(self, shipped, tmp_path, monkeypatch):
        """`Public` in the user's data folder; what came with the wheel is not for changing."""
        monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
        made = place_of_setup(parse([]).facts)
        assert made == SetupPlace(
            setup_files.own_public() / "Configs", setup_files.own_public(), shipped / "Configs"
        )


class TestNames:
    @pytest.mark.parametrize("name", ["mira", "m", "mira-2", "a_b"])
    def test_free_ones(self, place, name):
        assert why_no_user_name(seen_tree(place), name) is None

    @pytest.mark.parametrize("name", ["", "Mira", "a b", "../x", "-a", "a:b", "con", "x" * 65, "_shared"])
    def test_what_is_no_name(self, place, name):
        """A file of that name would lie elsewhere, or nowhere."""
        assert "cannot be the name of a user" in (why_no_user_name(seen_tree(place), name) or "")

    @pytest.mark.parametrize("file", ["Users/Mira.json", "Workflows/mira/X.json", "Endpoints/mira/Main.json"])
    def test_taken_ones(self, bare, file):
        """By files of any kind, in capitals or not."""
        (bare.config / file).parent.mkdir(parents=True, exist_ok=True)
        (bare.config / file).write_text("{}")
        assert "already" in (why_no_user_name(seen_tree(bare), "mira") or "")
        assert free_user_name(seen_tree(bare), "mira") == "mira-2"


class TestFiles:
    @pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
    @pytest.mark.parametrize("tree", ["place", "bare"])
    def test_each_kind_is_valid(self, request, tree, kind):
        """Beside the examples, and in a tree that has nothing."""
        place = request.getfixturevalue(tree)
        files = new_files(place, kind=kind)
        assert list(files)[-1] == "Users/mira.json"
        snapshot = draft_of(seen_tree(place), files)
        snapshot.spelling.notes = []
        assert [str(found) for found in check_users(snapshot, ["mira"]) if found.level != NOTE] == []

    def test_a_tree_that_lacks_nothing_gets_its_own_files_alone(self, place):
        assert list(new_files(place)) == [
            "Endpoints/my-model/Main.json",
            "Workflows/mira/Chat.json",
            "Users/mira.json",
        ]

    def test_an_agent_brings_its_tool_server(self, bare):
        """A tree without one gets the file."""
        assert "MCPServers/files.json" in new_files(bare, kind=KINDS[3])
        assert "MCPServers/files.json" not in new_files(bare)

    def test_a_memory_without_vectors(self, place):
        """No embeddings model is asked for."""
        files = new_files(place, kind=KINDS[1])
        assert not any(b"mbedding" in text for text in files.values())
        assert json.loads(files["Workflows/mira/Memory-Settings.json"])["useVectorForQualityMemory"] is True

    def test_an_endpoint_that_says_the_same_is_shared(self, bare):
        """By users that are made later; another one has a folder of its own."""
        write_setup(bare, new_files(bare), "mira")
        second, third = (
            new_files(bare, "jo"),
            new_files(bare, "kim", endpoint={**ENDPOINT, "endpoint": "http://b"}),
        )
        assert not any(file.startswith("Endpoints") for file in second)
        assert json.loads(second["Users/jo.json"])["endpointConfigsSubDirectory"] == "my-model"
        assert "Endpoints/kim/Main.json" in third
        assert json.loads(third["Users/kim.json"])["endpointConfigsSubDirectory"] == "kim"


class TestWriting:
    def test_a_new_tree(self, place):
        """The examples, the user, and the user as the one who is served."""
        files = new_files(place)
        assert write_setup(place, files, "mira") == [place.config / file for file in files]
        assert json.loads((place.config / "Users/_current-user.json").read_text()) == {"currentUser": "mira"}
        assert (place.config / "Users/demo.json").is_file() and (
            place.public / "workflow_python_scripts"
        ).is_dir()
        assert [entry.name for entry in place.public.parent.iterdir()] == ["Public"]
        assert (
            seen_tree(place_of_setup(parse(["--PublicDirectory", str(place.public)]).facts)).root
            == place.config
        )

    def test_a_public_folder_with_data(self, place):
        """It gets what it lacks; the data stays."""
        (place.public / "DiscussionIds").mkdir(parents=True)
        write_setup(place, new_files(place), "mira")
        assert {entry.name for entry in place.public.iterdir()} == {
            "Configs",
            "DiscussionIds",
            "workflow_python_scripts",
        }

    def test_a_tree_that_is_there(self, bare):
        """Only new files; nobody else is served from now on."""
        before = contents(bare.public)
        files = new_files(bare)
        write_setup(bare, files, "mira")
        after = contents(bare.public)
        assert {name: after[name] for name in before} == before
        assert {f"Configs/{file}" for file in files} <= set(after)
        assert not (bare.config / "Users/_current-user.json").exists()

    @pytest.mark.skipif(os.name == "nt", reason="Windows has no modes")
    @pytest.mark.parametrize("tree", ["place", "bare"])
    def test_a_key_in_a_file_is_for_its_owner(self, request, tree):
        place = request.getfixturevalue(tree)
        write_setup(place, new_files(place, endpoint={**ENDPOINT, "apiKey": "k-123456"}), "mira")
        mode = (place.config / "Endpoints/my-model/Main.json").stat().st_mode
        assert stat.S_IMODE(mode) == 0o600

    @pytest.mark.parametrize("tree", ["place", "bare"])
    @pytest.mark.parametrize(
        "failure", [OSError(28, "No space left on device"), KeyboardInterrupt()], ids=repr
    )
    @pytest.mark.parametrize("after", range(3))
    def test_it_is_whole_or_not_there(self, request, monkeypatch, tree, failure, after):
        """A full disk, or a Ctrl-C, at each file."""
        place = request.getfixturevalue(tree)
        files, before = new_files(place), contents(place.public.parent)
        real, written = setup_files._write_new, []

        def write(path, text):
            if len(written) == after:
                raise failure
            written.append(path)
            real(path, text)

        monkeypatch.setattr(setup_files, "_write_new", write)
        with pytest.raises(type(failure)):
            write_setup(place, files, "mira")
        folders = {path for path in place.public.parent.rglob("*") if path.is_dir()}
        assert contents(place.public.parent) == before
        assert folders == ({place.public, place.config, place.config / "Users"} if tree == "bare" else set())

    def test_a_file_that_came_meanwhile_stays(self, bare):
        """And what was written before it goes again."""
        files = new_files(bare)
        (bare.config / "Users/mira.json").write_text("mine")
        before = contents(bare.public)
        with pytest.raises(FileExistsError):
            write_setup(bare, files, "mira")
        assert contents(bare.public) == before

    def test_a_disk_without_links(self, bare, monkeypatch):
        """Some memory sticks have none."""

        def refuse(source, target):
            raise PermissionError(1, "Operation not permitted")

        monkeypatch.setattr(os, "link", refuse)
        write_setup(bare, new_files(bare), "mira")
        with pytest.raises(FileExistsError):
            write_setup(bare, {"Users/ana.json": json_bytes({})}, "ana")
        assert (bare.config / "Users/ana.json").read_text() == '{"port": 5000}'
        assert not list(bare.public.rglob("*.tmp"))
