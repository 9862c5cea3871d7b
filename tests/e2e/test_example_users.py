"""Every example user, and the user that the pages teach, answers clean: whole and streamed the same text.

One server process serves them all; the model behind them is a small fake of an Ollama server that thinks aloud
and names itself in every answer.
"""

from __future__ import annotations

import http.server
import json
import re
import shutil
import socket
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from Middleware.common.instance_global_variables import INSTALL_DIRECTORY
from tests.patience import PATIENCE_S, wait_until
from tests.workflows.tools.conftest import stdio_file

pytestmark = pytest.mark.e2e

CONFIGS = INSTALL_DIRECTORY / "Public" / "Configs"
TAUGHT_USER = "ana"
USERS = sorted([TAUGHT_USER, *(p.stem for p in (CONFIGS / "Users").glob("[!_]*.json"))])
PIXEL = "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
FACT = "Ana wants a blue boat."
EVENT = {"what": "Boat", "when": "Friday", "where": "the mill", "people": "Ana, Tom"}


def reply(body: dict[str, Any]) -> str:
    """What the model says, thoughts and all: the same for the same request."""
    name = "" if body["messages"][-1]["content"].endswith("Tom:") else "Assistant: "
    return f"< Thinking >What do they want?\n</THINK>\n\n{name}{answer(body)}\n"


def answer(body: dict[str, Any]) -> str:
    """What of it is meant for the user."""
    first = body["messages"][0]["content"]
    if "sort messages" in first:
        return "**Code**"
    if "Tools:" in first:
        call = {"name": "read_file", "arguments": {"path": "PLAN"}}
        return f"I will look.\n```json\n{json.dumps({'tool_calls': [call]})}\n```"
    if "Tools were called" in first:
        return first.rpartition("\n")[2]
    if "direct a conversation" in first:
        return "Tom"
    if "facts out of a piece of a conversation" in first:
        return json.dumps([{"summary": FACT, "entities": ["Ana"], "key_phrases": ["blue boat"]}])
    if body.get("format"):
        return json.dumps(EVENT)
    if any(message.get("images") for message in body["messages"]):
        return "a red square"
    return f"Said to {len(body['messages'])} messages."


class FakeOllama(http.server.BaseHTTPRequestHandler):
    calls: list[dict[str, Any]]
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: object) -> None:
        """Nothing on stderr."""

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if "input" in body:
            return self.send(json.dumps({"embeddings": [[1.0, 0.5] for _ in body["input"]]}).encode())
        self.calls.append(body)
        text = reply(body)
        parts = [text[i : i + 3] for i in range(0, len(text), 3)] if body["stream"] else [text]
        lines = [{"message": {"role": "assistant", "content": part}, "done": False} for part in parts[:-1]]
        lines.append(
            {"message": {"role": "assistant", "content": parts[-1]}, "done": True, "done_reason": "stop"}
        )
        self.send("".join(json.dumps(line) + "\n" for line in lines).encode())

    def send(self, data: bytes) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "application/x-ndjson")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


class Server:
    def __init__(self, port: int, calls: list[dict[str, Any]], public: Path) -> None:
        self.port, self.calls, self.public = port, calls, public

    def ask(self, user: str, content: Any, *, stream: bool, before: tuple[str, ...] = ()) -> str:
        """The answer's text. `before`: what was said earlier."""
        said = [{"role": "user", "content": text} for text in (*before, content)]
        messages = [{"role": "system", "content": "SYS"}, *said]
        body = json.dumps({"model": user, "stream": stream, "messages": messages}).encode()
        url = f"http://127.0.0.1:{self.port}/v1/chat/completions"
        request = urllib.request.Request(url, body, {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=PATIENCE_S) as response:
            text = response.read().decode()
        if not stream:
            return str(json.loads(text)["choices"][0]["message"]["content"])
        events = [json.loads(line[6:]) for line in text.splitlines() if line.startswith("data: {")]
        return "".join(
            event["choices"][0]["delta"].get("content") or "" for event in events if event["choices"]
        )


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    calls: list[dict[str, Any]] = []
    handler = type("Handler", (FakeOllama,), {"calls": calls})
    backend = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=backend.serve_forever, daemon=True).start()
    public = tmp_path_factory.mktemp("public")
    shutil.copytree(CONFIGS, public / "Configs")
    for name in ("examples/Main", "examples/Reasoning", "examples/Vision", "local-model/Demo"):
        _point(public / "Configs/Endpoints" / f"{name}.json", backend.server_port, "OllamaApiChat")
    _point(public / "Configs/Endpoints/examples/Embeddings.json", backend.server_port, "Ollama-Embeddings")
    _teach(public / "Configs")
    tools = {**stdio_file(public / "trace.txt"), "env": {"PLAN": "Sail north."}}
    (public / "Configs/MCPServers/files.json").write_text(json.dumps(tools), encoding="utf-8")
    process, port = _start(public)
    yield Server(port, calls, public)
    process.terminate()
    process.wait(timeout=PATIENCE_S)
    backend.shutdown()
    backend.server_close()


