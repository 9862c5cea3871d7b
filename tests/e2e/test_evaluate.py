"""The example of docs/evaluate.md, as it stands there: promptfoo asks two workflows ten questions, offline.

Needs Node.js, and promptfoo in `.venv/promptfoo`, which `.ci/run` installs.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys

import pytest

from tests.e2e.conftest import HOUSE, Server
from tests.patience import PATIENCE_S

pytestmark = [pytest.mark.npm, pytest.mark.e2e]

PAGE = (HOUSE / "docs" / "evaluate.md").read_text("utf-8")
PROGRAM = HOUSE / ".venv" / "promptfoo" / "node_modules" / "promptfoo"
QUIET = {
    "PROMPTFOO_DISABLE_TELEMETRY": "1",
    "PROMPTFOO_DISABLE_UPDATE": "1",
    "PROMPTFOO_DISABLE_REMOTE_GENERATION": "true",
}
FAILED_CHECKS = 100
"""Exit status of promptfoo when it ran, and an answer failed a check."""


def block(kind):
    found = re.search(rf"^```{kind}\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
    assert found, f"the page has no block of {kind}"
    return found[1]


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """The examples as a new tree has them, with the demo model; the users that the page starts."""
    folder = tmp_path_factory.mktemp("house")
    made = [sys.executable, "server.py", "--init", str(folder)]
    subprocess.run(made, cwd=HOUSE, check=True, capture_output=True, timeout=PATIENCE_S)
    users = re.findall(r"--User (\S+)", block("sh"))
    running = Server(folder / "Public", [*users], ())
    yield running
    running.stop()


@pytest.fixture
def evaluate(server, tmp_path):
    """`evaluate(config)`: `(exit status, results)` of promptfoo."""
    program = shutil.which("node")
    if program is None or not PROGRAM.is_dir():
        pytest.skip("no Node.js or no promptfoo in .venv here (.ci/run installs both where it can)")

    def run(config):
        text = config.replace("http://127.0.0.1:5000", server.url)
        (tmp_path / "promptfooconfig.yaml").write_text(text, "utf-8")
        words = ["eval", "--no-cache", "-o", "results.json"]
        main = json.loads((PROGRAM / "package.json").read_text("utf-8"))["bin"]["promptfoo"]
        done = subprocess.run(
            [program, str(PROGRAM / main), *words],
            cwd=tmp_path,
            env={**os.environ, **QUIET, "PROMPTFOO_CONFIG_DIR": str(tmp_path / "state")},
            capture_output=True,
            text=True,
            encoding="utf-8",
            timeout=PATIENCE_S,
        )
        results = tmp_path / "results.json"
        assert results.is_file(), done.stdout[-2000:] + done.stderr[-2000:]
        return done.returncode, json.loads(results.read_text("utf-8"))["results"]

    return run


def test_the_page_runs(evaluate):
    """Ten questions, two workflows, twenty answers that pass all checks."""
    status, results = evaluate(block("yaml"))
    stats = results["stats"]
    assert (status, stats["successes"], stats["failures"], stats["errors"]) == (0, 20, 0, 0)
    asked = {(one["provider"]["label"], one["vars"]["question"]) for one in results["results"]}
    assert len(asked) == 20


def test_a_check_that_fails(evaluate):
    """The checks read the answers: one of them turned round fails for all."""
    status, results = evaluate(block("yaml").replace("value: Hello", "value: Good evening"))
    assert (status, results["stats"]["failures"]) == (FAILED_CHECKS, 20)


def test_the_version_is_the_one_that_is_tested():
    """The page, `.ci/run` and the installed package agree."""
    [named] = set(re.findall(r"promptfoo@(\d[\d.]*\d)", PAGE))
    assert f"promptfoo@{named}" in (HOUSE / ".ci" / "run").read_text("utf-8")
    if PROGRAM.is_dir():
        assert json.loads((PROGRAM / "package.json").read_text("utf-8"))["version"] == named
