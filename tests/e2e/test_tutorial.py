"""The tutorial, followed: its files and commands are taken from the page as they are, and what it says one sees is there.

A scripted server plays the Ollama of the page, and the search of Wikipedia.
"""

from __future__ import annotations

import http.server
import json
import re
import shlex
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.conftest import HOUSE, Server, write
from tests.patience import PATIENCE_S, wait_until
from tests.shipped import copy_configs

pytestmark = pytest.mark.e2e

PAGE = (HOUSE / "docs/tutorial.md").read_text("utf-8")
STEPS = re.split(r"^## (?=\d\.)", PAGE, flags=re.M)
MODEL = "gemma3:4b"
FACT = "The cat of the user is called Biscuit."
FOUND = "The Ob is 3,650 kilometres long."
SAID = {
    "notebook about the user": "cat; Biscuit",
    "Write a first draft": "A draft.",
    "strict but fair critic": "It names no number.",
    "final answer to the user": "The answer.",
    "search words": "river Ob length",
    "take facts out": json.dumps([{"title": "Cat", "summary": FACT, "key_phrases": ["cat"]}]),
}
"""What the model says, by words of its first or its last message."""


def blocks(step: int, language: str) -> list[str]:
    """The blocks of a step, in the order of the page."""
    return [text.strip() for text in re.findall(rf"^```{language}\n(.*?)^```$", STEPS[step], re.M | re.S)]


def files(step: int) -> dict[str, str]:
    """The files that a step writes: path -> text."""
    return dict(re.findall(r"^`(Public/\S+)`\n\n```json\n(.*?)^```$", STEPS[step], re.M | re.S))


