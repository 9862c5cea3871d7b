"""The config files that ship. The first start in a tree adds files of its own to `my-model`; they are none of these,
and a list of tests must not grow while the tests run: a worker that takes the place of another lists them anew."""

from __future__ import annotations

from pathlib import Path

CONFIGS = Path(__file__).resolve().parents[1] / "Public" / "Configs"


def shipped_files(folder: str = "", pattern: str = "*.json") -> list[Path]:
    """Of a folder and all below it, sorted."""
    files = sorted((CONFIGS / folder).rglob(pattern))
    return [file for file in files if file.parent.name != "my-model" or file.name.endswith(".example.json")]
