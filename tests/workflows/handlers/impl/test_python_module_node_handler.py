"""PythonModule: scripts of users, their arguments and where they may lie."""

from __future__ import annotations

import dataclasses
import sys

import pytest

from Middleware.common.errors import ConfigError
from Middleware.common.instance_global_variables import INSTALL_DIRECTORY, launch_facts
from Middleware.utilities.file_utils import PathLeaves, PathRefused

ECHO = "def Invoke(*args, **kwargs):\n    return [list(args), kwargs]\n"


@pytest.fixture(autouse=True)
def search_path(monkeypatch):
    monkeypatch.setattr(sys, "path", list(sys.path))


@pytest.fixture
def script(bench, tmp_path):
    """`{dir}/tool.py`, which gives back its arguments."""
    (tmp_path / "scripts").mkdir()
    bench.engine.fixed["dir"] = str(tmp_path / "scripts")
    path = tmp_path / "scripts" / "tool.py"
    path.write_text(ECHO)
    return path


ARGS = ["{x}", 7, 1.5, True, None, ["{x}", 1], {"k": "{x}"}]


class TestArguments:
    """Texts by default, JSON values on wish."""

    def test_every_argument_is_a_text_with_its_variables_filled(self, bench, script):
        bench.engine.values["x"] = "X"
        args, kwargs = bench(
            "PythonModule", module_path="{dir}/tool.py", args=ARGS, kwargs={"n": 2, "s": "{x}"}
        )
        assert args == ["X", "7", "1.5", "True", "None", "['X', 1]", "{'k': 'X'}"]
        assert kwargs == {"n": "2", "s": "X"}

    def test_native_values_stay_what_they_are(self, bench, script):
        bench.engine.values["x"] = "X"
        fields = {"args": ARGS, "kwargs": {"n": 2}, "argTypes": "native"}
        args, kwargs = bench("PythonModule", module_path="{dir}/tool.py", **fields)
        assert args == ["X", 7, 1.5, True, None, ["X", 1], {"k": "X"}]
        assert kwargs == {"n": 2}

    def test_a_script_cannot_change_the_workflow(self, bench, script):
        script.write_text("def Invoke(a, k):\n    a.append(1)\n    k['x'] = 1\n")
        args = [["a"], {"k": 1}]
        assert bench("PythonModule", module_path="{dir}/tool.py", args=args, argTypes="native") is None
        assert args == [["a"], {"k": 1}]

    @pytest.mark.parametrize("fields", [{}, {"args": None, "kwargs": None}], ids=repr)
    def test_none_are_needed(self, bench, script, fields):
        assert bench("PythonModule", module_path="{dir}/tool.py", **fields) == [[], {}]


