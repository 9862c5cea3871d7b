"""The pure parts of the console's page, run by Node.js where it is (spec console.md 14.2)."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.patience import PATIENCE_S

ROOT = Path(__file__).resolve().parents[3]
TESTS = sorted((ROOT / "tests" / "console").glob("*.test.js"))


def node_version(node: str) -> int:
    told = subprocess.run(
        [node, "--version"], capture_output=True, text=True, timeout=PATIENCE_S, check=False
    ).stdout
    number = re.match(r"v(\d+)\.", told)
    return int(number[1]) if number else 0


@pytest.mark.parametrize("test", TESTS, ids=lambda test: test.name)
def test_a_pure_part_of_the_page(test: Path) -> None:
    node = shutil.which("node")
    if node is None or node_version(node) < 20:
        pytest.skip("Node.js 20 or newer is not here; .ci/run brings it")
    done = subprocess.run(
        [node, "--test", str(test)], capture_output=True, text=True, timeout=PATIENCE_S, check=False, cwd=ROOT
    )
    assert done.returncode == 0, done.stdout
