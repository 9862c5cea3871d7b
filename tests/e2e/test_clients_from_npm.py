"""The official clients for JavaScript, in front of a real server: what they put together of an answer.

Needs Node.js, and the packages in `.venv/clients`, which `.ci/run` installs. Each client is one script of
`clients`, which prints what its calls gave.
"""

from __future__ import annotations

import json
import shutil
import subprocess

import pytest

from tests.e2e.conftest import HOUSE, TOOLS_AND_THOUGHTS
from tests.e2e.fake_backend import Reply
from tests.patience import PATIENCE_S

pytestmark = [pytest.mark.npm, pytest.mark.e2e]

PACKAGES = HOUSE / ".venv" / "clients"
SCRIPTS = HOUSE / "tests" / "e2e" / "clients"
LATE = Reply(["", "at ", "last"], gap_s=2.2)
LONG = Reply([f"word{number} " for number in range(400)], gap_s=0.05)


@pytest.fixture(scope="module")
def server(launch):
    return launch(TOOLS_AND_THOUGHTS, "--concurrency", "0")


def told(script, server):
    """What a script prints."""
    node = shutil.which("node")
    assert node, "these tests need Node.js; .ci/run installs it"
    words = [node, str(SCRIPTS / script), str(PACKAGES), server.url]
    done = subprocess.run(words, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_responses(server, backend):
    """Whole and streamed, a chain, a late first word, thoughts, calls, what is kept, cancelling, failures."""
    backend.on("js-late", LATE)
    backend.on("js-thinks", Reply(["<think>A riv", "er.</think>", "The Ob."]))
    backend.on("js-calls", Reply(["I look."], tool="tide"))
    backend.on("js-stops", LONG)
    backend.on("js-dies", Reply(["a ", "b "], dies_after=1))
    assert told("responses.mjs", server) == {
        "whole": ["hello whole", 18],
        "streamed": ["hello stream", "hello stream"],
        "late": "at last",
        "thoughts": ["A river.", "The Ob."],
        "call": ["I look.", "tide", {"about": "js-calls"}],
        "retrieved": "hello whole",
        "items": ["hello whole"],
        "counted": 11,
        "deleted": ["NotFoundError", 404],
        "refused": ["BadRequestError", "background", "unsupported_parameter"],
        "cancelled": "cancelled",
        "stopped": ["response.completed", "completed"],
        "failed": ["response.failed", "server_error"],
    }
    assert backend.wait_for_call("js-stops").hung_up.wait(PATIENCE_S)
