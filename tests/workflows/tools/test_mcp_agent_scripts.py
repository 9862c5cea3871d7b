"""The scripts of the tool agent that ship: tools are found, the model's JSON is read, calls are made."""

from __future__ import annotations

import http.server
import json
import threading

import pytest

from Middleware.common.instance_global_variables import (
    INSTALL_DIRECTORY,
    LaunchFacts,
    launch_facts,
    set_launch_facts,
)
from Middleware.common.request_context import RequestContext, enter_request
from Middleware.config.loader import ConfigTree
from Middleware.workflows.tools import mcp_doors
from Middleware.workflows.tools.dynamic_module_loader import run_dynamic_module
from tests.workflows.tools.conftest import stdio_file

SCRIPTS = INSTALL_DIRECTORY / "Public" / "workflow_python_scripts" / "mcp_agent"
MESSAGES = [{"role": "user", "content": 'It\'s "x"'}]


def run(name, *args, **kwargs):
    return run_dynamic_module(str(SCRIPTS / f"{name}.py"), *args, **kwargs)


@pytest.fixture(autouse=True)
def tree(tmp_path):
    """A user `ana` and the tests' server as `files`."""
    configs = tmp_path / "Configs"
    (configs / "MCPServers").mkdir(parents=True)
    (configs / "Users").mkdir()
    (configs / "Users" / "ana.json").write_text(json.dumps({"customWorkflowOverride": True}))
    (configs / "MCPServers" / "files.json").write_text(json.dumps(stdio_file(tmp_path / "trace.txt")))
    (configs / "MCPServers" / "broken.json").write_text(
        json.dumps({"transport": "stdio", "command": "/no/such"})
    )
    before = launch_facts()
    set_launch_facts(LaunchFacts(tmp_path, configs))
    with enter_request(RequestContext("r1", "ana", "openai", snapshot=ConfigTree(configs).snapshot())):
        yield
    set_launch_facts(before)
    mcp_doors.end_sessions()


@pytest.fixture
def proxy():
    """An OpenAPI proxy with one service `clock` that has one tool."""
    schema = {"type": "object", "properties": {"zone": {"type": "string"}}}
    operation = {
        "summary": "The time",
        "requestBody": {"content": {"application/json": {"schema": {"$ref": "#/components/schemas/zone"}}}},
    }
    page = {
        "paths": {"/now": {"post": operation}, "/info": {"get": {}}},
        "components": {"schemas": {"zone": schema}},
    }

    class Proxy(http.server.BaseHTTPRequestHandler):
        def answer(self, content):
            data = content.encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def do_GET(self):
            self.answer(json.dumps(page))

        def do_POST(self):
            asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            self.answer(f"{self.path} noon in {asked['zone']}")

        def log_message(self, *_):
            """Nothing on stderr."""

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Proxy)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


class TestPrepare:
    @pytest.mark.parametrize(
        "form", [MESSAGES, json.dumps(MESSAGES), str(MESSAGES)], ids=["list", "json", "printed"]
    )
    def test_messages_in_any_form(self, form):
        """And without services there are no tools."""
        prepared = run("prepare_tools", form, user_identified_services="none")
        assert prepared["messages"] == MESSAGES and prepared["discovered_tools_map"] == {}
        assert "There are no tools." in prepared["chat_system_prompt"]

    def test_tools_of_a_server(self):
        """They stand in the prompt, one a line."""
        prepared = run("prepare_tools", MESSAGES, user_identified_services="files")
        tool = prepared["discovered_tools_map"]["echo"]
        assert (tool["service"], tool["tool"]) == ("files", "echo")
        assert json.dumps(tool["llm_schema"]) in prepared["chat_system_prompt"].splitlines()

    def test_a_service_that_fails_is_told(self):
        """The others are there."""
        prepared = run("prepare_tools", MESSAGES, user_identified_services="broken, files")
        assert "Service broken gives no tools" in prepared["chat_system_prompt"]
        assert "echo" in prepared["discovered_tools_map"]

    def test_a_service_of_the_proxy(self, proxy):
        prepared = run("prepare_tools", MESSAGES, user_identified_services="clock", mcpo_url=proxy)
        assert list(prepared["discovered_tools_map"]) == ["now"]
        assert '"zone"' in prepared["chat_system_prompt"]

    def test_two_tools_of_one_name(self, proxy):
        prepared = run("prepare_tools", MESSAGES, user_identified_services="clock,watch", mcpo_url=proxy)
        assert list(prepared["discovered_tools_map"]) == ["now", "watch_now"]

    def test_a_prompt_of_ones_own(self, tmp_path):
        (tmp_path / "own.txt").write_text("My rules.")
        prepared = run(
            "prepare_tools",
            MESSAGES,
            user_identified_services="files",
            default_prompt_path=str(tmp_path / "own.txt"),
        )
        assert prepared["chat_system_prompt"].startswith("My rules.\n")


@pytest.mark.parametrize(
    ("answer", "clean"),
    [
        ('{"a": 1}', '{"a": 1}'),
        ('Sure {I think}:\n```json\n{"a": {"b": [1]}}\n```\nDone.', '{"a": {"b": [1]}}'),
        (["[1,", " 2]", " x"], "[1, 2]"),
        ([{"token": '{"a"'}, {"token": ": 1}"}, {"token": None}], '{"a": 1}'),
        ("  no tools  ", "no tools"),
    ],
)
def test_the_json_of_an_answer(answer, clean):
    """Whole, or as the pieces of a stream."""
    assert run("sanitize_answer", answer) == clean


TOOLS = {"echo": {"service": "files", "tool": "echo"}, "fail": {"service": "files", "tool": "fail"}}


class TestRun:
    @pytest.mark.parametrize(
        ("asked", "text"),
        [
            ('{"tool_calls": [{"name": "echo", "arguments": {"text": "a"}}, {"name": "echo", "arguments": {"text": "b"}}]}',
             "Tool echo: a\n\nTool echo: b"),
            ('{"tool": "echo", "parameters": {"text": "a"}}', "Tool echo: a"),
            ('[{"name": "nope"}]', "Tool nope: there is no such tool; there are: echo, fail"),
            ('{"tool_calls": []}', "No tool was called."),
            ('{"tool_calls": [3, {"name": 1}, {"name": "echo", "arguments": "x"}]}', "No tool was called."),
            ("3", "No tool was called."),
            ("I need none.", "No tool was called."),
        ],
    )  # fmt: skip
    def test_calls(self, asked, text):
        assert run("run_tools", MESSAGES, asked, json.dumps(TOOLS)) == text

    def test_a_call_that_fails_is_told(self):
        asked = '{"name": "fail", "arguments": {"reason": "x"}}'
        assert run("run_tools", MESSAGES, asked, TOOLS).startswith("Tool fail: failed: MCP server 'files'")

    def test_a_tool_of_the_proxy(self, proxy):
        tools = run("prepare_tools", MESSAGES, user_identified_services="clock", mcpo_url=proxy)[
            "discovered_tools_map"
        ]
        asked = '{"name": "now", "arguments": {"zone": "Brest"}}'
        assert run("run_tools", MESSAGES, asked, tools) == "Tool now: /clock/now noon in Brest"
