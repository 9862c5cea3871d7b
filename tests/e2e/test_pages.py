"""What the pages show is typed in as it stands, against the demo that a newcomer starts."""

from __future__ import annotations

import importlib.util
import json
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from tests.e2e.conftest import HOUSE, Server
from tests.patience import PATIENCE_S
from tests.shipped import copy_configs

pytestmark = pytest.mark.e2e

ADDRESS = "http://127.0.0.1:5000"
README = (HOUSE / "README.md").read_text("utf-8")
CURL_LINES = re.findall(r"^curl .*$", README, re.M)
SNIPPETS = [
    pytest.param(snippet, said, id=f"{page}-{number}")
    for page, said in (("README", ["Hello!"]), ("responses", ["Hello! I am Ann.", "Who am I?"]))
    for number, snippet in enumerate(
        re.findall(r"```python\n(.*?)```", (HOUSE / f"docs/frontends/{page}.md").read_text("utf-8"), re.S)
    )
]
"""Each with what it says: the demo repeats it."""


def picture() -> Any:
    """The script that draws the picture of the README."""
    file = HOUSE / "docs/pictures/draw_demo.py"
    spec = importlib.util.spec_from_file_location("draw_demo", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


PICTURE = picture()


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """The server with the configuration that ships, and no user named: as `./run` starts it."""
    public = tmp_path_factory.mktemp("public")
    copy_configs(public / "Configs")
    server = Server(public, {}, ())
    yield server
    server.stop()


def text_of(body: str) -> str:
    """The text of an OpenAI answer."""
    return str(json.loads(body)["choices"][0]["message"]["content"])


def test_the_picture_shows_what_is_so(demo: Server) -> None:
    """The file is what the script draws, and its right side is what the server answers."""
    status, body = demo.post(
        "/v1/chat/completions", json.loads((HOUSE / "docs/hello.json").read_text("utf-8"))
    )
    assert (status, text_of(body.decode())) == (200, PICTURE.seen())
    assert PICTURE.PICTURE.read_text("utf-8") == PICTURE.draw()


def test_the_readme_has_one_line_for_all_shells() -> None:
    """No quoting that sh, PowerShell and cmd read in different ways: no single quotes, no quotes in quotes."""
    assert len(CURL_LINES) == 1
    assert re.fullmatch(r'curl (?:[-\w:/.]+|"[^"\'$`\\%!]*"| )+', CURL_LINES[0])


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
def test_the_first_answer(demo: Server) -> None:
    """The line of the README, typed in the folder of the program: one line, not a screen full of chunks."""
    words = shlex.split(CURL_LINES[0].replace(ADDRESS, demo.url))
    done = subprocess.run(words, cwd=HOUSE, capture_output=True, text=True, timeout=PATIENCE_S, check=True)
    assert text_of(done.stdout) == PICTURE.seen()
    assert len(done.stdout.splitlines()) == 1


@pytest.mark.parametrize(("snippet", "said"), SNIPPETS)
def test_the_official_packages(demo: Server, snippet: str, said: list[str]) -> None:
    """The lines of the page print the clean answers."""
    words = [sys.executable, "-c", snippet.replace(ADDRESS, demo.url)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=PATIENCE_S, check=True)
    answers = [PICTURE.seen().replace('"Hello!"', f'"{text}"') for text in said]
    assert done.stdout == "".join(f"{answer}\n" for answer in answers)