def _point(file: Path, port: int, api_type: str) -> None:
    """The three fields that a newcomer changes; the rest stays as shipped."""
    fields = {"endpoint": f"http://127.0.0.1:{port}", "apiTypeConfigFileName": api_type}
    endpoint = json.loads(file.read_text(encoding="utf-8")) | fields | {"modelNameToSendToAPI": "small"}
    file.write_text(json.dumps(endpoint), encoding="utf-8")


def _teach(configs: Path) -> None:
    """The user of the section "A user of your own" of the configuration page, word for word."""
    page = (INSTALL_DIRECTORY / "docs" / "configuration.md").read_text(encoding="utf-8")
    section = page.split("\n## A user of your own\n")[1].split("\n## ")[0]
    user, workflow = re.findall(r"```json\n(.*?)```", section, re.S)
    (configs / "Users" / f"{TAUGHT_USER}.json").write_text(user, encoding="utf-8")
    (configs / "Workflows" / TAUGHT_USER).mkdir()
    (configs / "Workflows" / TAUGHT_USER / "Main.json").write_text(workflow, encoding="utf-8")


def _start(public: Path) -> tuple[subprocess.Popen[bytes], int]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = int(probe.getsockname()[1])
    command = [sys.executable, str(INSTALL_DIRECTORY / "server.py"), "--PublicDirectory", str(public)]
    command += [
        "--port",
        str(port),
        "--concurrency",
        "0",
        *(word for user in USERS for word in ("--User", user)),
    ]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        wait_until(lambda: answers(port), process)
    except AssertionError:
        process.kill()
        process.wait()
        raise
    return process, port


def answers(port):
    try:
        urllib.request.urlopen(f"http://127.0.0.1:{port}/v1/models", timeout=PATIENCE_S).close()
    except OSError:
        return False
    return True


PLAIN = "Said to 2 messages."
PICTURE = [
    {"type": "text", "text": "[DiscussionId]d1[/DiscussionId] What is it?"},
    {"type": "image_url", "image_url": {"url": PIXEL}},
]

# user, what is said, the answer (None: any), calls of the whole and of the streamed request
EXAMPLES = {
    TAUGHT_USER: ("Hello", PLAIN, (1, 1)),
    "demo": ("Hello", None, (0, 0)),
    "chat": ("Hello", PLAIN, (1, 1)),
    "draft-criticise-answer": ("Hello", PLAIN, (3, 3)),
    "local-model": ("Hello", PLAIN, (1, 1)),
    "reasoning": ("Hello", PLAIN, (1, 1)),
    "router": ("Write a loop", PLAIN, (3, 3)),
    "reviewers": ("A text.", PLAIN, (7, 7)),
    "group-chat": ("Tom:", "Tom: Said to 2 messages.", (2, 2)),
    "vision": (PICTURE, "Said to 3 messages.", (2, 1)),
    "chain-of-thought": ("2 + 2?", PLAIN, (4, 4)),
    "json-extraction": ("Boat", "**Boat**\n\n- when: Friday\n- where: the mill\n- who: Ana, Tom", (1, 1)),
    "web-research": ("How high?", PLAIN, (3, 3)),
    "wiki-question": ("Who?", PLAIN, (2, 2)),
    "tool-agent": ("What is the plan?", "Tool read_file: Sail north.", (2, 2)),
    "recursion": ("A poem", PLAIN, (4, 4)),
    "memory-assistant": ("[DiscussionId]m1[/DiscussionId] Hello", PLAIN, (2, 2)),
    "memory-game": ("[DiscussionId]m2[/DiscussionId] Hello", PLAIN, (1, 1)),
    "long-chat": ("[DiscussionId]m3[/DiscussionId] Hello", PLAIN, (1, 1)),
}


@pytest.mark.parametrize("user", USERS)
def test_an_example_answers(server: Server, user: str) -> None:
    """A picture that was described once is not described again."""
    said, expected, calls = EXAMPLES[user]
    before = len(server.calls)
    whole = server.ask(user, said, stream=False)
    between = len(server.calls)
    streamed = server.ask(user, said, stream=True)
    assert whole == streamed
    assert whole == (expected or whole)
    assert (between - before, len(server.calls) - between) == calls


def test_the_assistant_remembers_and_finds_again(server: Server) -> None:
    """Facts, vectors and the state document are made behind an answer; the next answer has them in its prompt."""
    before = tuple(f"Message {number}. [DiscussionId]long[/DiscussionId]" for number in range(14))
    server.ask("memory-assistant", "Which boat?", stream=True, before=before)
    document = server.public / "DiscussionIds" / "long" / "state_document.md"
    wait_until(document.exists)
    server.calls.clear()
    server.ask("memory-assistant", "Which boat?", stream=False, before=before)
    prompts = [call["messages"][0]["content"] for call in server.calls]
    assert any(FACT in prompt and "Said to 2 messages." in prompt for prompt in prompts)


def test_an_answer_of_the_demo_is_clean(server: Server) -> None:
    """The demo model thinks aloud and names itself; neither is seen."""
    text = server.ask("demo", "Hello", stream=True)
    assert "<think>" not in text
    assert not text.startswith("Assistant:")
