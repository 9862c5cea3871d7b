"""The pure parts of the console's page, run by Node.js where it is (spec console.md 14.2)."""

from __future__ import annotations

import gzip
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from Middleware.api.console.page_files import packed_form
from tests.patience import PATIENCE_S

ROOT = Path(__file__).resolve().parents[3]
STATIC = ROOT / "Middleware" / "api" / "console" / "static"
READ_ALL = """
const { readFileSync } = require("fs");
for (const name of process.argv.slice(1)) new (require("vm").SourceTextModule)(readFileSync(name, "utf8"));
"""
TESTS = sorted((ROOT / "tests" / "console").glob("*.test.js"))


def node_version(node: str) -> int:
    told = subprocess.run(
        [node, "--version"], capture_output=True, text=True, timeout=PATIENCE_S, check=False
    ).stdout
    number = re.match(r"v(\d+)\.", told)
    return int(number[1]) if number else 0


@pytest.fixture
def node() -> str:
    found = shutil.which("node")
    if found is None or node_version(found) < 20:
        pytest.skip("Node.js 20 or newer is not here; .ci/run brings it")
    return found


@pytest.mark.parametrize("test", TESTS, ids=lambda test: test.name)
def test_a_pure_part_of_the_page(node: str, test: Path) -> None:
    done = subprocess.run(
        [node, "--test", str(test)], capture_output=True, text=True, timeout=PATIENCE_S, check=False, cwd=ROOT
    )
    assert done.returncode == 0, done.stdout


def test_what_is_sent_without_comments_is_still_a_script(node: str, tmp_path: Path) -> None:
    sent = []
    for file in (one for one in STATIC.rglob("*.js") if one.parent.name != "vendor"):
        sent.append(tmp_path / f"{file.parent.name}-{file.name}")
        sent[-1].write_bytes(gzip.decompress(packed_form(file, file.read_bytes())))
    done = subprocess.run(
        [node, "--experimental-vm-modules", "-e", READ_ALL, *map(str, sent)],
        capture_output=True, text=True, timeout=PATIENCE_S, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
