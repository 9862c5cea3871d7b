"""The official reference servers of MCP, as npm packages, through a real running Headrace.

Needs Node.js, and the packages in `.venv/mcp-servers`, which `.ci/run` installs.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor

import psutil
import pytest

from tests.e2e.conftest import HOUSE, Gunicorn, Server, free_port, write, write_tree
from tests.patience import PATIENCE_S, wait_until
from tests.workflows.tools.conftest import gone

pytestmark = [pytest.mark.npm, pytest.mark.e2e]

PACKAGES = HOUSE / ".venv" / "mcp-servers" / "node_modules" / "@modelcontextprotocol"
EVERYTHING = PACKAGES / "server-everything" / "dist" / "index.js"
FILES = PACKAGES / "server-filesystem" / "dist" / "index.js"
LIMIT_S = PATIENCE_S


def node(server, tool, **arguments):
    return [{"type": "MCPToolCall", "server": server, "tool": tool, "arguments": arguments, "timeout": 60}]


USERS = {
    **{f"echo-{kind}": {"workflows": {"Chat": node(kind, "echo", message="{chat_user_prompt_last_one}")}}
       for kind in ("stdio", "sse", "http")},
    "sum": {"workflows": {"Chat": node("stdio", "get-sum", a=2, b=3)}},
    "weather": {"workflows": {"Chat": node("http", "get-structured-content", location="Chicago")}},
    "picture": {"workflows": {"Chat": node("stdio", "get-tiny-image")}},
    "missing": {"workflows": {"Chat": [{**node("stdio", "nope")[0], "onError": "return"}]}},
    "read": {"workflows": {"Chat": node("files", "read_text_file", path="{chat_user_prompt_last_one}")}},
    "write": {"workflows": {"Chat": node("files", "write_file", path="{folder}/new.txt", content="{chat_user_prompt_last_one}")}},
    "outside": {"workflows": {"Chat": [{**node("files", "read_text_file", path="/etc/hostname")[0], "onError": "return"}]}},
}  # fmt: skip


def start_http(node_program, transport, port, log):
    """The everything server behind HTTP, awaited."""
    with log.open("wb") as file:
        process = subprocess.Popen(
            [node_program, str(EVERYTHING), transport],
            env={**os.environ, "PORT": str(port)},
            stdout=file,
            stderr=file,
        )
    wait_until(lambda: str(port) in log.read_text(), process, log.read_text)
    return process


@pytest.fixture(scope="module", params=[Server, Gunicorn], ids=["waitress", "gunicorn"])
def server(request, backend, tmp_path_factory):
    program = shutil.which("node")
    assert program and EVERYTHING.exists() and FILES.exists(), ".ci/run installs Node.js and the servers"
    folder = tmp_path_factory.mktemp("reference")
    public, shared = folder / "public", folder / "shared"
    shared.mkdir()
    (shared / "plan.txt").write_text("Sail north.")
    users = json.loads(json.dumps(USERS).replace("{folder}", str(shared)))
    write_tree(public, users, backend.url)
    ports = {"sse": free_port(), "streamableHttp": free_port()}
    web = [start_http(program, kind, port, folder / f"{kind}.log") for kind, port in ports.items()]
    files = {
        "stdio": {"transport": "stdio", "command": program, "args": [str(EVERYTHING), "stdio"]},
        "files": {"transport": "stdio", "command": program, "args": [str(FILES), str(shared)]},
        "sse": {"transport": "sse", "url": f"http://127.0.0.1:{ports['sse']}/sse"},
        "http": {"transport": "streamable_http", "url": f"http://127.0.0.1:{ports['streamableHttp']}/mcp"},
    }
    for name, file in files.items():
        write(public / "Configs" / "MCPServers" / f"{name}.json", file)
    server = request.param(public, users, ("--concurrency", "0"))
    server.shared = shared
    yield server
    server.stop()
    for process in web:
        process.kill()
        process.wait()


def said(server, user, text="hi"):
    body = {"model": user, "messages": [{"role": "user", "content": text}]}
    status, answer = server.request("POST", "/v1/chat/completions", body, timeout_s=PATIENCE_S)
    assert status == 200, (answer, server.log)
    return json.loads(answer)["choices"][0]["message"]["content"]


class TestEverything:
    @pytest.mark.parametrize("kind", ["stdio", "sse", "http"])
    def test_fifty_at_once(self, server, kind):
        with ThreadPoolExecutor(50) as pool:
            answers = list(pool.map(lambda number: said(server, f"echo-{kind}", f"n{number}"), range(50)))
        assert answers == [f"Echo: n{number}" for number in range(50)]

    def test_a_number(self, server):
        assert "5" in said(server, "sum")

    def test_structured_content(self, server):
        assert {"temperature", "conditions", "humidity"} <= set(json.loads(said(server, "weather")))

    def test_a_picture_is_json(self, server):
        """Between the texts."""
        assert '"mimeType": "image/png"' in said(server, "picture")

    def test_a_tool_that_is_not_there(self, server):
        assert "get-tiny-image" in said(server, "missing")


class TestFilesystem:
    def test_a_file_is_read(self, server):
        assert "Sail north." in said(server, "read", str(server.shared / "plan.txt"))

    def test_and_written(self, server):
        said(server, "write", "Sail south.")
        assert (server.shared / "new.txt").read_text() == "Sail south."

    def test_outside_its_folder_it_refuses(self, server):
        assert "denied" in said(server, "outside")


def test_they_end_with_headrace(server):
    """No process of theirs is left."""
    said(server, "sum")
    children = psutil.Process(server.process.pid).children(recursive=True)
    own = [child.pid for child in children if str(PACKAGES) in " ".join(child.cmdline())]
    server.stop()
    assert own and gone(own)
