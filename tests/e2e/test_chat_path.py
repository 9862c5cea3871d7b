"""How much a chat passes on its way: counts that a change may lower and must not raise unseen."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.patience import PATIENCE_S

pytestmark = pytest.mark.e2e

HOUSE = Path(__file__).resolve().parents[2]
MOST = {"iterators of a chunk": 9, "shapes between the engine's door and the POST": 27}


def test_nothing_is_put_between_a_chunk_and_its_client():
    """A generator that only hands on costs each chunk; a value that repeats another costs each reader."""
    program = [sys.executable, "bench/chat_path.py"]
    told = subprocess.run(
        program, cwd=HOUSE, capture_output=True, text=True, timeout=PATIENCE_S, check=True
    ).stdout
    found = {name: int(number) for name, number in re.findall(r"^(.+): (\d+)$", told, re.MULTILINE)}
    assert {name: found[name] for name in MOST if found[name] > MOST[name]} == {}
