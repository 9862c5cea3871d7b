"""From the command line to an application (frontend-api.md 2.3)."""

from __future__ import annotations

import logging
import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from Middleware.api.launch_arguments import parse
from Middleware.api.serving import startup
from Middleware.common.instance_global_variables import launch_facts
from Middleware.services.locking_service import LockingService
from tests.patience import PATIENCE_S

HOUSE = Path(__file__).resolve().parents[3]
PUBLIC = HOUSE / "Public"


@pytest.fixture(autouse=True)
def _quiet(monkeypatch):
    monkeypatch.setattr(startup, "configure_logging", lambda *given: None)
    monkeypatch.setattr(startup.gc, "freeze", lambda: None)
    monkeypatch.setattr(startup.gc, "set_threshold", lambda *numbers: None)


@pytest.fixture
def launch(configs, tmp_path):
    return lambda *words: parse(("--PublicDirectory", str(tmp_path), *words))


class TestPrepare:
    def test_an_application(self, launch):
        """With the launch facts in place."""
        server = startup.prepare(launch("--User", "mira", "--concurrency", "3"))
        assert server.app.test_client().get("/health").status_code == 200
        assert launch_facts().concurrency == 3

    def test_a_missing_user_file_stops_the_start(self, launch, capsys):
        """Exit status 1; the file is named."""
        with pytest.raises(SystemExit) as caught:
            startup.prepare(launch("--User", "mira", "--User", "nobody"))
        assert caught.value.code == 1 and "Users/nobody.json" in capsys.readouterr().err

    def test_a_faulty_user_file_is_reported_and_the_server_starts(self, launch, configs, capsys):
        """The other users are served."""
        configs("Users/mira.json", '{"port": "x", "customWorkflowOverride": {}')
        startup.prepare(launch("--User", "mira"))
        assert "Users/mira.json" in capsys.readouterr().err

    def test_with_strict_it_does_not(self, launch, configs):
        """Exit status 1."""
        configs("Users/mira.json", "{")
        with pytest.raises(SystemExit):
            startup.prepare(launch("--User", "mira", "--strict"))

    def test_strict_checks_what_can_be_reached(self, launch, configs, caplog):
        """Before binding."""
        configs("Workflows/mira/Main.json", [{"type": "Standard", "endpointName": "gone"}])
        with caplog.at_level(logging.ERROR), pytest.raises(SystemExit):
            startup.prepare(launch("--User", "mira", "--strict"))
        assert "gone" in caplog.text

    def test_a_front_end_that_cannot_be_loaded_stops_the_start(self, launch, monkeypatch, capsys):
        """With one line."""

        def broken(rules):
            raise RuntimeError("a front end cannot be loaded")

        monkeypatch.setattr(startup, "ApiServer", broken)
        with pytest.raises(SystemExit):
            startup.prepare(launch("--User", "mira"))
        assert "cannot be loaded" in capsys.readouterr().err

    def test_warnings_are_said(self, launch, configs, caplog):
        """Once logging is set up."""
        configs("Users/jo.json", {"port": 5000})
        with caplog.at_level(logging.WARNING):
            startup.prepare(launch("--User", "mira", "--User", "jo"))
        assert "port 5050" in caplog.text


class TestNobodyToServe:
    """One sentence that says what is missing and which argument names it."""

    def test_a_config_folder_that_is_not_there(self, launch, tmp_path):
        with pytest.raises(SystemExit, match=r"nowhere: there is no such folder\. .*--ConfigDirectory"):
            startup.prepare(launch("--ConfigDirectory", str(tmp_path / "nowhere")))

    def test_no_pointer(self, launch, configs):
        """The users that are there are named."""
        with pytest.raises(
            SystemExit, match=r"no user to serve: .*no such file; name one with --User NAME .*mira"
        ):
            startup.prepare(launch())

    def test_a_pointer_that_names_nobody(self, launch, configs):
        configs("Users/_current-user.json", {})
        with pytest.raises(SystemExit, match=r"no user to serve: Users/_current-user\.json"):
            startup.prepare(launch())

    def test_a_pointer_to_a_user_who_is_not_there(self, launch, configs, capsys):
        configs("Users/_current-user.json", {"currentUser": "jo"})
        with pytest.raises(SystemExit):
            startup.prepare(launch())
        assert "no user 'jo'" in capsys.readouterr().err


