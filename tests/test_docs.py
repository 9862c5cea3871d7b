"""The documentation keeps up with the code: each plug-in has its page, each JSON block loads."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from Middleware.api import commands
from Middleware.api.command_registry import COMMANDS
from Middleware.api.handlers.front_ends import FRONT_ENDS
from Middleware.cleaning.stage import RULES, StatedRule
from Middleware.common.registry import load_all
from Middleware.llmapis.handlers.backends import BACKENDS
from Middleware.workflows.handlers.node_types import NODES

load_all(commands)
HOUSE = Path(__file__).resolve().parents[1]
DOCS = HOUSE / "docs"
PAGES = sorted(
    [
        *(page for page in DOCS.glob("**/*.md") if page.parent.name != "spec"),
        HOUSE / "README.md",
        HOUSE / "CONTRIBUTING.md",
    ]
)
WANTED = [
    *[("nodes", name) for name in NODES],
    *[("backends", name) for name in BACKENDS],
    *[("frontends", name) for name in FRONT_ENDS],
    *[("rules", rule.name) for rule in RULES.values()],
]


@pytest.mark.parametrize(("folder", "name"), WANTED, ids=lambda value: str(value))
def test_every_plug_in_has_its_page(folder: str, name: str) -> None:
    """`docs/<folder>/<name>.md` begins with its name."""
    page = DOCS / folder / f"{name}.md"
    assert page.is_file(), f"docs/{folder}/{name}.md is missing"
    assert page.read_text("utf-8").startswith(f"# {name}")


@pytest.mark.parametrize("order", sorted(RULES))
def test_the_page_of_a_rule_names_its_order_and_its_keys(order: int) -> None:
    """All that it reads."""
    page = (DOCS / "rules" / f"{RULES[order].name}.md").read_text("utf-8")
    assert f"Order {order}" in page
    assert [name for keys in RULES[order].keys.values() for name in keys if f"`{name}`" not in page] == []


@pytest.mark.parametrize("rule", RULES.values(), ids=lambda rule: rule.name)
def test_a_rule_has_a_file_of_its_own(rule: StatedRule) -> None:
    """Of its name; so its test and its page are found."""
    assert rule.function.__module__ == f"Middleware.cleaning.rules.{rule.name}"


@pytest.mark.parametrize("command", sorted(COMMANDS))
def test_every_command_is_told(command: str) -> None:
    """What prints instead of serving: in the table, and under a heading of its own."""
    page, words = (DOCS / "commands.md").read_text("utf-8"), command.replace("_", "-")
    assert f"[`--{words}" in page and f"\n## {words.replace('-', ' ').capitalize()}\n" in page


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(HOUSE).as_posix())
def test_every_json_block_loads(page: Path) -> None:
    """What a page shows as JSON can be pasted into a file."""
    for block in re.findall(r"```json\n(.*?)```", page.read_text("utf-8"), re.S):
        json.loads(block)


PATHS = re.findall(r"`([\w/]+(?:\.py|/impl|/base))`", (DOCS / "architecture.md").read_text("utf-8"))


@pytest.mark.parametrize("path", sorted(set(PATHS)))
def test_the_page_of_the_architecture_names_what_is_there(path: str) -> None:
    """A file of `Middleware`, or of the house."""
    assert (HOUSE / "Middleware" / path).exists() or (HOUSE / path).exists()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(HOUSE).as_posix())
def test_links_between_pages_lead_somewhere(page: Path) -> None:
    """A relative link names a file that exists. What a page shows of other pages is not its own."""
    text = re.sub(r"^```markdown\n.*?^```$", "", page.read_text("utf-8"), flags=re.M | re.S)
    for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", text):
        assert (page.parent / target).exists(), f"{page.name} links to {target}"
