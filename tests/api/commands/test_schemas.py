"""`--schemas DIR` writes the JSON Schemas."""

from __future__ import annotations

import json
from argparse import Namespace

from Middleware.api.commands import schemas


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
