"""`--init [DIR]` writes the Public folder that came with the program."""

from __future__ import annotations

import os
import shutil
from argparse import Namespace
from pathlib import Path

import pytest

from Middleware.api.commands import init
from Middleware.api.launch_arguments import parse
from Middleware.common import instance_global_variables
from Middleware.common.instance_global_variables import INSTALL_DIRECTORY, shipped_public
from Middleware.utilities.install_layout import OWN_FOLDER

OWN = tuple(f"Configs/{OWN_FOLDER}/{name}.json" for name in ("Main", "Embeddings"))
"""Files of the user's own; a clone that was started has them, a wheel has not."""


def ship(place: Path, monkeypatch) -> Path:
    """Put the examples where a wheel has them below `place`; the Public folder there."""
    shipped = place / "Middleware" / "shipped"
    for part in init.PARTS:
        shutil.copytree(INSTALL_DIRECTORY / "Public" / part, shipped / "Public" / part)
    for name in OWN:
        (shipped / "Public" / name).unlink(missing_ok=True)
    for module in ("Middleware.common.instance_global_variables", "Middleware.utilities.install_layout"):
        monkeypatch.setattr(f"{module}.SHIPPED_DIRECTORY", shipped)
    return shipped / "Public"


def contents(folder: Path) -> dict[str, bytes]:
    files = [file for file in folder.rglob("*") if file.is_file() and "__pycache__" not in file.parts]
    return {file.relative_to(folder).as_posix(): file.read_bytes() for file in files}


def test_the_examples_are_written(tmp_path, capsys, monkeypatch):
    """All of them, byte by byte, into a folder that is made, and the user's own endpoints; the next steps are said."""
    shipped = ship(tmp_path / "site-packages", monkeypatch)
    assert init.Init().run(Namespace(init=str(tmp_path / "a" / "b c"))) == 0
    made = tmp_path / "a" / "b c" / "Public"
    own = {name: (shipped / name.replace(".json", ".example.json")).read_bytes() for name in OWN}
    assert contents(made) == contents(shipped) | own
    assert [entry.name for entry in made.parent.iterdir()] == ["Public"]
    count, start, model = capsys.readouterr().out.splitlines()
    assert count == f"{made}: wrote {len(contents(made))} files"
    assert model == f"To use your own model server, change three fields of {made / OWN[0]}"
    quote = '"' if os.name == "nt" else "'"
    assert start == f"Start the server with: headrace --PublicDirectory {quote}{made}{quote}"


def test_data_of_a_server_stays_where_it_is(tmp_path, capsys, monkeypatch):
    """A clone's Public folder holds discussions, locks and logs, and what Python leaves behind."""
    shipped = ship(tmp_path / "site-packages", monkeypatch)
    for name in (
        "logs/a.log",
        "DiscussionIds/d/timestamps.json",
        "workflow_python_scripts/__pycache__/a.pyc",
    ):
        (shipped / name).parent.mkdir(parents=True, exist_ok=True)
        (shipped / name).write_text("mine")
    assert init.Init().run(Namespace(init=str(tmp_path))) == 0
    assert b"mine" not in contents(tmp_path / "Public").values()
    assert sorted(entry.name for entry in (tmp_path / "Public").iterdir()) == sorted(init.PARTS)


def test_read_only_files_give_files_that_can_be_changed(tmp_path, monkeypatch):
    """Some installers make theirs so."""
    shipped = ship(tmp_path / "site-packages", monkeypatch)
    demo = Path("Configs/Endpoints/my-model/Main.example.json")
    (shipped / demo).chmod(0o444)
    assert init.Init().run(Namespace(init=str(tmp_path))) == 0
    assert (tmp_path / "Public" / demo).stat().st_mode & 0o200


@pytest.mark.parametrize("there", ["folder", "file", "dead-link"])
def test_what_is_there_is_not_touched(tmp_path, capsys, there):
    """Not even an empty folder or a link that leads nowhere."""
    public = tmp_path / "Public"
    if there == "folder":
        public.mkdir()
    elif there == "file":
        public.write_text("mine")
    else:
        public.symlink_to(tmp_path / "nowhere")
    before = os.lstat(public)
    assert init.Init().run(Namespace(init=str(tmp_path))) == 1
    assert capsys.readouterr().out == (
        f"{public}: error: it already exists and is not overwritten; give --init another folder\n"
    )
    assert os.lstat(public) == before and [entry.name for entry in tmp_path.iterdir()] == ["Public"]


@pytest.mark.parametrize("failure", [OSError(28, "No space left on device"), KeyboardInterrupt()], ids=repr)
def test_it_is_whole_or_not_there(tmp_path, capsys, monkeypatch, failure):
    """A full disk, or a Ctrl-C, in the middle."""
    copied = []

    def copy(source, target):
        if len(copied) == 20:
            raise failure
        copied.append(target)
        Path(target).write_bytes(Path(source).read_bytes())

    monkeypatch.setattr(shutil, "copyfile", copy)
    if isinstance(failure, OSError):
        assert init.Init().run(Namespace(init=str(tmp_path))) == 1
        assert (
            capsys.readouterr().out
            == f"{tmp_path / 'Public'}: error: cannot be written: {failure.strerror}\n"
        )
    else:
        with pytest.raises(KeyboardInterrupt):
            init.Init().run(Namespace(init=str(tmp_path)))
    assert len(copied) == 20 and list(tmp_path.iterdir()) == []


def test_a_full_disk_is_told_with_the_copy(tmp_path, monkeypatch):
    """Systems name what was read."""

    def copy(source, target):
        raise OSError(28, "No space left on device", source, None, target)

    monkeypatch.setattr(shutil, "copyfile", copy)
    with pytest.raises(OSError, match="No space left") as raised:
        init.copy_examples(shipped_public(), tmp_path / "made")
    assert raised.value.filename.startswith(str(tmp_path / "made"))


def test_a_place_that_is_a_file_is_told(tmp_path, capsys):
    (tmp_path / "file").write_text("x")
    assert init.Init().run(Namespace(init=str(tmp_path / "file"))) == 1
    assert "error: cannot be written" in capsys.readouterr().out


def test_a_clone_without_its_examples_is_told(tmp_path, capsys, monkeypatch):
    """They were moved away."""
    monkeypatch.setattr(instance_global_variables, "INSTALL_DIRECTORY", tmp_path)
    assert init.Init().run(Namespace(init=str(tmp_path / "new"))) == 1
    assert capsys.readouterr().out == (
        f"{shipped_public()}: error: the examples that come with the program are missing\n"
    )
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize(
    ("words", "folder"), [((), "."), (("x",), "x"), (("x", "--User", "demo"), "x")], ids=" ".join
)
def test_the_command_line(words, folder):
    """Without a folder: the working directory."""
    launch = parse(("--init", *words))
    assert isinstance(launch.command, init.Init) and launch.arguments.init == folder