class TestScript:
    """Which file runs."""

    @pytest.mark.parametrize("fields", [{}, {"module_path": ""}, {"module_path": None}], ids=repr)
    def test_without_a_path_it_is_an_error(self, bench, fields):
        with pytest.raises(ConfigError, match="module_path"):
            bench("PythonModule", **fields)
        assert bench.findings("PythonModule", **fields)[0] != []

    def test_a_missing_file_is_an_error(self, bench, script):
        with pytest.raises(FileNotFoundError, match="no file"):
            bench("PythonModule", module_path="{dir}/other.py")

    def test_the_example_of_the_house_runs(self, bench):
        output = bench(
            "PythonModule",
            module_path="Public/workflow_python_scripts/text_statistics.py",
            args=["One two. Three four five!"],
            kwargs={"words_per_minute": 60},
        )
        assert output == "5 words, 2 sentences, about 1 minute to read"

    def test_a_run_time_value_is_warned_of_and_cannot_leave_its_folder(self, bench, script, tmp_path):
        (tmp_path / "evil.py").write_text(ECHO)
        bench.engine.values["which"] = "tool"
        assert bench("PythonModule", module_path="{dir}/{which}.py") == [[], {}]
        assert "run-time value" in bench.engine.warnings[0]
        bench.engine.values["which"] = "../evil"
        with pytest.raises(PathLeaves):
            bench("PythonModule", module_path="{dir}/{which}.py")

    def test_a_relative_base_counts_from_the_install_folder(self, bench, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        bench.engine.values["which"] = "text_statistics"
        output = bench("PythonModule", module_path="Public/workflow_python_scripts/{which}.py", args=["a b"])
        assert output.startswith("2 words")

    def test_a_base_in_a_public_root_of_another_name_holds_it(self, bench, tmp_path, monkeypatch):
        """`Public/own` is `own` there, for the script and for the folder that it must not leave."""
        public = tmp_path / "headrace-data"
        (public / "own").mkdir(parents=True)
        (public / "own" / "tool.py").write_text(ECHO)
        (public / "evil.py").write_text(ECHO)
        monkeypatch.chdir(tmp_path)
        facts = dataclasses.replace(launch_facts(), public_directory=public)
        monkeypatch.setattr("Middleware.common.instance_global_variables._facts", facts)
        bench.engine.values["which"] = "tool"
        assert bench("PythonModule", module_path="Public/own/{which}.py") == [[], {}]
        bench.engine.values["which"] = "../evil"
        with pytest.raises(PathLeaves):
            bench("PythonModule", module_path="Public/own/{which}.py")

    @pytest.mark.parametrize(
        ("roots", "runs"),
        [
            (None, True),
            (("{dir}",), True),
            (("/nowhere", "{dir}/.."), True),
            ((), False),
            (("{dir}/sub", "Public"), False),
        ],
        ids=["anywhere", "its-folder", "a-parent", "none", "others"],
    )
    def test_the_users_roots_confine_it(self, bench, script, roots, runs):
        named = None if roots is None else tuple(root.replace("{dir}", str(script.parent)) for root in roots)
        bench.user = dataclasses.replace(bench.user, python_module_roots=named)
        if runs:
            assert bench("PythonModule", module_path="{dir}/tool.py") == [[], {}]
        else:
            with pytest.raises(ConfigError, match="pythonModuleRoots"):
                bench("PythonModule", module_path="{dir}/tool.py")

    @pytest.mark.parametrize(
        "which",
        [
            "../evil",
            "x/../../evil",
            "link",
            "linked/evil",
            "./../evil",
            "..//evil",
            "roots/../../evil",
            "//../evil",
            "../roots2/evil",
            "..\\evil",
            "~/evil",
            "\u2025/evil",
            "%2e%2e/evil",
            "evil\0",
        ],
        ids=ascii,
    )
    @pytest.mark.parametrize("confine", [True, False], ids=["roots", "base-only"])
    def test_no_spelling_leaves_the_folder(self, bench, tmp_path, which, confine):
        """By a name that a model wrote; also into a folder whose name begins like the root's."""
        ran = tmp_path / "ran"
        evil = f"open({str(ran)!r}, 'w').close()\ndef Invoke(): pass\n"
        for folder in ("roots/x", "roots2", "other"):
            (tmp_path / folder).mkdir(parents=True)
        for place in ("evil.py", "roots2/evil.py", "other/evil.py"):
            (tmp_path / place).write_text(evil)
        (tmp_path / "roots" / "link.py").symlink_to(tmp_path / "evil.py")
        (tmp_path / "roots" / "linked").symlink_to(tmp_path / "other")
        bench.engine.values |= {"which": which, "root": str(tmp_path / "roots")}
        if confine:
            bench.user = dataclasses.replace(bench.user, python_module_roots=(str(tmp_path / "roots"),))
        with pytest.raises((PathRefused, ConfigError, FileNotFoundError)):
            bench("PythonModule", module_path=f"{tmp_path}/roots/{{which}}.py")
        assert not ran.exists()

    def test_a_link_out_of_the_roots_is_refused(self, bench, script, tmp_path):
        (tmp_path / "roots").mkdir()
        (tmp_path / "roots" / "link.py").symlink_to(script)
        bench.user = dataclasses.replace(bench.user, python_module_roots=(str(tmp_path / "roots"),))
        with pytest.raises(ConfigError, match="pythonModuleRoots"):
            bench("PythonModule", module_path=str(tmp_path / "roots" / "link.py"))


def test_a_time_limit(bench, script):
    """It gives up with an error."""
    script.write_text("import threading\ndef Invoke():\n    threading.Event().wait(0.5)\n")
    with pytest.raises(TimeoutError):
        bench("PythonModule", module_path="{dir}/tool.py", timeoutSeconds=0.02)


def test_the_log_names_the_node(bench, script, caplog):
    """Workflow file and node number."""
    script.write_text("def Invoke():\n    1 / 0\n")
    assert bench("PythonModule", module_path="{dir}/tool.py").startswith("Error: An unexpected error")
    assert "Workflows/ana/Main.json: node 2" in caplog.text


def test_a_dry_run_tells_the_script(bench, script):
    """It is not run."""
    assert bench.notes("PythonModule", module_path="{dir}/tool.py") == [f"would run {script}"]


@pytest.mark.parametrize(
    ("fields", "wrong"),
    [
        ({"args": "x"}, ["/args"]),
        ({"kwargs": []}, ["/kwargs"]),
        ({"timeoutSeconds": 0}, ["/timeoutSeconds"]),
        ({"argTypes": "json"}, ["/argTypes"]),
        ({"args": [1], "kwargs": {}, "timeoutSeconds": 0.5, "argTypes": "text"}, []),
    ],
    ids=repr,
)
def test_schema(bench, fields, wrong):
    """Types that matter."""
    assert bench.findings("PythonModule", module_path="x", **fields) == (wrong, [])


def test_the_install_folder_is_this_one():
    """The example stands where relative paths count from."""
    assert (INSTALL_DIRECTORY / "Public" / "workflow_python_scripts" / "text_statistics.py").exists()
