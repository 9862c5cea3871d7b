"""What scripts import: calls by the name of a server file, for the current request's user."""

from __future__ import annotations

import json
import threading
from contextlib import suppress

import pytest

from Middleware.common.errors import RequestCancelled
from Middleware.common.request_context import RequestContext, enter_request
from Middleware.config.loader import ConfigTree
from Middleware.services.cancellation_service import cancellation_service
from Middleware.workflows.tools import mcp_connection, mcp_doors
from Middleware.workflows.tools.mcp_client_tool import MCPClient, MCPToolCallError
from Middleware.workflows.tools.mcp_request import read_server
from tests.patience import PATIENCE_S
from tests.workflows.tools.conftest import seen, started, stdio_file


@pytest.fixture
def registry(tmp_path, trace):
    """Files below `MCPServers/`; the request that the test runs in sees them."""
    folder = tmp_path / "Configs" / "MCPServers"
    folder.mkdir(parents=True)

    def put(name, file):
        (folder / f"{name}.json").write_text(file if isinstance(file, str) else json.dumps(file))

    put("tests", stdio_file(trace))
    request = RequestContext("r1", "ana", "openai", snapshot=ConfigTree(tmp_path / "Configs").snapshot())
    with enter_request(request):
        yield put
    mcp_doors.end_sessions()
    cancellation_service.acknowledge_cancellation("r1")


class TestCalls:
    def test_a_tool(self, registry):
        assert MCPClient().call_tool("tests", "echo", {"text": "x"}) == "x"

    def test_tools(self, registry):
        assert "echo" in MCPClient().list_tools("tests", timeout=PATIENCE_S)

    def test_a_cancelled_request_cancels_its_call(self, registry, trace):
        """By an abort callback: no polling."""

        def cancel():
            seen(trace, "slow began")
            cancellation_service.request_cancellation("r1")

        threading.Thread(target=cancel).start()
        with pytest.raises(RequestCancelled):
            MCPClient().call_tool("tests", "slow", {"seconds": 100}, timeout=PATIENCE_S)
        assert seen(trace, "slow cancelled")

    @pytest.mark.parametrize("ended_by", ["time", "cancellation"])
    def test_the_time_of_the_first_call_includes_the_import(self, registry, monkeypatch, ended_by):
        """The package takes long to import: the call does not wait for it longer than it may."""
        importing, done = threading.Event(), threading.Event()

        def slow(say):
            importing.set()
            done.wait(PATIENCE_S)
            raise MCPToolCallError("imported")

        def cancel():
            importing.wait(PATIENCE_S)
            cancellation_service.request_cancellation("r1")

        mcp_doors.end_sessions()
        monkeypatch.setattr(mcp_doors, "new_sessions", slow)
        limit_s, error, words = 0.01, MCPToolCallError, "'tests': timed out after 0.01 seconds"
        if ended_by == "cancellation":
            threading.Thread(target=cancel).start()
            limit_s, error, words = 60, RequestCancelled, None
        with pytest.raises(error, match=words):
            MCPClient().call_tool("tests", "echo", {"text": "x"}, timeout=limit_s)
        importing.wait(PATIENCE_S)
        done.set()
        cancellation_service.acknowledge_cancellation("r1")
        with pytest.raises(MCPToolCallError, match="imported"):
            MCPClient().call_tool("tests", "echo", {"text": "x"}, timeout=PATIENCE_S)

    def test_users_share_no_session(self, registry, trace, tmp_path):
        """The same file, two users, two processes."""
        MCPClient().call_tool("tests", "echo", {"text": "x"})
        snapshot = ConfigTree(tmp_path / "Configs").snapshot()
        with enter_request(RequestContext("r2", "ben", "openai", snapshot=snapshot)):
            MCPClient().call_tool("tests", "echo", {"text": "x"})
        assert len(set(started(trace))) == 2


