"""The first hour: a fresh clone and its pages. Its server starts, one file is edited as the page of models says,
and every example user, and the user that the pages teach, answers clean: whole and streamed the same text.

One server process serves them all; the model behind them is a small fake of an Ollama server that names itself in
every answer, and thinks: once aloud, in tags, and once in a field of its own, as long as real models think.
"""

from __future__ import annotations

import http.server
import json
import re
import socket
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from Middleware.common.instance_global_variables import INSTALL_DIRECTORY
from tests.patience import PATIENCE_S, wait_until
from tests.shipped import copy_configs
from tests.workflows.tools.conftest import stdio_file

pytestmark = pytest.mark.e2e

CONFIGS = INSTALL_DIRECTORY / "Public" / "Configs"
TAUGHT_USER = "ana"
USERS = sorted([TAUGHT_USER, *(p.stem for p in (CONFIGS / "Users").glob("[!_]*.json"))])
PIXEL = "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
FACT = "Ana wants a blue boat."
EVENT = {"what": "Boat", "when": "Friday", "where": "the mill", "people": "Ana, Tom"}


THOUGHT_TOKENS = 900
"""What a small model of today spends on thoughts before it names a category."""


def reply(body: dict[str, Any]) -> str:
    """What the model says, the same for the same request."""
    name = "" if "Tom:" in body["messages"][-1]["content"] else "Assistant: "
    return f"{name}{answer(body)}\n"


def aloud(body: dict[str, Any]) -> list[dict[str, str]]:
    """The messages of a stream that thinks in tags."""
    text = f"< Thinking >What do they want?\n</THINK>\n\n{reply(body)}"
    return [{"content": text[i : i + 3]} for i in range(0, len(text), 3)]


def apart(body: dict[str, Any]) -> list[dict[str, str]]:
    """The messages of a stream that thinks in a field of its own; nothing else where its tokens end before."""
    thoughts = [
        {"content": "", "thinking": "What do they want?"},
        {"content": "", "thinking": " Let me see."},
    ]
    if body["options"]["num_predict"] <= THOUGHT_TOKENS:
        return thoughts
    text = reply(body)
    return [*thoughts, *({"content": text[i : i + 3]} for i in range(0, len(text), 3))]


MODELS = {"thinks-aloud": aloud, "thinks-apart": apart}


def answer(body: dict[str, Any]) -> str:
    """What of it is meant for the user."""
    told = body["messages"][0]["content"] + body["messages"][-1]["content"]
    if "Sort the newest message" in told:
        return "**Code**"
    if body["messages"][-1]["role"] == "tool":
        return str(body["messages"][-1]["content"])
    if body.get("tools"):
        return "I will look."
    if "You read a web page" in told:
        return "No page says it."
    if "direct this conversation" in told:
        return "Tom"
    if "facts out of a piece of a conversation" in told:
        return json.dumps([{"summary": FACT, "entities": ["Ana"], "key_phrases": ["blue boat"]}])
    if body.get("format"):
        return json.dumps(EVENT)
    if any(message.get("images") for message in body["messages"]):
        return "a red square"
    return f"Said to {len(body['messages'])} messages."


ARGUMENTS = {
    "read_file": {"path": "PLAN"},
    "read_page": {"url": "http://127.0.0.1:9/", "question": "How high?"},
}


def called(body: dict[str, Any]) -> list[dict[str, Any]]:
    """The calls of tools that the model makes: one, when it is offered some and has no result yet."""
    if not body.get("tools") or body["messages"][-1]["role"] == "tool":
        return []
    names = [tool["function"]["name"] for tool in body["tools"]]
    return [{"function": {"name": n, "arguments": ARGUMENTS[n]}} for n in names if n in ARGUMENTS]


