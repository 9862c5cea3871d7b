"""`.venv` is whole or not there, whatever interrupts its making; nothing of anybody else is removed."""

from __future__ import annotations

import importlib.util
import os
import subprocess
from pathlib import Path

import pytest

from tests.patience import PATIENCE_S

HOUSE = Path(__file__).resolve().parents[1]
spec = importlib.util.spec_from_file_location("make_venv", HOUSE / "deploy/make_venv.py")
make_venv = importlib.util.module_from_spec(spec)
spec.loader.exec_module(make_venv)


@pytest.fixture
def folder(tmp_path):
    return str(tmp_path / ".venv")


def test_a_new_one_is_whole(folder):
    """It can install, and its scripts name the place where it stands."""
    assert make_venv.main(folder) == 0
    assert make_venv.has_pip(folder)
    assert os.listdir(os.path.dirname(folder)) == [".venv"]
    scripts = Path(folder, make_venv.SCRIPTS)
    assert ".making-" not in "".join(p.read_text() for p in scripts.glob("[Aa]ctivate*"))
    shown = subprocess.run([scripts / "pip", "--version"], capture_output=True, text=True, timeout=PATIENCE_S)
    assert folder in shown.stdout


@pytest.mark.parametrize("stop", [KeyboardInterrupt, OSError])
def test_an_interrupted_one_leaves_nothing(folder, monkeypatch, stop):
    """Not even half of one, which a later start would take for whole."""

    def create(builder, path):
        Path(path, make_venv.SCRIPTS).mkdir(parents=True)
        raise stop

    monkeypatch.setattr(make_venv.venv.EnvBuilder, "create", create)
    with pytest.raises(stop):
        make_venv.main(folder)
    assert os.listdir(os.path.dirname(folder)) == []


def test_two_starts_at_once_make_one(folder, monkeypatch):
    """The second uses the environment of the first, whose files stay; it does not say that something is missing."""

    def create(builder, path):
        Path(path, make_venv.SCRIPTS).mkdir(parents=True)
        Path(folder, "first").mkdir(parents=True)

    monkeypatch.setattr(make_venv.venv.EnvBuilder, "create", create)
    monkeypatch.setattr(make_venv, "has_pip", lambda path: Path(path, "first").exists())
    assert make_venv.main(folder) == 0
    assert os.listdir(os.path.dirname(folder)) == [".venv"] and os.listdir(folder) == ["first"]


def test_a_folder_in_the_way_is_no_environment(folder, monkeypatch):
    """Something else that came up there is told, and left."""

    def create(builder, path):
        Path(path, make_venv.SCRIPTS).mkdir(parents=True)
        Path(folder, "mine").mkdir(parents=True)

    monkeypatch.setattr(make_venv.venv.EnvBuilder, "create", create)
    with pytest.raises(OSError):
        make_venv.main(folder)
    assert os.listdir(folder) == ["mine"]


def test_one_without_pip_is_repaired(folder, capsys):
    """What an older version left after a Ctrl-C."""
    make_venv.venv.EnvBuilder(with_pip=False, symlinks=os.name != "nt").create(folder)
    assert make_venv.main(folder) == 0
    assert make_venv.has_pip(folder)
    assert "repaired" in capsys.readouterr().out


def test_what_cannot_be_repaired_is_left_alone(folder):
    """It may be somebody's; the sentence says what to do."""
    Path(folder).mkdir()
    Path(folder, "mine").write_text("x")
    assert "remove that folder, then start again" in make_venv.main(folder)
    assert os.listdir(folder) == ["mine"]


def test_an_old_python_makes_nothing(folder, monkeypatch):
    """The version is asked for before the folder is made."""
    monkeypatch.setattr(make_venv.sys, "version_info", (3, 10, 2))
    assert make_venv.main(folder).startswith("Headrace needs Python 3.11 or newer; this is")
    assert not os.path.exists(folder)


@pytest.mark.parametrize("script", ["run", "check", "run.bat", "check.bat"])
def test_every_script_calls_it(script):
    """None makes an environment in another way, or installs into it beside another start."""
    text = (HOUSE / script).read_text("utf-8")
    assert "make_venv.py" in text and "-m venv" not in text
    assert "install.py" in text and "pip install" not in text
