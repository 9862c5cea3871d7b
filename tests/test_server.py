"""The entry point: an application for gunicorn, a command, or a server (frontend-api.md 2.1)."""

from __future__ import annotations

import os
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest
from flask import Flask

import server
from Middleware.api.commands.setup import Setup
from Middleware.api.serving import startup, waitress_server
from Middleware.common.instance_global_variables import launch_facts, set_launch_facts
from Middleware.services.backup import tree_use
from Middleware.services.backup.tree_swap import Step, Swap
from Middleware.utilities.file_locks import hold_folder
from tests.e2e.conftest import free_port
from tests.patience import PATIENCE_S, wait_until

HOUSE = Path(__file__).resolve().parents[1]


@pytest.fixture(autouse=True)
def _undo(monkeypatch):
    monkeypatch.setattr(startup, "configure_logging", lambda *given: None)
    before = launch_facts()
    server.get_application.cache_clear()
    yield
    server.get_application.cache_clear()
    set_launch_facts(before)


def test_an_application_of_words():
    """Built once for the same words."""
    application = server.get_application("--User", "demo")
    assert isinstance(application, Flask)
    assert server.get_application("--User", "demo") is application
    assert application.test_client().get("/api/tags").json["models"][0]["name"] == "demo"


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("--console-key", "short"), "argument --console-key: must have at least 8 characters"),
        (("--require-api-key", "a", "--console", "view"), "needs --console-key beside it"),
        (("--User", "nobody-at-all"), "Users/nobody-at-all.json"),
        (("--ConfigDirectory", "/no/such/folder", "--User", "mira"), "/no/such/folder"),
    ],
)
def test_an_application_that_cannot_serve(words, why, capsys):
    """The status by which gunicorn ends; with another one it would start worker after worker."""
    with pytest.raises(SystemExit) as end:
        server.get_application(*words)
    assert end.value.code == 4 and why in capsys.readouterr().err


def test_application_is_built_when_it_is_read():
    """Of no words: the pointer user."""
    assert server.application is server.get_application()


def test_other_names_do_not_exist():
    """The module has no more of them."""
    with pytest.raises(AttributeError, match="no attribute 'app'"):
        _ = server.app


def test_importing_starts_nothing():
    """Neither Flask nor the engine is loaded."""
    code = "import server, sys; print([m for m in ('flask', 'waitress', 'Middleware.workflows') if m in sys.modules])"
    shown = subprocess.run(
        [sys.executable, "-c", code], cwd=HOUSE, capture_output=True, text=True, timeout=PATIENCE_S
    )
    assert shown.stdout.strip() == "[]"


@pytest.mark.parametrize(("status", "served"), [(0, [["--User", "mira"]]), (1, [])], ids=["well", "not-well"])
def test_a_command_may_be_followed_by_a_server(monkeypatch, status, served):
    """That of the words which it gives, when it ended well."""
    started = []
    monkeypatch.setattr(Setup, "run", lambda self, arguments: status)
    monkeypatch.setattr(Setup, "words_to_serve", lambda self, words: ["--User", "mira"])
    monkeypatch.setattr(server, "_serve", lambda launch: started.append(["--User", *launch.facts.users]) or 0)
    assert server.main(["--setup", "--yes"]) == status and started == served


def test_a_command_runs_instead_of_serving(tmp_path, capsys):
    """Its exit status is the process's."""
    assert server.main(["--schemas", str(tmp_path)]) == 0
    assert "schemas" in capsys.readouterr().out


def test_without_a_command_it_serves(monkeypatch):
    """With the words of the command line."""
    monkeypatch.setattr(waitress_server, "serve", lambda launch, made: launch.port)
    monkeypatch.setattr(sys, "argv", ["server.py", "--User", "demo", "--port", "7"])
    assert server.main() == 7


