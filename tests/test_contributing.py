"""CONTRIBUTING.md is true: its examples, pages and rows, put into a copy of the whole project, pass what `./check`
asks of them, and run with all that they promise."""

from __future__ import annotations

import http.server
import json
import os
import re
import shutil
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.patience import PATIENCE_S

HOUSE = Path(__file__).resolve().parents[1]
PAGE = (HOUSE / "CONTRIBUTING.md").read_text("utf-8")
BLOCK = re.compile(r"^`([\w./-]+)`(?:: ([^\n]*))?\n\n```(?:python|json|markdown)\n(.*?)^```$", re.M | re.S)
BLOCKS = BLOCK.findall(PAGE)
FILES = {path: text for path, inside, text in BLOCKS if not inside}
FIELDS = {path: text for path, inside, text in BLOCKS if inside == "in `UserSettings`"}
ROWS = [
    (path, *re.findall(r"^(above|below) the row of `([\w-]+)`$", inside)[0], text)
    for path, inside, text in BLOCKS
    if " the row of " in inside
]
ENDS = {path: text for path, inside, text in BLOCKS if inside == "at the end"}
TESTS = [path for path in FILES if path.startswith("tests/")]
KEEPS_BYTECODE = {**os.environ, "PYTHONDONTWRITEBYTECODE": ""}
"""Else each process would compile the whole copy again."""
LEFT_OUT = shutil.ignore_patterns(
    ".git",
    ".venv",
    ".pytest_cache",
    ".ruff_cache",
    "__pycache__",
    "captures",
    "node_modules",
    "build",
    "*.egg-info",
    "logs",
    "DiscussionIds",
    "SqlLiteDBs",
)


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The house with all six additions, each made as the page says."""
    root = tmp_path_factory.mktemp("house")
    shutil.copytree(HOUSE, root, ignore=LEFT_OUT, dirs_exist_ok=True)
    (root / ".venv").symlink_to(HOUSE / ".venv")
    for path, text in FILES.items():
        assert not (root / path).exists(), f"{path} is in the house already"
        (root / path).write_text(text, "utf-8")
    for path, text in FIELDS.items():
        whole = (root / path).read_text("utf-8")
        place = "    port: int = key_field("
        assert whole.count(place) == 1
        (root / path).write_text(whole.replace(place, text + place), "utf-8")
    for path, side, name, row in ROWS:
        (root / path).write_text(with_row((root / path).read_text("utf-8"), side, name, row), "utf-8")
    for path, text in ENDS.items():
        (root / path).write_text((root / path).read_text("utf-8") + text, "utf-8")
    return root


def with_row(page: str, side: str, name: str, row: str) -> str:
    """A page with one more row in the table that has a row of `name` in its first two cells."""
    (there,) = re.findall(rf"^\|[^|\n]*(?:\|[^|\n]*)?(?<!\w){name}(?!\w)[^\n]*\n", page, re.M)[:1] or [""]
    assert there, f"no row of {name}"
    return page.replace(there, there + row if side == "below" else row + there, 1)


def run(root: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *words],
        cwd=root,
        env=KEEPS_BYTECODE,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )


def test_the_page_has_all_six() -> None:
    """A file, or a field, for each; and a test."""
    assert len(TESTS) == 7 and len(FIELDS) == 1
    for place in ("workflows/handlers/impl", "cleaning/rules", "llmapis/handlers/impl", "api/handlers/impl", "api/commands"):  # fmt: skip
        assert any(path.startswith(f"Middleware/{place}/") for path in FILES)


def test_the_tests_of_the_page_pass(copy: Path) -> None:
    """Where the page puts them."""
    done = run(copy, "-m", "pytest", "-q", "-p", "no:cacheprovider", *TESTS)
    assert done.returncode == 0, done.stdout + done.stderr


def test_all_has_the_house_style(copy: Path) -> None:
    """Format and lint of the whole tree, types of what was added: as `./check` asks."""
    code = [path for path in FILES if path.endswith(".py") and not path.startswith("tests/")]
    for words in (["ruff", "check", "."], ["ruff", "format", "--check", "."], ["mypy", *code]):
        done = run(copy, "-m", *words)
        assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.timeout(660)
def test_one_command_finds_the_tests_of_what_was_added(copy: Path) -> None:
    """Its own tests and the rules of the tree, pages and rows too: what `./check PATH` runs passes."""
    code = [path for path in FILES if path.startswith("Middleware/")]
    added = [*code, *FIELDS, *(path for path in FILES if path.startswith("docs/"))]
    chosen = run(
        copy, "-c", f"import runpy; print(runpy.run_path('tools/check_paths.py')['arguments']({added!r}))"
    )
    assert all(test in chosen.stdout for test in TESTS if "favourite_river" not in test)
    done = run(copy, "tools/check_paths.py", *added, "-p", "no:cacheprovider")
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr


def write(root: Path, path: str, content: Any) -> None:
    file = root / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(content), "utf-8")


@pytest.fixture(scope="module")
def tree(copy: Path, backend: str) -> Path:
    """A user who uses every addition."""
    configs = copy / "Own" / "Configs"
    for folder in ("ApiTypes", "PromptTemplates"):
        shutil.copytree(copy / "Public" / "Configs" / folder, configs / folder)
    user = {"customWorkflowOverride": True, "customWorkflow": "Main", "chatPromptTemplateName": "_chatonly"}
    write(configs, "Users/mira.json", {**user, "endpointConfigsSubDirectory": "m", "favouriteRiver": "Ob"})
    endpoint = {"endpoint": backend, "apiTypeConfigFileName": "LineServer", "removeDiagnosticPrefix": True}
    write(configs, "Endpoints/m/Lines.json", {**endpoint, "maxContextTokenSize": 4096})
    count = {"type": "WordCount", "title": "Count", "content": "{chat_user_prompt_last_one}"}
    write(
        configs,
        "Workflows/mira/Main.json",
        [count, {"type": "Standard", "title": "Say", "endpointName": "Lines", "prompt": "{agent1Output}"}],
    )
    return copy / "Own"


class LineServer(http.server.BaseHTTPRequestHandler):
    """Says how long the prompt was. The first line breaks off where a test asks for it."""

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        said = f"[DIAGNOSTIC]: {asked['text'].strip()} words."
        lines = [{"line": said}, {"over": True}] if asked.get("stream") else [{"line": said}]
        body = "".join(json.dumps(line) + "\n" for line in lines).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Not a word."""


