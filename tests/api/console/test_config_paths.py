"""Which addresses are files: spec 16.8."""

from __future__ import annotations

import os

import pytest

from Middleware.api.console.config_files import OTHER_FOLDERS, config_file
from Middleware.api.console.view_contract import ViewRefused


@pytest.fixture
def root(tmp_path):
    """A tree with one workflow, one endpoint, and things that are no files of it."""
    root = tmp_path / "Configs"
    (root / "Workflows" / "mira").mkdir(parents=True)
    (root / "Endpoints").mkdir()
    (root / "Secrets").mkdir()
    for file in ("Workflows/mira/Größe.json", "Endpoints/a.json", "Secrets/a.json", "Workflows/mira/a.txt"):
        (root / file).write_text("{}")
    (tmp_path / "outside.json").write_text("{}")
    (root / "Workflows" / "mira" / "out.json").symlink_to(tmp_path / "outside.json")
    (root / "Workflows" / "mira" / "in.json").symlink_to(root / "Endpoints" / "a.json")
    (root / "Workflows" / "mira" / "loop.json").symlink_to("loop.json")
    (root / "Workflows" / "away").symlink_to(tmp_path)
    (root / "Workflows" / "mira" / "folder.json").mkdir()
    os.mkfifo(root / "Workflows" / "mira" / "pipe.json")
    return root


class TestFound:
    def test_a_file_is_found_where_it_really_is(self, root):
        """With the top folder that it lies in."""
        place = config_file(root, "Workflows/mira/Größe.json")
        assert (place.file, place.real_folder) == ("Workflows/mira/Größe.json", "Workflows")
        assert place.real == (root / "Workflows/mira/Größe.json").resolve()

    def test_a_link_inside_of_the_tree_is_followed(self, root):
        """It is told where it leads."""
        assert config_file(root, "Workflows/mira/in.json").real_folder == "Endpoints"

    def test_the_root_may_be_a_link(self, root, tmp_path):
        """It is the tree all the same."""
        (tmp_path / "linked").symlink_to(root)
        assert config_file(tmp_path / "linked", "Endpoints/a.json", OTHER_FOLDERS).real_folder == "Endpoints"


REFUSED = [
    *("Workflows/../Endpoints/a.json", "Workflows/mira/..%2Fx.json", "Workflows//a.json", "/etc/passwd"),
    *("Workflows/mira/a.txt", "Workflows/mira/a.json\0", "Workflows/mira/Größe.json/", "Workflows/C:a.json"),
    *(
        "Workflows/mira/..",
        "workflows/mira/Größe.json",
        "Workflows/mira/größe.json",
        "Workflows/mira/out.json",
    ),
    *("Workflows/mira/pipe.json", "Workflows/mira/folder.json", f"Workflows/mira/{'a' * 251}.json"),
    *("Workflows/mira/loop.json", "Workflows/away/outside.json", "Secrets/a.json", "Endpoints/a.json", ""),
    *("Workflows.json", ".json", "Workflows/.json", "Workflows\\mira\\a.json", "Workflows/mira/\ud800.json"),
    *("Workflows/mira/Größe.JSON", "Workflows/./mira/Größe.json", "Workflows/mira/nothing.json"),
    "Workflows/mira/Gro\u0308ße.json",
]


@pytest.mark.parametrize("path", REFUSED)
def test_every_other_path_is_no_file(root, path):
    """One sentence for all."""
    with pytest.raises(ViewRefused) as refused:
        config_file(root, path)
    assert (refused.value.status, refused.value.value) == (404, {"error": "no such file"})


def test_each_route_has_its_folders(root):
    """What is no workflow is found by the other route alone."""
    assert config_file(root, "Endpoints/a.json", OTHER_FOLDERS).real_folder == "Endpoints"
    with pytest.raises(ViewRefused):
        config_file(root, "Workflows/mira/Größe.json", OTHER_FOLDERS)
