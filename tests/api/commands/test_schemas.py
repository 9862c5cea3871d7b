"""`--schemas DIR` writes the JSON Schemas."""

from __future__ import annotations

import json
import re
from argparse import Namespace
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import url2pathname

import pytest
from jsonschema import Draft202012Validator
from referencing import Registry, Resource

from Middleware.api.commands import schemas
from Middleware.common.instance_global_variables import INSTALL_DIRECTORY
from tests.shipped import CONFIGS


def test_schemas_are_written(tmp_path, capsys):
    folder = tmp_path / "a" / "b"
    assert schemas.Schemas().run(Namespace(schemas=str(folder))) == 0
    assert json.loads((folder / "user.json").read_text(encoding="utf-8"))["title"] == "User"
    node = json.loads((folder / "node" / "Standard.json").read_text(encoding="utf-8"))
    assert node["properties"]["type"]["enum"] == ["Standard", None]
    assert "schemas" in capsys.readouterr().out


def test_a_folder_that_cannot_be_written_is_told(tmp_path, capsys):
    (tmp_path / "file").write_text("x", encoding="utf-8")
    assert schemas.Schemas().run(Namespace(schemas=str(tmp_path / "file"))) == 1
    assert "cannot be written" in capsys.readouterr().out


SNIPPETS = [
    (page, block)
    for page in ("docs/commands.md",)
    for block in re.findall(r"```json\n(.*?)```", (INSTALL_DIRECTORY / page).read_text("utf-8"), re.S)
    if "json.schemas" in block
]


def schema_of(file, associations):
    """The schemas that VS Code asks of a file: of each association whose last pattern that fits is no exception."""
    found = []
    for association in associations:
        fits = False
        for pattern in association["fileMatch"]:
            glob = re.escape(pattern.removeprefix("!")).replace(r"\*\*/", "(?:.*/)?").replace(r"\*", "[^/]*")
            if re.fullmatch(glob, file):
                fits = not pattern.startswith("!")
        if fits:
            found.append(association["url"])
    return found


def resource(uri):
    """A schema that another one names by its place beside it."""
    return Resource.from_contents(json.loads(Path(url2pathname(urlsplit(uri).path)).read_text("utf-8")))


@pytest.mark.parametrize(("page", "block"), SNIPPETS, ids=[page for page, _ in SNIPPETS])
def test_the_settings_for_vs_code_underline_no_file_that_ships(tmp_path, page, block):
    """Each page's snippet asks only what the file is meant to be."""
    assert schemas.Schemas().run(Namespace(schemas=str(tmp_path / "schemas"))) == 0
    associations = json.loads(block)["json.schemas"]
    registry = Registry(retrieve=resource)
    wrong, asked = [], 0
    for path in sorted(CONFIGS.rglob("*.json")):
        for url in schema_of(f"/Public/Configs/{path.relative_to(CONFIGS).as_posix()}", associations):
            document = json.loads(path.read_text("utf-8"))
            asked += 1
            validator = Draft202012Validator({"$ref": (tmp_path / url).as_uri()}, registry=registry)
            wrong += [f"{path.name}: {error.message[:100]}" for error in validator.iter_errors(document)]
    assert wrong == [] and asked > 20
