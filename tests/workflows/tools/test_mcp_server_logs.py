"""The rotating logs of stdio servers (tools.md 11.5.7)."""

from __future__ import annotations

import json

import pytest

from Middleware.common.instance_global_variables import LaunchFacts, launch_facts, set_launch_facts
from Middleware.common.request_context import RequestContext, enter_request
from Middleware.config.endpoints import from_environment
from Middleware.config.loader import ConfigTree
from Middleware.workflows.tools import mcp_doors
from Middleware.workflows.tools import mcp_doors as mcp_server_logs
from Middleware.workflows.tools.mcp_client_tool import MCPClient, MCPToolCallError
from Middleware.workflows.tools.mcp_doors import ServerLogs, server_logs
from tests.patience import PATIENCE_S
from tests.workflows.tools.conftest import seen_in, stdio_file


@pytest.fixture
def facts():
    """`facts(...)`: what the command line said."""
    before = launch_facts()
    yield lambda **given: set_launch_facts(LaunchFacts(**given))
    set_launch_facts(before)


@pytest.fixture
def logs(tmp_path, facts):
    facts(log_folder=tmp_path, users=("ana",))
    made = ServerLogs()
    yield made
    made.close()


def test_each_server_has_its_file(logs, tmp_path):
    """A line tells when, and for which user."""
    logs.write_line("notes", "ana", "ready")
    logs.write_line("web", "ana", "up")
    assert (tmp_path / "mcp" / "notes.log").read_text().endswith(" [ana] ready\n")
    assert (tmp_path / "mcp" / "web.log").read_text().count("\n") == 1


def test_of_several_users_each_has_its_own(logs, tmp_path, facts):
    """As with the server's own log."""
    facts(log_folder=tmp_path, users=("ana", "ben"))
    logs.write_line("notes", "ana", "hers")
    logs.write_line("notes", "ben", "his")
    assert "hers" in (tmp_path / "ana" / "mcp" / "notes.log").read_text()
    assert "hers" not in (tmp_path / "ben" / "mcp" / "notes.log").read_text()


def test_it_is_rotated(logs, tmp_path, monkeypatch):
    """A server that talks for ever fills no disk."""
    monkeypatch.setattr(mcp_server_logs, "MAX_BYTES", 1000)
    for _ in range(300):
        logs.write_line("notes", "ana", "x" * 50)
    files = list((tmp_path / "mcp").iterdir())
    assert len(files) == 1 + mcp_server_logs.BACKUPS
    assert sum(file.stat().st_size for file in files) <= 4000


def test_secrets_of_the_environment_are_masked(logs, tmp_path, monkeypatch):
    """Those of the server's file are, before a line comes here."""
    monkeypatch.setenv("LOG_TEST_KEY", "sesame-4711")
    from_environment("LOG_TEST_KEY")
    logs.write_line("notes", "ana", "key sesame-4711, token=abc")
    assert (tmp_path / "mcp" / "notes.log").read_text().endswith("key ***, token=***\n")


def test_without_log_files_it_is_a_line_of_level_debug(logs, tmp_path, facts, caplog):
    facts(users=("ana",))
    caplog.set_level("INFO")
    logs.write_line("notes", "ana", "ready")
    assert not caplog.records
    caplog.set_level("DEBUG")
    logs.write_line("notes", "ana", "ready")
    assert caplog.messages == ["MCP server 'notes' says: ready"]
    assert not (tmp_path / "mcp").exists()


def test_a_closed_file_is_opened_again(logs, tmp_path):
    logs.write_line("notes", "ana", "one")
    logs.close()
    logs.write_line("notes", "ana", "two")
    assert (tmp_path / "mcp" / "notes.log").read_text().count("\n") == 2


class TestOfARealServer:
    """By each door. Its tool `crash` writes a line and ends the server."""

    @pytest.fixture(params=[mcp_doors.ThreadDoor, mcp_doors.HelperDoor], ids=["thread", "helper"])
    def call(self, request, tmp_path, facts, monkeypatch):
        """`call(private=False)`: the message of its failure; `call.open_session()`: the server is started."""
        monkeypatch.setattr(mcp_doors, "_is_patched", lambda: request.param is mcp_doors.HelperDoor)
        root = tmp_path / "Configs"
        (root / "MCPServers").mkdir(parents=True)
        (tmp_path / "trace.txt").touch()
        file = stdio_file(tmp_path / "trace.txt")
        (root / "MCPServers" / "notes.json").write_text(json.dumps(file))
        facts(log_folder=tmp_path / "logs", users=("ana",), config_directory=root)
        snapshot = ConfigTree(root).snapshot()

        def called(private=False):
            with (
                enter_request(RequestContext("r9", "ana", "openai", snapshot=snapshot, privacy=private)),
                pytest.raises(MCPToolCallError) as caught,
            ):
                MCPClient().call_tool("notes", "crash", {}, 60)
            return str(caught.value)

        def open_session():
            with enter_request(RequestContext("r8", "ana", "openai", snapshot=snapshot)):
                MCPClient().list_tools("notes", timeout=PATIENCE_S)

        called.open_session = open_session
        yield called
        mcp_doors.end_sessions()
        server_logs().close()

    def test_its_lines_are_written(self, call, tmp_path):
        assert "about to crash" in call()
        assert seen_in(tmp_path / "logs" / "mcp" / "notes.log", "about to crash")

    def test_not_those_of_a_private_request(self, call, tmp_path):
        """Nor does the message repeat them: another request may have caused them."""
        log = tmp_path / "logs" / "mcp" / "notes.log"
        call.open_session()
        assert seen_in(log, "ready")
        said = call(private=True)
        assert "Connection closed" in said and "about to crash" not in said
        assert seen_in(log, "[Redacted] from here on")
        assert "about to crash" not in log.read_text()

    def test_nor_without_a_request(self, call, tmp_path):
        """Whose call it is, is not known: the safe side."""
        with pytest.raises(MCPToolCallError) as caught:
            MCPClient().call_tool("notes", "crash", {}, 60)
        assert "about to crash" not in str(caught.value)
