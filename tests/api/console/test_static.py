"""The files of the console's page as they travel: foreign code is what its README says (spec console.md 17.2)."""

from __future__ import annotations

import gzip
import hashlib
import re
from pathlib import Path

import pytest

STATIC = Path(__file__).resolve().parents[3] / "Middleware" / "api" / "console" / "static"
VENDOR = STATIC / "vendor"
HASHES = dict(
    re.findall(
        r"^\| (\S+) \| [\d.]+ KB \| `([0-9a-f]{64})` \|$", (VENDOR / "README.md").read_text("utf-8"), re.M
    )
)


def gzipped(files: list[Path]) -> int:
    return sum(len(gzip.compress(file.read_bytes(), 9)) for file in files)


def test_the_table_names_every_foreign_file() -> None:
    assert sorted(HASHES) == sorted(file.name for file in VENDOR.iterdir() if file.name != "README.md")


@pytest.mark.parametrize("name", sorted(HASHES))
def test_a_foreign_file_has_the_hash_of_the_table(name: str) -> None:
    assert hashlib.sha256((VENDOR / name).read_bytes()).hexdigest() == HASHES[name]


def test_foreign_code_is_small() -> None:
    assert gzipped([VENDOR / name for name in HASHES]) < 200_000