def test_a_reader_that_has_seen_enough_is_no_failure():
    """`| head`: no traceback."""
    words = [
        sys.executable,
        "server.py",
        "--dry-run",
        "Chat",
        "--User",
        "demo",
        "--stub-output",
        "x" * 100_000,
    ]
    process = subprocess.Popen(words, cwd=HOUSE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout and process.stderr
    process.stdout.read(10)
    process.stdout.close()
    told = process.stderr.read()
    process.stderr.close()
    assert (process.wait(PATIENCE_S), told) == (0, b"")


@pytest.fixture(scope="module")
def own_tree(tmp_path_factory):
    """An installation of its own; the workflow of its user `broken` has an error."""
    public = tmp_path_factory.mktemp("lost") / "Public"
    assert server.main(["--init", str(public.parent)]) == 0
    configs = public / "Configs"
    user = (configs / "Users/demo.json").read_text("utf-8").replace('"demo"', '"broken"')
    (configs / "Users/broken.json").write_text(user, "utf-8")
    (configs / "Workflows/broken").mkdir()
    node = '[{"type": "Standard", "endpointName": "none"}]'
    (configs / "Workflows/broken/Chat.json").write_text(node, "utf-8")
    return public


LOSSES = {
    "no-reader": "",
    "closed": ">&-",
    "all-closed": ">&- 2>&- <&-",
    "disk-full": ">/dev/full",
    "disk-full-for-all": ">/dev/full 2>&1",
}
WANTED_BY_NOBODY = [name for name in LOSSES if "full" not in name]


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="the system has no such device")
class TestOutputThatIsLost:
    """Nobody reads it, it is closed, or the disk is full: what is to be done is done all the same."""

    def start(self, loss, public, *words, **environment):
        """The process, whose standard output is a pipe that nobody reads, or lost in another way."""
        reading, writing = os.pipe()
        os.close(reading)
        called = [sys.executable, "server.py", "--PublicDirectory", str(public), *map(str, words)]
        process = subprocess.Popen(
            ["sh", "-c", f'exec "$@" {LOSSES[loss]}', "sh", *called],
            cwd=HOUSE,
            stdout=writing,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, **environment},
        )
        os.close(writing)
        return process

    def run(self, loss, public, *words, **environment):
        """Exit status and standard error."""
        process = self.start(loss, public, *words, **environment)
        told = process.communicate(timeout=PATIENCE_S)[1]
        return process.returncode, told

    @pytest.mark.parametrize("loss", WANTED_BY_NOBODY)
    @pytest.mark.parametrize(("user", "status"), [("demo", 0), ("broken", 1)])
    def test_the_status_is_the_commands(self, own_tree, loss, user, status):
        assert self.run(loss, own_tree, "--validate", "--User", user) == (status, "")

    def test_a_full_disk_is_told(self, own_tree):
        """The output was wanted, so not all is well."""
        status, told = self.run("disk-full", own_tree, "--validate", "--User", "demo")
        assert status == 1
        assert told == "error: not all of the output could be written: No space left on device\n"
        assert self.run("disk-full-for-all", own_tree, "--validate", "--User", "demo") == (1, "")

    @pytest.mark.parametrize("loss", LOSSES)
    def test_the_work_is_done_to_the_end(self, own_tree, loss, tmp_path):
        """Though the first line that is printed comes before it: a restore says what it restores."""
        backup, restored = tmp_path / "b.zip", tmp_path / "restored" / "Public"
        status = 0 if loss in WANTED_BY_NOBODY else 1
        assert self.run(loss, own_tree, "--backup", backup)[0] == status
        told = self.run(loss, restored, "--restore", backup, PYTHONUNBUFFERED="1")
        assert told[0] == status and "Traceback" not in told[1]
        assert (restored / "Configs/Users/demo.json").is_file()

    @pytest.mark.parametrize("loss", LOSSES)
    def test_a_key_that_nobody_sees_is_not_made(self, own_tree, loss):
        """It is printed once, so it would be lost."""
        status, told = self.run(loss, own_tree, "--keys", "add", "ann", "users=demo")
        assert status == 1 and not (own_tree / "Configs/Keys.json").exists()
        assert "2>&" in LOSSES[loss] or "error: nothing was changed, because the new key cannot" in told

    @pytest.mark.parametrize("loss", LOSSES)
    def test_a_server_starts(self, own_tree, loss, tmp_path):
        """And writes its log to a file."""
        port = free_port()
        logs = ["--file-logging", "--LoggingDirectory", tmp_path / "logs"]
        process = self.start(loss, own_tree, "--User", "demo", "--port", port, *logs)
        wait_until(lambda: answers(port), process)
        process.terminate()
        process.communicate(timeout=PATIENCE_S)
        assert process.returncode == 0
        (log,) = (file for file in (tmp_path / "logs").rglob("*") if file.is_file())
        assert "stopping" in log.read_text("utf-8")


