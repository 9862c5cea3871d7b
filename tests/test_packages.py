"""What setup.cfg says is what the code needs and the pages tell."""

from __future__ import annotations

import ast
import configparser
import re
import sys
from pathlib import Path

import pytest

HOUSE = Path(__file__).resolve().parents[1]
SETUP = configparser.ConfigParser()
SETUP.read(HOUSE / "setup.cfg", "utf-8")
CODE = [HOUSE / "server.py", *sorted((HOUSE / "Middleware").rglob("*.py"))]
BROUGHT_ALONG = {
    "anyio": "mcp",
    "httpx": "mcp",
    "httpx2": "mcp",
    "opentelemetry": "opentelemetry-sdk",
    "prometheus_client": "prometheus-client",
}
"""Modules that come with a package, and are its own part of the work, or that are spelt otherwise."""


def names(requirements: str) -> set[str]:
    """`flask>=3.0` is `flask`."""
    return {re.split(r"[<>=!~;\[ ]", line)[0] for line in requirements.split("\n") if line.strip()}


NEEDED = names(SETUP["options"]["install_requires"])
EXTRAS = {name: names(value) for name, value in SETUP["options.extras_require"].items()}


def imported(path: Path, *, at_the_top: bool) -> set[str]:
    """The packages of others that a file imports: whenever it is loaded, or anywhere in it."""
    tree = ast.parse(path.read_text("utf-8"))
    found: set[str] = set()
    for node in tree.body if at_the_top else ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module.partition(".")[0])
    return {BROUGHT_ALONG.get(n, n) for n in found - set(sys.stdlib_module_names)} - {"Middleware", "server"}


def test_whatever_is_imported_is_asked_for() -> None:
    """By the program itself, or by an extra that users install."""
    used = set().union(*(imported(path, at_the_top=False) for path in CODE))
    extras = set().union(*(value for name, value in EXTRAS.items() if name not in ("test", "editor")))
    assert used - NEEDED - extras == set()


def test_whatever_is_asked_for_is_used() -> None:
    """No package of the program without a use."""
    assert NEEDED - set().union(*(imported(path, at_the_top=False) for path in CODE)) == set()


@pytest.mark.parametrize("name", sorted(NEEDED | set().union(*EXTRAS.values())))
def test_a_package_has_its_reason(name: str) -> None:
    """One row of the page names it."""
    rows = (HOUSE / "docs" / "dependencies.md").read_text("utf-8").splitlines()
    plain = name.removeprefix("types-")
    wanted = "type stubs" if plain != name else name
    assert [row for row in rows if row.startswith("|") and re.search(rf"(?<![\w-]){wanted}(?![\w-])", row)]


def test_every_folder_of_code_is_a_package() -> None:
    """Without `__init__.py` a wheel would leave it out."""
    folders = {path.parent for path in CODE if path.name != "server.py"}
    assert [folder for folder in folders if not (folder / "__init__.py").is_file()] == []
