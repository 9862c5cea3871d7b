"""The version stands in one place; whoever asks is told the same (operate.md 1)."""

from __future__ import annotations

import configparser

import pytest

from Middleware.api.launch_arguments import parse
from Middleware.api.requests.access import AccessRules, ConsoleWish
from Middleware.common.constants import VERSION
from Middleware.common.instance_global_variables import INSTALL_DIRECTORY

HELLO = [{"role": "user", "content": "Hi"}]
HEALTH = pytest.mark.parametrize("path", ["/health", "/v1/health"])


def test_the_command_line(capsys):
    with pytest.raises(SystemExit):
        parse(["--version"])
    assert capsys.readouterr().out == f"headrace {VERSION}\n"


@HEALTH
class TestHealth:
    def test_without_keys_everybody_is_told(self, client, path):
        assert client.get(path).json == {"status": "ok", "version": VERSION}

    def test_with_keys_whoever_sends_one(self, serve, path):
        """The routes stay open: monitors ask without a key."""
        client = serve(access=AccessRules(api_keys=("k",))).test_client()
        for headers in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": "Bearer "}):
            answer = client.get(path, headers=headers)
            assert (answer.status_code, answer.json) == (200, {"status": "ok"})
        for headers in ({"Authorization": "Bearer k"}, {"X-Api-Key": "k"}):
            assert client.get(path, headers=headers).json == {"status": "ok", "version": VERSION}


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/completions"])
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
def test_the_fingerprint_of_answers(client, path, stream):
    body = {"messages": HELLO, "prompt": "Hi", "stream": stream}
    answer = client.post(path, json=body, buffered=True)
    assert f'"system_fingerprint":"hr-{VERSION}"' in answer.text.replace(": ", ":")


def test_tools_of_other_programs(client):
    """MCP clients show it."""
    message = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {}}
    assert client.post("/mcp", json=message).json["result"]["serverInfo"]["version"] == VERSION


def test_the_console_and_the_metrics(serve):
    """The page's menu shows what its state says."""
    client = serve(console=ConsoleWish("view", "secret-key-of-the-console")).test_client()
    headers = {"Authorization": "Bearer secret-key-of-the-console", "X-Headrace-Console": "1"}
    assert client.get("/console/api/state", headers=headers).json["version"] == VERSION
    assert f'headrace_build_info{{version="{VERSION}"}} 1.0' in client.get("/metrics").text


def test_the_package():
    """What pip shows is read from the same constant."""
    setup = configparser.ConfigParser()
    setup.read(INSTALL_DIRECTORY / "setup.cfg", "utf-8")
    assert setup["metadata"]["version"] == "attr: Middleware.common.constants.VERSION"