def answers(port):
    """Whether a server is there."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=PATIENCE_S) as answer:
            return answer.status == 200
    except OSError:
        return False


@pytest.mark.parametrize("words", [["--validate"], ["--User", "demo"]], ids=["command", "server"])
def test_a_python_without_the_libraries_is_told_the_way(words):
    """Not everybody knows of virtual environments: no traceback."""
    told = subprocess.run(
        [sys.executable, "-S", "server.py", *words],
        cwd=HOUSE,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )
    assert told.returncode == 1
    assert "has no module" in told.stderr and "./run" in told.stderr and "Traceback" not in told.stderr


def test_an_installed_program_without_the_libraries_is_told_another_way(monkeypatch):
    """There is no ./run then."""

    def missing(words):
        raise ModuleNotFoundError("No module named 'flask'", name="flask")

    monkeypatch.setattr(server, "parse", missing)
    monkeypatch.setattr(server, "is_installed", lambda: True)
    with pytest.raises(SystemExit, match=r"has no module 'flask'\. Install headrace again"):
        server.main([])


def test_a_missing_module_of_ours_is_shown_whole(monkeypatch):
    """It is a fault, not a way to start."""

    def missing(words):
        raise ModuleNotFoundError("No module named 'Middleware.x'", name="Middleware.x")

    monkeypatch.setattr(server, "parse", missing)
    with pytest.raises(ModuleNotFoundError):
        server.main([])


def test_an_interrupted_command_ends_in_peace(monkeypatch):
    """Status 130, as shells have it; the console script has no other place to see to it."""

    def interrupted(words):
        raise KeyboardInterrupt

    monkeypatch.setattr(server, "parse", interrupted)
    assert server.main([]) == 130


@pytest.mark.parametrize("encoding", ["ascii", "cp1252", "utf-8"])
def test_characters_that_the_output_cannot_show_end_no_command(tmp_path, encoding):
    """A pipe on Windows, or the locale C: they are written as escapes; the same for half a character."""
    messages = tmp_path / "messages.json"
    messages.write_text('[{"role": "user", "content": "gr\u00fc\u00dfe \u2603 \\ud83d"}]', "utf-8")
    words = ["--User", "demo", "--dry-run", "Chat", "--messages", str(messages)]
    shown = subprocess.run(
        [sys.executable, "server.py", *words],
        cwd=HOUSE,
        capture_output=True,
        timeout=PATIENCE_S,
        env={**os.environ, "PYTHONIOENCODING": encoding},
    )
    assert b"Traceback" not in shown.stderr and shown.returncode == 0
    assert b"ud83d" in shown.stdout


@pytest.mark.parametrize(
    "words", [["--dry-run", "Chat"], ["--explain", "Chat#1"], ["--doctor"]], ids=" ".join
)
def test_a_command_on_a_folder_that_is_not_there_says_so(tmp_path, words):
    """As a start does; `--validate` has its own form of a finding."""
    with pytest.raises(SystemExit, match="nowhere: there is no such folder"):
        server.main(["--ConfigDirectory", str(tmp_path / "nowhere"), *words])


class TestFolders:
    """Servers and commands hold the folders together; data of a newer major version is refused."""

    @pytest.fixture
    def public(self, tmp_path):
        """An installation of its own."""
        assert server.main(["--init", str(tmp_path)]) == 0
        return tmp_path / "Public"

    def test_what_a_killed_restore_left_is_undone_before_the_settings_are_read(self, public, monkeypatch):
        swap = Swap(public, [public])
        swap.begin()
        swap.steps = [Step(0, "Configs", True, False)]
        swap._write("swapping")
        swap._do(swap.steps[0])
        seen = []
        monkeypatch.setattr(startup, "prepare", lambda launch: seen.append(launch) or None)
        monkeypatch.setattr(waitress_server, "serve", lambda launch, made: 0)
        assert server.main(["--PublicDirectory", str(public), "--User", "demo"]) == 0
        assert (public / "Configs" / "Users" / "demo.json").exists()
        assert "cannot be read" not in str(seen[0].warnings)

    def test_they_are_held_while_it_serves(self, public, monkeypatch):
        alone = []
        monkeypatch.setattr(
            waitress_server, "serve", lambda launch, made: alone.append(hold_folder(public, alone=True)) or 0
        )
        assert server.main(["--PublicDirectory", str(public), "--User", "demo"]) == 0
        assert alone == [None]
        hold = hold_folder(public, alone=True)
        assert hold is not None

    def test_a_start_during_a_restore_says_so(self, public, monkeypatch):
        hold = hold_folder(public, alone=True)
        monkeypatch.setitem(tree_use.use_together.__kwdefaults__, "patience_s", 0.0)
        with pytest.raises(SystemExit, match="a restore is at work"):
            server.main(["--PublicDirectory", str(public), "--validate"])
        assert hold is not None

    def test_a_server_does_not_touch_data_of_a_newer_major_version(self, public):
        (public / "version.json").write_text('{"version": "99.0.0", "backups": {}}')
        with pytest.raises(SystemExit, match=r"99\.0\.0 has written to .* --restore FILE\.zip --replace"):
            server.main(["--PublicDirectory", str(public), "--User", "demo"])

    def test_nor_does_a_command_that_writes_discussions(self, public, capsys):
        (public / "version.json").write_text('{"version": "99.0.0", "backups": {}}')
        assert server.main(["--PublicDirectory", str(public), "--User", "demo", "--memory", "list"]) == 1
        assert "99.0.0 has written to" in capsys.readouterr().out
        assert server.main(["--PublicDirectory", str(public), "--validate"]) == 0