class Outside(http.server.BaseHTTPRequestHandler):
    """Ollama and Wikipedia on one port."""

    asked: list[dict[str, Any]]
    searched: list[str]
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing is printed."""

    def do_GET(self) -> None:
        if self.path.startswith("/w/"):
            self.searched.append(self.path)
            return self._send({"pages": [{"title": "Ob", "excerpt": FOUND}]})
        return self._send({"models": [{"name": MODEL}], "version": "0.9.0"})

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.asked.append(body)
        told = body["messages"][0]["content"] + body["messages"][-1]["content"]
        said = next((text for words, text in SAID.items() if words in told), "Hello from your own model.")
        text = f"<think>Well.</think>\n\nAssistant: {said}\n"
        parts = [text[at : at + 4] for at in range(0, len(text), 4)] if body["stream"] else [text]
        lines = [{"message": {"role": "assistant", "content": part}, "done": False} for part in parts]
        self._send(*lines[:-1], {**lines[-1], "done": True, "done_reason": "stop"})

    def _send(self, *lines: Any) -> None:
        data = "".join(json.dumps(line) + "\n" for line in lines).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


class Follower:
    """A reader of the page up to a step: a fresh clone, its files, and a server started by the page's command."""

    def __init__(self, folder: Path) -> None:
        self.asked: list[dict[str, Any]] = []
        self.searched: list[str] = []
        handler = type("Handler", (Outside,), {"asked": self.asked, "searched": self.searched})
        self._outside = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
        threading.Thread(target=self._outside.serve_forever, args=(0.05,), daemon=True).start()
        self.folder = folder
        copy_configs(folder / "Public" / "Configs")
        self._servers: list[Server] = []

    def writes(self, *steps: int) -> None:
        """The files of these steps. Addresses of the world outside lead to the scripted server."""
        host = f"127.0.0.1:{self._outside.server_port}"
        for path, text in [pair for step in steps for pair in files(step).items()]:
            for there in ("http://127.0.0.1:11434", "https://en.wikipedia.org"):
                text = text.replace(there, f"http://{host}")
            write(self.folder / path, json.loads(text.replace("en.wikipedia.org", host)))

    def starts(self, command: str) -> Server:
        """`./run ...` of the page, awaited."""
        program, *words = shlex.split(command)
        assert program == "./run"
        self._servers.append(Server(self.folder / "Public", {}, tuple(words)))
        return self._servers[-1]

    def prints(self, command: str) -> str:
        """What `./run ...` prints that does not serve."""
        program, *words = shlex.split(command)
        assert program == "./run"
        public = ["--PublicDirectory", str(self.folder / "Public")]
        done = subprocess.run(
            [sys.executable, "server.py", *words, *public],
            cwd=HOUSE,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout.replace(f":{self._outside.server_port}", ":11434")

    def leaves(self) -> None:
        for server in self._servers:
            server.stop()
        self._outside.shutdown()
        self._outside.server_close()


@pytest.fixture
def follower(tmp_path: Path) -> Iterator[Follower]:
    one = Follower(tmp_path)
    yield one
    one.leaves()


def shown(server: Server) -> str:
    """The log, as the page has it: with the usual port."""
    return server.log.replace(f":{server.port}", ":5000")


def chat(server: Server, *said: str, system: str = "", stream: bool = False) -> str:
    """The text of an answer to a conversation, as a chat client asks for it."""
    messages = [{"role": "system", "content": system}] if system else []
    for text in said[:-1]:
        messages += [{"role": "user", "content": text}, {"role": "assistant", "content": "The answer."}]
    messages.append({"role": "user", "content": said[-1]})
    status, body = server.post(
        "/v1/chat/completions", {"model": "mira", "stream": stream, "messages": messages}
    )
    assert status == 200, body
    return str(json.loads(body)["choices"][0]["message"]["content"])


def console(server: Server, path: str) -> Any:
    """What the page of the console is given."""
    asked = urllib.request.Request(f"{server.url}/console/api/{path}", headers={"X-Headrace-Console": "1"})
    with urllib.request.urlopen(asked, timeout=PATIENCE_S) as answer:
        return json.loads(answer.read())


def newest_run(server: Server) -> Any:
    """The newest run, once it has ended."""

    def ended() -> Any:
        (run,) = console(server, "runs?limit=1")["runs"]
        return run if run["state"] not in ("waiting", "running") else None

    return console(server, f"runs/{wait_until(ended)['id']}")


def test_every_step_is_followed() -> None:
    """A further step brings its test; and each JSON block is a whole file."""
    assert [step[0] for step in STEPS[1:]] == list("123456")
    assert all(len(files(step)) == len(blocks(step, "json")) for step in range(1, 7))
    assert [len(files(step)) for step in range(1, 7)] == [0, 1, 2, 0, 3, 2]


def test_the_first_answer(follower: Follower) -> None:
    """Step 1: the lines at the start, the line of JSON, and a node whose answer was cleaned."""
    start, ask = blocks(1, "sh")
    lines, begins = blocks(1, "text")
    server = follower.starts(start)
    assert [line for line in lines.splitlines() if line not in shown(server).splitlines()] == []
    question = HOUSE / re.findall(r'-d "@(\S+)"', ask)[0]
    status, body = server.post("/v1/chat/completions", json.loads(question.read_text("utf-8")))
    assert (status, f'"content":"{begins}' in body.decode()) == (200, True)
    run = newest_run(server)
    assert [node["title"] for node in run["nodes"]] == ["Answer"]
    steps = console(server, f"runs/{run['id']}/nodes/0/calls/0/cleaning")["steps"]
    assert {"thinking_names", "endpoint_prefixes"} <= {step["rule"] for step in steps}


def test_a_model_of_ones_own(follower: Follower) -> None:
    """Step 2: the file is used without a restart, the doctor finds the model, and the endpoint is well."""
    server = follower.starts(blocks(1, "sh")[0])
    question = json.loads((HOUSE / "docs/hello.json").read_text("utf-8"))
    server.post("/v1/chat/completions", question)
    follower.writes(2)
    get, examine = blocks(2, "sh")
    assert get.split()[-1] == MODEL
    assert blocks(2, "text")[0] in follower.prints(examine)
    assert chat(server, "Hello!") == "Hello from your own model."
    (endpoint,) = [one for one in console(server, "endpoints")["endpoints"] if one["name"] == "Main"]
    assert endpoint["state"] == "well" and "`well`" in STEPS[2]


def test_a_user_with_a_critic(follower: Follower) -> None:
    """Step 3: nothing is wrong with the files, and a run has the three nodes, each of which reads those before it."""
    follower.writes(2, 3)
    check, start = blocks(3, "sh")
    counts, line, nodes = blocks(3, "text")
    assert follower.prints(check).strip().splitlines()[-1].endswith(f": {counts}")
    server = follower.starts(start)
    assert line in shown(server).splitlines()
    assert chat(server, "How long is the river Ob?") == "The answer."
    assert [node["title"] for node in newest_run(server)["nodes"]] == nodes.splitlines()
    critic, answer = (body["messages"] for body in follower.asked[-2:])
    assert "A draft." in critic[-1]["content"]
    assert "A draft." in answer[-1]["content"] and "It names no number." in answer[-1]["content"]


def test_a_chat_client(follower: Follower) -> None:
    """Step 4: the one model of the list; and the text is the same however it is asked for."""
    follower.writes(2, 3)
    server = follower.starts(blocks(3, "sh")[1])
    (names,) = blocks(4, "text")
    models = json.loads(server.request("GET", "/v1/models")[1])["data"]
    assert [model["id"] for model in models] == names.splitlines()
    status, stream = server.post(
        "/v1/chat/completions",
        {"model": names, "stream": True, "messages": [{"role": "user", "content": "Hello!"}]},
    )
    events = [json.loads(line[6:]) for line in stream.decode().splitlines() if line.startswith("data: {")]
    parts = [event["choices"][0]["delta"].get("content") or "" for event in events if event["choices"]]
    assert (status, "".join(parts)) == (200, chat(server, "Hello!"))


def test_a_memory(follower: Follower) -> None:
    """Step 5, without a restart: four messages become a fact, which a new chat with the same tag finds again."""
    follower.writes(2, 3)
    server = follower.starts(blocks(3, "sh")[1])
    follower.writes(5)
    tag, messages, line = blocks(5, "text")
    said = messages.splitlines()
    for count in range(1, len(said) + 1):
        chat(server, *said[:count], system=tag)
    store = follower.folder / "Public/DiscussionIds/mira-notes/vector_memory.db"
    wait_until(store.exists)
    newest_run(server)
    assert any(printed.startswith(line) for printed in follower.prints(blocks(5, "sh")[0]).splitlines())
    question = re.findall(r"ask `(What .*?)`", STEPS[5])[0]
    follower.asked.clear()
    assert chat(server, question, system=tag) == "The answer."
    prompts = [message["content"] for body in follower.asked for message in body["messages"]]
    assert any("Write the final answer" in prompt and FACT in prompt for prompt in prompts)
    assert [prompt for prompt in prompts if "DiscussionId" in prompt] == []
    assert "Recall" in [node["title"] for node in newest_run(server)["nodes"]]


def test_a_search(follower: Follower) -> None:
    """Step 6, without a restart: the run shows the nodes of both workflows, and the draft is written with what was
    found."""
    follower.writes(2, 3, 5)
    server = follower.starts(blocks(3, "sh")[1])
    follower.writes(6)
    assert follower.prints(blocks(3, "sh")[0]).strip().splitlines()[-1].endswith(blocks(3, "text")[0])
    assert chat(server, "How long is the river Ob?", system=blocks(5, "text")[0]) == "The answer."
    run = newest_run(server)
    assert [node["title"] for node in run["nodes"]] == blocks(6, "text")[0].splitlines()
    assert follower.searched == ["/w/rest.php/v1/search/page?limit=5&q=river%20Ob%20length"]
    (draft,) = [
        body["messages"] for body in follower.asked if "first draft" in body["messages"][-1]["content"]
    ]
    assert FOUND in draft[-1]["content"]