class TestFile:
    def test_secrets_come_from_the_environment(self, registry, trace, monkeypatch):
        """A changed one means a new session."""
        file = stdio_file(trace)
        registry("keyed", {**file, "env": {**file["env"], "KEY": "<${ENV:MCP_TEST_KEY}>"}})
        monkeypatch.setenv("MCP_TEST_KEY", "one")
        assert MCPClient().call_tool("keyed", "environment", {"name": "KEY"}) == "<one>"
        monkeypatch.setenv("MCP_TEST_KEY", "two")
        assert MCPClient().call_tool("keyed", "environment", {"name": "KEY"}) == "<two>"

    def test_arguments_take_secrets_from_the_environment(self, tmp_path, monkeypatch):
        """They are hidden like the others; one that isn't set is an error that names it."""
        file = tmp_path / "Configs/MCPServers/here.json"
        file.parent.mkdir(parents=True)
        args = ["--key", "<${ENV:MCP_TEST_KEY}>", "${HOME}"]
        file.write_text(json.dumps({"transport": "stdio", "command": "x", "args": args}))
        monkeypatch.setenv("MCP_TEST_KEY", "sesame")
        server = read_server(ConfigTree(tmp_path / "Configs").snapshot(), "here")
        assert server.args == ("--key", "<sesame>", "${HOME}") and "sesame" in server.secrets
        monkeypatch.delenv("MCP_TEST_KEY")
        with pytest.raises(MCPToolCallError, match="'MCP_TEST_KEY' is not set"):
            read_server(ConfigTree(tmp_path / "Configs").snapshot(), "here")

    def test_headers_are_sent(self, registry, http_servers, monkeypatch):
        monkeypatch.setenv("MCP_TEST_KEY", "sesame")
        process = http_servers("streamable_http")
        registry("web", {**process.file, "headers": {"X-Key": "${ENV:MCP_TEST_KEY}"}})
        assert MCPClient().call_tool("web", "header", {"name": "x-key"}) == "sesame"

    def test_null_is_absent(self, registry, trace):
        registry("plain", {**stdio_file(trace), "env": None, "cwd": None})
        assert MCPClient().call_tool("plain", "environment", {"name": "TRACE"}) == ""

    def test_only_allowed_tools(self, registry, trace):
        registry("few", {**stdio_file(trace), "allowedTools": ["echo", "pid"]})
        assert sorted(MCPClient().list_tools("few")) == ["echo", "pid"]
        with pytest.raises(MCPToolCallError, match="tool 'crash' is not in 'allowedTools'"):
            MCPClient().call_tool("few", "crash")

    @pytest.mark.parametrize(("limit", "text"), [(6, "näht"), (5, "näht"), (4, "näh"), (2, "n")])
    def test_long_results_are_cut(self, registry, trace, limit, text):
        """At whole characters, with a mark that says so."""
        registry("short", {**stdio_file(trace), "maxResultBytes": limit})
        cut = "" if limit > 4 else "\n[cut: the result is longer than maxResultBytes]"
        assert MCPClient().call_tool("short", "echo", {"text": "näht"}) == text + cut

    @pytest.mark.parametrize(
        ("name", "tool", "told"),
        [
            ("", "echo", "the name of the MCP server is empty"),
            ("  ", "echo", "the name of the MCP server is empty"),
            ("tests", "", "the name of the tool is empty"),
            ("none", "echo", 'no MCP server "none"'),
            ("../tests", "echo", "must be a plain file name"),
            ("a:b", "echo", "must be a plain file name"),
            ("a/b", "echo", "must be a plain file name"),
            ("a\\b", "echo", "must be a plain file name"),
            (".", "echo", "must be a plain file name"),
            ("..", "echo", "must be a plain file name"),
            ("/etc/x", "echo", "must be a plain file name"),
            (7, "echo", "the name of the MCP server is empty"),
            ("tests", "  ", "the name of the tool is empty"),
            ("broken", "echo", "broken.json"),
            ("odd", "echo", '"see"'),
            ("nourl", "echo", "'url' is missing"),
            ("unset", "echo", "environment variable 'MCP_NOT_SET' is not set"),
        ],
    )
    def test_every_fault_is_one_kind_of_error(self, registry, name, tool, told):
        """It names what is wrong."""
        registry("broken", "{")
        registry("odd", {"transport": "see", "url": "http://x"})
        registry("nourl", {"transport": "sse"})
        registry("unset", {"transport": "sse", "url": "http://${ENV:MCP_NOT_SET}/"})
        with pytest.raises(MCPToolCallError, match=told):
            MCPClient().call_tool(name, tool)

    def test_arguments_that_are_no_json(self, registry):
        """Scripts may pass anything."""
        with pytest.raises(MCPToolCallError, match=r"'echo'|arguments"):
            MCPClient().call_tool("tests", "echo", {"text": object()})

    @pytest.mark.parametrize("number", [float("nan"), float("inf")])
    def test_numbers_that_are_no_json(self, registry, number):
        with pytest.raises(MCPToolCallError, match="the arguments are not JSON"):
            MCPClient().call_tool("tests", "kinds", {"value": number})

    def test_half_a_character_is_replaced(self, registry, trace):
        """It cannot be sent: the session that all share would end."""
        assert MCPClient().call_tool("tests", "echo", {"text": "a\ud800b"}) == "a?b"
        with pytest.raises(MCPToolCallError, match="The server's tools"):
            MCPClient().call_tool("tests", "a\ud800b")
        assert len(started(trace)) == 1