@pytest.fixture(scope="module")
def backend() -> Iterator[str]:
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), LineServer)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()


def test_validate_knows_them(copy: Path, tree: Path) -> None:
    """Node, rule, backend and setting: no word about what is right, a sentence about what is wrong."""
    done = run(copy, "server.py", "--validate", "--PublicDirectory", str(tree))
    assert (done.returncode, "unknown" in done.stdout) == (0, False), done.stdout + done.stderr
    wrong = copy / "Wrong"
    shutil.copytree(tree, wrong)
    for path, key, value in (
        ("Users/mira.json", "favouriteRiver", 5),
        ("Endpoints/m/Lines.json", "removeDiagnosticPrefix", "yes"),
    ):
        file = wrong / "Configs" / path
        write(wrong / "Configs", path, {**json.loads(file.read_text("utf-8")), key: value})
    write(wrong / "Configs", "Workflows/mira/Main.json", [{"type": "WordCount", "title": "Count"}])
    told = run(copy, "server.py", "--validate", "--PublicDirectory", str(wrong)).stdout
    for words in ("favouriteRiver: found 5, allowed: a string", "removeDiagnosticPrefix: found", "content"):
        assert words in told


def test_schemas_know_them(copy: Path, tmp_path: Path) -> None:
    """Editors complete the node, its field, the rule's key and the setting."""
    assert run(copy, "server.py", "--schemas", str(tmp_path)).returncode == 0
    node = json.loads((tmp_path / "node" / "WordCount.json").read_text("utf-8"))
    assert node["properties"]["content"]["description"].startswith("What is counted")
    assert "removeDiagnosticPrefix" in (tmp_path / "endpoint.json").read_text("utf-8")
    assert "favouriteRiver" in (tmp_path / "user.json").read_text("utf-8")


def test_the_command_runs(copy: Path, tree: Path) -> None:
    """And stands in the help."""
    done = run(copy, "server.py", "--count-users", "--PublicDirectory", str(tree))
    assert (done.returncode, done.stdout.strip()) == (0, "1"), done.stderr
    assert "--count-users" in run(copy, "server.py", "--help").stdout


@pytest.fixture(scope="module")
def served(copy: Path, tree: Path) -> Iterator[str]:
    """The copy as a running server."""
    words = ["server.py", "--PublicDirectory", str(tree), "--User", "mira", "--port", "0"]
    with subprocess.Popen(
        [sys.executable, *words],
        cwd=copy,
        env=KEEPS_BYTECODE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        assert process.stdout is not None
        seen = ""
        for line in process.stdout:
            seen += line
            if found := re.search(r"http://127\.0\.0\.1:\d+", line):
                break
        else:
            pytest.fail(seen)
        drain = threading.Thread(target=process.stdout.read, daemon=True)
        drain.start()
        yield found[0]
        process.terminate()
        drain.join(PATIENCE_S)


def post(url: str, body: Any) -> str:
    asked = urllib.request.Request(url, json.dumps(body).encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(asked, timeout=PATIENCE_S) as answer:
        return str(answer.read().decode())


def test_a_running_server_has_them(served: str) -> None:
    """One question through front end, node, backend and rule, whole and streamed."""
    whole = json.loads(post(f"{served}/tt/type", {"key": "one two three"}))
    streamed = post(f"{served}/tt/type", {"key": "one two three", "stream": True})
    assert whole["typed"] == "3 words."
    assert "".join(line[1:] for line in streamed.splitlines() if line[0] == "+") == "3 words."
