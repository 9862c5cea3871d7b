"""`--update-check` asks the package index that pip is set to, once, and says both versions."""

from __future__ import annotations

import os
import subprocess
import sys
import venv
from argparse import Namespace
from email.message import Message

import pytest

from Middleware.api.commands import update_check
from Middleware.api.commands.update_check import UpdateCheck
from Middleware.common.constants import VERSION
from tests.e2e.installed import EXE, SCRIPTS

UNKNOWN = "ERROR: No matching distribution found for headrace"


@pytest.fixture
def index(tmp_path, monkeypatch):
    """`index(*versions)`: a package index that has these, which pip of this test is set to."""

    def make(*versions):
        page = tmp_path / "simple" / "headrace" / "index.html"
        page.parent.mkdir(parents=True)
        files = [f"headrace-{version}-py3-none-any.whl" for version in versions]
        page.write_text("".join(f'<a href="{file}">{file}</a>' for file in files), "utf-8")
        for name in ("PIP_NO_INDEX", "PIP_EXTRA_INDEX_URL", "PIP_FIND_LINKS", "PIP_CONFIG_FILE"):
            monkeypatch.delenv(name, raising=False)
        monkeypatch.setenv("PIP_CONFIG_FILE", str(tmp_path / "none.conf"))
        monkeypatch.setenv("PIP_INDEX_URL", (tmp_path / "simple").as_uri())

    return make


@pytest.fixture
def told(capsys):
    """`told()`: exit status and the lines that are printed."""

    def run():
        status = UpdateCheck().run(Namespace())
        return status, capsys.readouterr().out.splitlines()

    return run


def test_a_newer_version(index, told):
    """The newest of all, not the last of the page."""
    index("0.0.1", "9999.10.0", "9999.9.1")
    status, lines = told()
    assert (status, lines[:2]) == (0, [f"installed: {VERSION}", "newest:    9999.10.0"])
    assert lines[2].startswith("changes:   ") and "CHANGELOG.md" in lines[2]


@pytest.mark.parametrize("version", [VERSION, "0.0.1"])
def test_no_newer_one(index, told, version):
    """What is installed may be newer than what is published."""
    index(version)
    assert told()[1][1] == f"newest:    {version}, so there is no update"


def test_an_index_without_it(index, told):
    """What pip says of it, and where the changes are all the same."""
    index()
    status, lines = told()
    assert (status, lines[1]) == (1, f"newest:    unknown, pip says: {UNKNOWN}")
    assert lines[2].startswith("changes: ")


@pytest.mark.parametrize(
    ("variable", "address"),
    [("PIP_INDEX_URL", "http://127.0.0.1:9/simple"), ("PIP_PROXY", "http://127.0.0.1:9")],
    ids=["no-index", "a-proxy-that-refuses"],
)
def test_an_index_that_is_not_there(index, told, monkeypatch, variable, address):
    """It isn't said that the index doesn't know the package: pip's last line says so here, too."""
    index("9999.0.0")
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.2:9/simple")
    monkeypatch.setenv(variable, address)
    status, lines = told()
    assert status == 1 and UNKNOWN not in lines[1]
    assert lines[1].startswith("newest:    unknown, pip says: Could not fetch URL http://127.0.0.")
    assert "onnection" in lines[1] and "skipping" not in lines[1]


def test_a_python_without_pip(monkeypatch, told, tmp_path):
    """One sentence."""
    venv.EnvBuilder(with_pip=False, symlinks=os.name != "nt").create(tmp_path / "bare")
    monkeypatch.setattr(sys, "executable", str(tmp_path / "bare" / SCRIPTS / f"python{EXE}"))
    status, lines = told()
    assert status == 1 and lines[1].endswith(": No module named pip")


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (subprocess.TimeoutExpired("pip", 60), "the package index did not answer within 60 s"),
        (FileNotFoundError(2, "No such file"), "pip cannot be started: [Errno 2] No such file"),
    ],
    ids=["slow", "no-python"],
)
def test_no_answer(monkeypatch, told, error, said):
    """One sentence, no traceback."""

    def fail(*words, **how):
        raise error

    monkeypatch.setattr(subprocess, "run", fail)
    assert told()[1][1] == f"newest:    unknown, {said}"


def test_the_address_of_the_changelog(monkeypatch, told, index):
    """That of the package, once it is installed."""
    package = Message()
    package["Project-URL"] = "Source, https://example.com/source"
    package["Project-URL"] = "Changelog, https://example.com/changes"
    monkeypatch.setattr(update_check, "is_installed", lambda: True)
    monkeypatch.setattr(update_check, "metadata", lambda name: package)
    index(VERSION)
    assert told()[1][2] == "changes:   https://example.com/changes"