class FakeOllama(http.server.BaseHTTPRequestHandler):
    calls: list[dict[str, Any]]
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: object) -> None:
        """Nothing on stderr."""

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if "input" in body:
            return self.send(json.dumps({"embeddings": [[1.0, 0.5] for _ in body["input"]]}).encode())
        if body["options"]["num_predict"] > 1:  # else it is read ahead of the next turn
            self.calls.append(body)
        parts: list[dict[str, Any]] = [*MODELS[body["model"]](body)]
        end = "stop" if parts[-1]["content"] else "length"
        if not body["stream"]:
            whole = {key: "".join(part.get(key, "") for part in parts) for key in ("content", "thinking")}
            parts = [whole]
        lines: list[dict[str, Any]] = [
            {"message": {"role": "assistant", **part}, "done": False} for part in parts
        ]
        if calls := called(body):
            lines[-1]["message"]["tool_calls"] = calls
        lines[-1] |= {"done": True, "done_reason": end}
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


@pytest.fixture(scope="module", params=sorted(MODELS))
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A fresh clone's configuration, served, and then edited as the page of models says."""
    calls: list[dict[str, Any]] = []
    handler = type("Handler", (FakeOllama,), {"calls": calls})
    backend = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=backend.serve_forever, daemon=True).start()
    public = tmp_path_factory.mktemp("clone") / "Public"
    copy_configs(public / "Configs")
    _move_ollama(public / "Configs", backend.server_port)
    _teach(public / "Configs")
    tools = {**stdio_file(public / "trace.txt"), "env": {"PLAN": "Sail north."}}
    (public / "Configs/MCPServers/files.json").write_text(json.dumps(tools), encoding="utf-8")
    process, port = _start(public)
    _edit(public, backend.server_port, request.param)
    yield Server(port, calls, public)
    process.terminate()
    process.wait(timeout=PATIENCE_S)
    backend.shutdown()
    backend.server_close()


def _move_ollama(configs: Path, port: int) -> None:
    """The scripted Ollama has another port than a real one; and it plays the model of `./run --local-model`."""
    for file in (configs / "Endpoints").rglob("*.json"):
        file.write_text(file.read_text("utf-8").replace("127.0.0.1:11434", f"127.0.0.1:{port}"), "utf-8")
    local = configs / "Endpoints/local-model/Main.json"
    fields = {
        "endpoint": f"http://127.0.0.1:{port}",
        "apiTypeConfigFileName": "OllamaApiChat",
        "modelNameToSendToAPI": "thinks-aloud",
    }
    local.write_text(json.dumps({**json.loads(local.read_text("utf-8")), **fields}), "utf-8")


def _edit(public: Path, port: int, model: str) -> None:
    """What the page of model servers says: one file, the three fields of Ollama's row."""
    page = (INSTALL_DIRECTORY / "docs" / "models.md").read_text("utf-8")
    name = re.findall(r"`(Public/\S+\.json)`", page)[0]
    keys = re.findall(r"`(\w+)`", re.findall(r"\| your server \|.*", page)[0])
    row = re.findall(r"`(\S+)`", re.findall(r"\| Ollama \|.*", page)[0])
    values = [row[0].replace("127.0.0.1:11434", f"127.0.0.1:{port}"), row[1], model]
    file = public.parent / name
    endpoint = json.loads(file.read_text("utf-8"))
    assert set(keys) <= set(endpoint)
    file.write_text(json.dumps({**endpoint, **dict(zip(keys, values, strict=True))}), "utf-8")


def _teach(configs: Path) -> None:
    """The user of the section "Make your own user" of the page about changing the configuration, word for word."""
    page = (INSTALL_DIRECTORY / "docs" / "configuration-how-to.md").read_text(encoding="utf-8")
    section = page.split("\n## Make your own user\n")[1].split("\n## ")[0]
    user, workflow = re.findall(r"```json\n(.*?)```", section, re.S)
    (configs / "Users" / f"{TAUGHT_USER}.json").write_text(user, encoding="utf-8")
    (configs / "Workflows" / TAUGHT_USER).mkdir()
    (configs / "Workflows" / TAUGHT_USER / "Main.json").write_text(workflow, encoding="utf-8")


