"""`./check PATH` and `./check --changed`: which tests belong to what was changed."""

from __future__ import annotations

import importlib.util
import subprocess
from pathlib import Path

import pytest

HOUSE = Path(__file__).resolve().parents[1]
spec = importlib.util.spec_from_file_location("check_paths", HOUSE / "tools/check_paths.py")
assert spec is not None and spec.loader is not None
check_paths = importlib.util.module_from_spec(spec)
spec.loader.exec_module(check_paths)


@pytest.mark.parametrize(
    ("path", "tests"),
    [
        ("Middleware/api/commands/doctor.py", ["tests/api/commands/test_doctor.py"]),
        ("Middleware/api/console/static/shared/bar.js", ["tests/api/console"]),
        ("Middleware/protocols", ["tests/protocols"]),
        ("tests/api/test_api_server.py", ["tests/api/test_api_server.py"]),
        ("tests/api/test_api_server.py::test_x", ["tests/api/test_api_server.py::test_x"]),
        ("tests/api/conftest.py", ["tests/api"]),
        (
            "tests/workflows/memory/test_vector_store.py",
            [
                f"tests/workflows/memory/test_{name}.py"
                for name in ("vector_store", "golden_folders", "vector_takeover")
            ],
        ),
        ("tests/cleaning", ["tests/cleaning"]),
        ("server.py", ["tests/test_server.py"]),
        ("docs/server.md", []),
        ("README.md", []),
        ("Public/Configs/Users/demo.json", ["tests/e2e/test_example_users.py"]),
        ("run", list(check_paths.SCRIPTS)),
    ],
)
def test_the_tests_of_a_path(path, tests):
    """Its mirror, else the nearest folder; pages are asked by the rules of the tree."""
    assert check_paths.tests_of(path) == tests


def test_the_words_for_pytest():
    """Each test once, the rules behind them, options last."""
    words = check_paths.arguments(["server.py", "tests/test_server.py", "-x", "-k", "a b"])
    assert words == ["tests/test_server.py", *check_paths.RULES, "-x", "-k", "a b"]


def test_options_alone_are_for_all_tests():
    """Without coverage: `./check -k stop`."""
    assert check_paths.arguments(["-k", "stop"]) == ["-k", "stop"]


def test_a_path_that_is_not_there_is_told():
    """Before anything runs."""
    with pytest.raises(SystemExit, match=r"^no/such\.py: there is no such file"):
        check_paths.arguments(["no/such.py"])


@pytest.mark.parametrize("rule", check_paths.RULES)
def test_the_rules_are_there(rule):
    """As named."""
    assert (HOUSE / rule).is_file()


def test_what_differs_from_the_last_commit(tmp_path, monkeypatch, capsys):
    """Edited and new files, with any name; not those that are gone or ignored."""
    monkeypatch.setattr(check_paths, "HOUSE", tmp_path)

    def git(*words):
        who = ("-c", "user.name=a", "-c", "user.email=a@b")
        subprocess.run(["git", *who, *words], cwd=tmp_path, check=True, capture_output=True)

    git("init")
    for name in ("kept", "edited", "gone", ".gitignore"):
        (tmp_path / name).write_text("ignored")
    git("add", ".")
    git("commit", "-m", "x")
    assert check_paths.main(["--changed"]) == 0 and "nothing has changed" in capsys.readouterr().out
    (tmp_path / "edited").write_text("2")
    (tmp_path / "gone").unlink()
    for name in ("ignored", "new one"):
        (tmp_path / name).write_text("x")
    assert sorted(check_paths.changed()) == ["edited", "new one"]


@pytest.mark.parametrize("script", ["check", "check.bat"])
def test_only_all_tests_together_have_a_limit_of_coverage(script):
    """A few of them cannot reach it."""
    text = (HOUSE / script).read_text("utf-8")
    limited = [line for line in text.splitlines() if "--cov-fail-under" in line]
    assert len(limited) == 1 and "$@" not in limited[0] and "%*" not in limited[0]
    assert "check_paths.py" in text