@pytest.mark.parametrize(("tool", "ended"), [("echo", "ok, 13 bytes"), ("fail", "failed, 0 bytes")])
def test_each_call_has_a_log_line(registry, caplog, tool, ended):
    """With the server's name and how it ended; not the tool's, a model may have written it."""
    caplog.set_level("INFO")
    with suppress(MCPToolCallError):
        MCPClient("Main.json, node 2").call_tool("tests", tool, {"text": "private words", "reason": "x"})
    (line,) = [record.getMessage() for record in caplog.records if "bytes" in record.getMessage()]
    assert line.startswith(f"Main.json, node 2: MCP tests: status {ended}, ")


def test_no_log_line_shows_a_secret(registry, trace, monkeypatch, caplog):
    """Neither what the file names, nor what the server writes of it, nor arguments and results."""
    monkeypatch.setenv("MCP_TEST_KEY", "sesame-open-0815")
    monkeypatch.setattr(mcp_connection, "LAST_WORDS_S", PATIENCE_S)  # of a busy machine
    file = stdio_file(trace)
    code = "import os, sys; print('key is', os.environ['KEY'], file=sys.stderr); sys.exit(1)"
    registry("talks", {**file, "args": ["-c", code], "env": {"KEY": "${ENV:MCP_TEST_KEY}"}})
    caplog.set_level("DEBUG")
    with pytest.raises(MCPToolCallError, match=r"key is \*\*\*"):
        MCPClient().call_tool("talks", "echo", {"text": "private words"})
    MCPClient().call_tool("tests", "echo", {"text": "private words"})
    assert caplog.records
    assert "sesame" not in caplog.text and "private words" not in caplog.text


def test_plain_keys_of_a_file_are_secrets_too(registry, tmp_path):
    """The word behind `Bearer`, variables that are named so, and what the URL holds."""
    url, headers = "http://me:pass-word@a.example/?api_key=in-query", {"Authorization": "Bearer in-header"}
    registry("web", {"transport": "sse", "url": url, "headers": headers})
    registry("here", {"transport": "stdio", "command": "x", "env": {"API_KEY": "in-env", "MODE": "fast"}})
    snapshot = ConfigTree(tmp_path / "Configs").snapshot()
    assert {"in-header", "in-query", "pass-word"} <= set(read_server(snapshot, "web").secrets)
    assert read_server(snapshot, "here").secrets == ("in-env",)


@pytest.mark.parametrize(
    ("args", "env", "secrets"),
    [
        (["--api-key", "in-word"], {}, {"in-word"}),
        (["--token=in-option"], {}, {"in-option"}),
        (["run", "-e", "GITHUB_TOKEN=in-variable", "image"], {}, {"in-variable"}),
        (["--header", "Authorization: Bearer in-header"], {}, {"in-header", "Bearer in-header"}),
        (["https://a.example/?api_key=in-query"], {}, {"in-query"}),
        (["-y", "--root", "/srv", "--mode=fast"], {}, set()),
        ([], {"DATABASE": "postgres://me:in-url@h/db"}, {"in-url"}),
        ([], {"TLS_KEY": "-----BEGIN-----\nline-one\nline-two"}, {"line-one", "line-two"}),
    ],
    ids=["word", "option", "variable", "header", "url", "none", "url-in-env", "lines"],
)
def test_secrets_on_the_command_line_and_in_the_environment(registry, tmp_path, args, env, secrets):
    """A secret of several lines is one in each of them: a server says it line by line."""
    registry("here", {"transport": "stdio", "command": "x", "args": args, "env": env})
    found = set(read_server(ConfigTree(tmp_path / "Configs").snapshot(), "here").secrets)
    assert secrets <= found and bool(found) is bool(secrets)
    assert not any(
        secret in repr(read_server(ConfigTree(tmp_path / "Configs").snapshot(), "here")) for secret in found
    )