class TestTidyingUp:
    """What is gone before the port is bound: what former servers left."""

    def test_dead_locks(self, launch, configs, tmp_path, caplog):
        """Of each user whose file can be read."""
        configs("Users/jo.json", "{")
        database = tmp_path / "SqlLiteDBs" / "WilmerDb.mira.sqlite"
        former = LockingService(database, "former", renew_every_s=None)
        former.acquire("nightly", "run-1")
        with closing(sqlite3.connect(database)) as connection, connection:
            connection.execute("UPDATE Instances SET Host = 'far', Heartbeat = 0")
        startup.prepare(launch("--User", "mira", "--User", "jo"))
        with closing(sqlite3.connect(database)) as connection:
            assert connection.execute("SELECT * FROM WorkflowLocks").fetchall() == []

    def test_half_written_files(self, launch, tmp_path):
        """In the folder of the discussions; what is young may still be written."""
        folder = tmp_path / "DiscussionIds" / "d1"
        folder.mkdir(parents=True)
        old, young = folder / ".memories.json.1.tmp", folder / ".memories.json.2.tmp"
        for file in (old, young):
            file.write_bytes(b"{")
        os.utime(old, (0, 0))
        startup.prepare(launch("--User", "mira"))
        assert not old.exists() and young.exists()

    def test_a_folder_that_cannot_be_read_stops_no_start(self, launch, monkeypatch, caplog):
        """It is told."""

        def fails(folder):
            raise PermissionError(13, "Permission denied", str(folder))

        monkeypatch.setattr(startup, "remove_stale_temporaries", fails)
        assert startup.prepare(launch("--User", "mira"))
        assert "left for user mira could not be removed" in caplog.text


LIST_MODELS = """
import sys
from Middleware.api.launch_arguments import parse
from Middleware.api.serving.startup import prepare
from Middleware.api.serving.waitress_server import demo_hints
from Middleware.config.loader import default_snapshot

server = prepare(parse(sys.argv[1:]))
assert demo_hints(default_snapshot(), ["mira"], "") == []
answer = server.app.test_client().get("/v1/models")
print(answer.json["data"][0]["id"], *sys.modules)
"""
LOADED_LATER = (
    "Middleware.api.commands.",
    "Middleware.api.console.run_texts",
    "Middleware.api.console.views",
    "Middleware.llmapis",
    "Middleware.workflows.",
    "asyncio",
    "jsonschema",
    "orjson",
    "requests",
    "urllib3",
)
"""What the first question, the first look at the console, a command or a faulty file needs, by the beginning of its
name."""
LOADED_AT_ONCE = {"Middleware.workflows.processors", "Middleware.workflows.processors.node_lines"}


def test_a_list_of_models_waits_for_nothing_that_only_a_question_needs(configs, tmp_path):
    """Neither the engine, nor the backends, nor the libraries behind them, nor the console's views; with an endpoint
    and an API type as they are shipped."""
    configs("ApiTypes/Open-AI-API.json", (PUBLIC / "Configs" / "ApiTypes" / "Open-AI-API.json").read_text())
    configs(
        "Endpoints/Own.json",
        {
            "endpoint": "http://127.0.0.1:1",
            "apiTypeConfigFileName": "Open-AI-API",
            "extraHeaders": {"X": "1"},
        },
    )
    configs("Workflows/mira/Main.json", [{"type": "Standard", "endpointName": "Own"}])
    words = [sys.executable, "-c", LIST_MODELS, "--PublicDirectory", str(tmp_path), "--User", "mira"]
    done = subprocess.run(words, cwd=HOUSE, capture_output=True, text=True, check=True, timeout=PATIENCE_S)
    model, *modules = done.stdout.split()
    assert model == "mira"
    assert {name for name in modules if name.startswith(LOADED_LATER)} == LOADED_AT_ONCE


def test_a_check_that_fails_does_not_stop_the_server(monkeypatch, facts, caplog):
    """It is logged."""

    def failing():
        raise OSError("no")

    monkeypatch.setattr(startup, "check_reachable", failing)
    facts(users=())
    startup.warm_up()
    assert "the configuration could not be checked" in caplog.text


def test_the_collector_looks_less_often_once_all_is_loaded(monkeypatch, facts):
    """Its older generations keep their own pace."""
    told = []
    monkeypatch.setattr(startup.gc, "set_threshold", lambda *numbers: told.append(numbers))
    facts(users=())
    startup.warm_up()
    assert told == [(10_000, *startup.gc.get_threshold()[1:])]


@pytest.mark.parametrize(
    ("user", "node", "told"),
    [
        ({}, {"type": "PythonModule", "module_path": "/x.py"}, True),
        ({"pythonModuleRoots": ["/scripts"]}, {"type": "PythonModule", "module_path": "/x.py"}, False),
        ({}, {"type": "StaticResponse", "content": "x"}, False),
    ],
    ids=["anywhere", "limited", "no-scripts"],
)
def test_warming_up_tells_of_scripts_that_may_lie_anywhere(configs, facts, caplog, user, node, told):
    """Where a workflow that can be reached runs one."""
    configs("Users/mira.json", {"customWorkflowOverride": True, "customWorkflow": "Main", **user})
    configs("Workflows/mira/Main.json", [node])
    with caplog.at_level(logging.INFO):
        startup.warm_up()
    assert ("pythonModuleRoots" in caplog.text) is told
