"""Installing into `.venv`: once for each content of the metadata, and one start at a time; `--help` needs none of it."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.patience import PATIENCE_S

HOUSE = Path(__file__).resolve().parents[1]
spec = importlib.util.spec_from_file_location("install", HOUSE / "deploy/install.py")
install = importlib.util.module_from_spec(spec)
spec.loader.exec_module(install)

LOCKER = """
import sys
sys.path.insert(0, sys.argv[1])
from pathlib import Path
import install
install.pip = lambda words: [sys.executable, "-c", "pass"]
sys.exit(install.install("run", Path(sys.argv[2]), b"new"))
"""


@pytest.fixture
def calls(monkeypatch):
    """What pip would have been called with."""
    made = []
    monkeypatch.setattr(install, "pip", lambda words: made.append(words) or [sys.executable, "-c", "pass"])
    return made


@pytest.mark.parametrize("part", install.PARTS)
def test_a_part_is_installed_once(tmp_path, calls, capfd, part):
    """Until the metadata change."""
    stamp = tmp_path / "stamp"
    for wanted in (b"1", b"1", b"2"):
        assert install.install(part, stamp, wanted) == 0
    assert calls == install.PARTS[part][1] * 2 and stamp.read_bytes() == b"2"
    assert capfd.readouterr().out.count("installing ") == 2


def test_a_failure_is_tried_again(tmp_path, monkeypatch):
    """Its status is the script's, and nothing says that it is done."""
    monkeypatch.setattr(install, "pip", lambda words: [sys.executable, "-c", "raise SystemExit(3)"])
    assert install.install("run", tmp_path / "stamp", b"1") == 3
    assert not (tmp_path / "stamp").exists()


def test_a_second_start_waits_and_installs_nothing(tmp_path):
    """It says that it waits; what it was about to do is done by then."""
    stamp = tmp_path / "stamp"
    words = [sys.executable, "-u", "-c", LOCKER, str(HOUSE / "deploy"), str(stamp)]
    with install.alone(tmp_path):
        second = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
        assert second.stdout is not None
        first_line = second.stdout.readline()
        stamp.write_bytes(b"new")
    rest, _ = second.communicate(timeout=PATIENCE_S)
    assert first_line == "another start is installing; waiting for it ...\n"
    assert (rest, second.returncode) == ("", 0)


def test_the_command_line(tmp_path, calls, monkeypatch):
    """Without a text the stamp is the metadata's."""
    monkeypatch.setattr(install, "HOUSE", tmp_path)
    (tmp_path / ".venv").mkdir()
    (tmp_path / "setup.cfg").write_text("[metadata]")
    assert (
        install.main(["test", ".installed-test.cfg"]) == install.main(["run", ".installed-run", "1 2"]) == 0
    )
    assert (tmp_path / ".venv/.installed-test.cfg").read_text() == "[metadata]"
    assert (tmp_path / ".venv/.installed-run").read_text() == "1 2\n"


@pytest.mark.skipif(os.name == "nt", reason="a script for sh")
@pytest.mark.parametrize("word", ["--help", "-h"])
def test_help_installs_nothing(tmp_path, word):
    """On a bare machine, without any Python."""
    shutil.copy(HOUSE / "run", tmp_path / "run")
    done = subprocess.run(
        ["bash", tmp_path / "run", word],
        env={"PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "--local-model" in done.stdout and "docs/server.md" in done.stdout
    assert [file.name for file in tmp_path.iterdir()] == ["run"]