def _start(public: Path, users: Sequence[str] = USERS) -> tuple[subprocess.Popen[bytes], int]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = int(probe.getsockname()[1])
    command = [sys.executable, str(INSTALL_DIRECTORY / "server.py"), "--PublicDirectory", str(public)]
    command += [
        "--port",
        str(port),
        "--concurrency",
        "0",
        *(word for user in users for word in ("--User", user)),
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

# user, what is said, the answer, calls of the whole and of the streamed request
EXAMPLES = {
    TAUGHT_USER: ("Hello", PLAIN, (1, 1)),
    "demo": ("Hello", PLAIN, (1, 1)),
    "chat": ("Hello", PLAIN, (1, 1)),
    "draft-criticise-answer": ("Hello", PLAIN, (3, 3)),
    "local-model": ("Hello", PLAIN, (1, 1)),
    "reasoning": ("Hello", PLAIN, (1, 1)),
    "router": ("Write a loop", PLAIN, (3, 3)),
    "reviewers": ("A text.", PLAIN, (7, 7)),
    "candidates": ("2 + 2?", PLAIN, (3, 3)),
    "group-chat": ("Tom:", "Tom: Said to 2 messages.", (2, 2)),
    "vision": (PICTURE, "Said to 3 messages.", (2, 1)),
    "chain-of-thought": ("2 + 2?", PLAIN, (4, 4)),
    "json-extraction": ("Boat", "**Boat**\n\n- when: Friday\n- where: the mill\n- who: Ana, Tom", (1, 1)),
    "web-research": ("How high?", PLAIN, (3, 3)),
    "wiki-question": ("Who?", PLAIN, (2, 2)),
    "agent": ("What is the plan?", "I will look.\n\nSail north.", (2, 2)),
    "researcher": ("How high?", "I will look.\n\nNo page says it.", (3, 3)),
    "recursion": ("A poem", PLAIN, (4, 4)),
    "memory-assistant": ("[DiscussionId]m1[/DiscussionId] Hello", PLAIN, (2, 2)),
    "memory-game": ("[DiscussionId]m2[/DiscussionId] Hello", PLAIN, (1, 1)),
    "long-chat": ("[DiscussionId]m3[/DiscussionId] Hello", PLAIN, (1, 1)),
    "roleplay": ("[DiscussionId]m4[/DiscussionId] Hello", PLAIN, (1, 1)),
}


@pytest.mark.parametrize("user", USERS)
def test_an_example_answers(server: Server, user: str) -> None:
    """A picture that was described once is not described again."""
    said, expected, calls = EXAMPLES[user]
    if user == "agent":  # the first start of its MCP server may take longer than the node waits for it
        wait_until(lambda: server.ask(user, said, stream=False) == expected)
    before = len(server.calls)
    whole = server.ask(user, said, stream=False)
    between = len(server.calls)
    streamed = server.ask(user, said, stream=True)
    assert whole == streamed
    assert whole == expected
    assert (between - before, len(server.calls) - between) == calls


def test_the_assistant_remembers_and_finds_again(server: Server) -> None:
    """Facts, vectors and the state document are made behind an answer; the next answer has them in its prompt."""
    before = tuple(f"Message {number}. [DiscussionId]long[/DiscussionId]" for number in range(14))
    server.ask("memory-assistant", "Which boat?", stream=True, before=before)
    document = server.public / "DiscussionIds" / "long" / "state_document.md"
    wait_until(document.exists)
    server.calls.clear()
    server.ask("memory-assistant", "Which boat?", stream=False, before=before)
    prompts = [call["messages"][-1]["content"] for call in server.calls]
    assert any(FACT in prompt and "Said to 2 messages." in prompt for prompt in prompts)
