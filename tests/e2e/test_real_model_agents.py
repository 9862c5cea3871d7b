"""A real model as an agent: SmolLM2-135M reads a file by a tool, in `json` mode, and says what stands in it.

So small a model fails at most questions, so the file is named in this one, without a folder. Source: spec agents.md 11,
row 2.
"""

from __future__ import annotations

import http.server
import json
import shutil
import threading
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.conftest import HOUSE, Server, free_port, write
from tests.patience import PATIENCE_S, wait_until

pytestmark = [pytest.mark.realmodel, pytest.mark.timeout(600)]

FILES = HOUSE / ".venv/mcp-servers/node_modules/@modelcontextprotocol/server-filesystem/dist/index.js"
DOOR = "The code of the door is 8831."
QUESTION = "What is the code of the door? Read the file door.txt."
SEEDS = (1, 2, 3)
"""One for each try, so that a run says what the last one said."""
SCRIPT = "from pathlib import Path\n\ndef Invoke(path):\n    return (Path({folder!r}) / path).read_text()\n"
SCHEMA = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}


class Recorder(http.server.BaseHTTPRequestHandler):
    """Hands each request on to the model, and keeps it."""

    model: str
    seen: list[dict[str, Any]]

    def log_message(self, *_: object) -> None:
        """Nothing on stderr."""

    def do_POST(self) -> None:
        data = self.rfile.read(int(self.headers["Content-Length"]))
        self.seen.append(json.loads(data))
        request = urllib.request.Request(self.model + self.path, data, {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=PATIENCE_S) as answer:
            body = answer.read()
        self.send_response(200)
        self.send_header("Content-Type", answer.headers["Content-Type"])
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@pytest.fixture(scope="module")
def recorder() -> Iterator[Any]:
    """The model behind a server that keeps what it is asked; `url`, `seen`."""
    pytest.importorskip("xllamacpp", reason='needs the extra: pip install -e ".[local-model]"')
    import run_local_model

    model = run_local_model.start_model_server(free_port())
    handler = type("Handler", (Recorder,), {"model": str(model.listening_address), "seen": []})
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    handler.url = f"http://127.0.0.1:{server.server_port}"  # type: ignore[attr-defined]
    handler.kept = model  # type: ignore[attr-defined]  # lives as long as the fixture
    yield handler
    server.shutdown()
    server.server_close()


def agent(folder: Path, tool: Any) -> list[dict[str, Any]]:
    """An agent with one tool; what it called is in a file before its answer is sent."""
    return [
        {
            "title": "Reader",
            "type": "Agent",
            "endpointName": "Model",
            "systemPrompt": "You are a helpful assistant. Answer briefly, in plain words.",
            "agentTools": [tool],
            "toolCalling": "json",
            "maxSteps": 2,
            "toolTimeout": PATIENCE_S,
            "maxResponseSizeInTokens": 100,
        },
        {
            "type": "SaveCustomFile",
            "filepath": str(folder / "calls.json"),
            "content": "{agent1ToolCalls}",
        },
        {"type": "StaticResponse", "content": "{agent1Output}", "returnToUser": True},
    ]


@pytest.fixture(scope="module")
def house(recorder: Any, launch: Any, tmp_path_factory: pytest.TempPathFactory) -> Server:
    folder = tmp_path_factory.mktemp("files")
    (folder / "door.txt").write_text(DOOR, "utf-8")
    script = folder / "read.py"
    script.write_text(SCRIPT.format(folder=str(folder)), "utf-8")
    told = {"name": "read_file", "description": "Reads a file", "parameters": SCHEMA}
    tools: dict[str, Any] = {"script": {"python": str(script), **told}, "served": "mcp:files/read_text_file"}
    endpoint = {
        "endpoint": recorder.url,
        "apiTypeConfigFileName": "LlamaCppServer",
        "modelNameToSendToAPI": "smollm2",
        "maxContextTokenSize": 2048,
    }
    samplers = {seed: {"presetSamplers": {"temperature": 0.2, "seed": seed}} for seed in SEEDS}
    users = {
        f"{name}{seed}": {
            "workflows": {"Chat": agent(folder, tool)},
            "endpoints": {"Model": {**endpoint, **samplers[seed]}},
        }
        for name, tool in tools.items()
        for seed in SEEDS
    }
    server: Server = launch(users, "--concurrency", "0")
    node = shutil.which("node") or "node"
    file = {"transport": "stdio", "command": node, "args": [str(FILES), "."], "cwd": str(folder)}
    write(server.public / "Configs" / "MCPServers" / "files.json", file)
    server.folder = folder  # type: ignore[attr-defined]
    return server


def is_offered_its_tool(house: Any, recorder: Any, user: str) -> bool:
    """On a busy machine a tool server may take longer to start than a chat waits for it."""
    recorder.seen.clear()
    house.post("/v1/chat/completions", {"model": user, "messages": [{"role": "user", "content": "Hello"}]})
    return "read_" in recorder.seen[0]["messages"][0]["content"]


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("tool", ["script", "served"])
def test_a_small_model_reads_a_file_and_says_what_stands_in_it(
    house: Any, recorder: Any, tool: str, seed: int
) -> None:
    """Three tries of three: the call is right, its result in the last prompt, the answer in words."""
    if tool == "served" and not (FILES.is_file() and shutil.which("node")):
        pytest.skip("needs Node.js, and the packages in .venv/mcp-servers")
    user = f"{tool}{seed}"
    wait_until(lambda: is_offered_its_tool(house, recorder, user))
    kept = house.folder / "calls.json"
    kept.unlink()
    recorder.seen.clear()
    body = {"model": user, "messages": [{"role": "user", "content": QUESTION}]}
    status, answer = house.post("/v1/chat/completions", body)
    assert status == 200
    text = json.loads(answer)["choices"][0]["message"]["content"]
    calls = json.loads(kept.read_text("utf-8"))
    assert [call["arguments"] for call in calls[:1]] == [{"path": "door.txt"}] and not calls[0]["failed"], (
        calls
    )
    assert recorder.seen[0]["temperature"] == 0.2
    assert DOOR in recorder.seen[-1]["messages"][-1]["content"]
    assert "8831" in text and "{" not in text
