"""The packages of Anthropic and OpenAI for JavaScript (more-fronts.md 12.1).

Needs Node.js, and the packages in `.venv/clients`, which `.ci/run` installs.
"""

from __future__ import annotations

import json
import shutil
import subprocess

import pytest

from tests.e2e.conftest import HOUSE, NODE
from tests.e2e.fake_backend import Reply
from tests.patience import PATIENCE_S

pytestmark = [pytest.mark.npm, pytest.mark.e2e]

PACKAGES = HOUSE / ".venv" / "clients"
SCRIPT = HOUSE / "tests" / "e2e" / "javascript" / "anthropic.mjs"
THINKER = {"reasoningOutput": "field", "removeThinking": True, "startThinkTag": "<think>", "endThinkTag": "</think>"}  # fmt: skip
REPLIES = {
    "js tide": Reply(["<think>", "A tool.", "</think>", "I ", "look."], tool="tide"),
    "js slow": Reply(["", "one", " two"], gap_s=3.0),
    "js refused": Reply(status=401),
    "js dies": Reply(["a ", "b "], dies_after=1),
    "js left": Reply(["one ", "two "], hangs=True),
}


@pytest.fixture(scope="module")
def seen(launch, backend):
    """All that the script saw."""
    program = shutil.which("node")
    assert program, ".ci/run installs Node.js and the packages"
    for mark, reply in REPLIES.items():
        backend.on(mark, reply)
    endpoints = {"Model": THINKER, "Vectors": {"apiTypeConfigFileName": "OpenAI-Embeddings"}}
    user = {"embeddingsEndpoint": "Vectors"}
    flows = {"Chat": [{**NODE, "allowTools": True}]}
    server = launch({"ann": {"user": user, "endpoints": endpoints, "workflows": flows}})
    command = [program, str(SCRIPT), str(PACKAGES), server.url]
    done = subprocess.run(command, capture_output=True, text=True, encoding="utf-8", timeout=PATIENCE_S)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_models_and_tokens(seen):
    """The user is the model; a count is an estimate."""
    assert (seen["models"], seen["counted"]) == (["ann"], 11)


@pytest.mark.parametrize("way", ["whole", "streamed"])
def test_a_message(seen, way):
    """Thoughts, text and a call, with the reason."""
    thinking, text, call = seen[way]["content"]
    assert (thinking["thinking"], text["text"], call["name"]) == ("A tool.", "I look.", "tide")
    assert (call["input"], seen[way]["stop"]) == ({"about": f"js tide {way}"}, "tool_use")


def test_the_pieces_of_text(seen):
    """As they came."""
    assert seen["streamed"]["text"] == "I look."


def test_a_slow_model(seen):
    """Pings before the first token and between two."""
    assert seen["slow"] == "one two"


def test_errors(seen, backend):
    """Of the package's own types; a failing backend is asked once."""
    assert seen["wrong"]["bad"] and "messages[0]" in seen["wrong"]["says"]
    assert (seen["refused"]["status"], len(backend.calls("js refused"))) == (502, 1)
    assert seen["dies"]["api"]


def test_leaving_stops_the_model(seen, backend):
    """The backend's connection closes."""
    assert seen["left"] and backend.wait_for_call("js left").hung_up.wait(PATIENCE_S)


def test_vectors(seen):
    """The package of OpenAI reads base64."""
    assert seen["vectors"] == [[1, 0.5], [3, 0.5]]
