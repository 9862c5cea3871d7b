"""The documentation keeps up with the code: each plug-in has its page, each JSON block loads."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from Middleware.api import commands
from Middleware.api.command_registry import COMMANDS
from Middleware.api.console.help_index import help_pages
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


def test_every_plug_in_has_its_page() -> None:
    """`docs/<folder>/<name>.md` begins with its name."""
    pages = {f"docs/{folder}/{name}.md": (DOCS / folder / f"{name}.md", name) for folder, name in WANTED}
    assert not [
        shown
        for shown, (page, name) in pages.items()
        if not page.is_file() or not page.read_text("utf-8").startswith(f"# {name}")
    ]


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


def test_every_json_block_loads() -> None:
    """What a page shows as JSON can be pasted into a file."""
    assert not [
        f"{page.relative_to(HOUSE).as_posix()}: {block[:60]}"
        for page in PAGES
        for block in re.findall(r"```json\n(.*?)```", page.read_text("utf-8"), re.S)
        if not is_json(block)
    ]


def is_json(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True


PATHS = re.findall(r"`([\w/]+(?:\.py|/impl|/base))`", (DOCS / "architecture.md").read_text("utf-8"))


def test_the_page_of_the_architecture_names_what_is_there() -> None:
    """A file of `Middleware`, or of the house."""
    assert not [
        path for path in PATHS if not any((top / path).exists() for top in (HOUSE / "Middleware", HOUSE))
    ]


def test_links_between_pages_lead_somewhere() -> None:
    """A relative link names a file that exists, and a heading that is on it. What a page shows of other pages is not its
    own."""
    assert not [
        f"{page.relative_to(HOUSE).as_posix()} links to {target}#{heading}"
        for page in PAGES
        for target, heading in LINK.findall(without_code(page))
        if not leads_somewhere(page.parent / target if target else page, heading)
    ]


def leads_somewhere(there: Path, heading: str) -> bool:
    return there.exists() and (not heading or heading in headings(there))


LINK = re.compile(r"\]\(([^)#:\s]*)(?:#([^)\s]+))?\)")


def without_code(page: Path) -> str:
    """A page's own words: no block of code, in which `#` begins a comment."""
    return re.sub(r"^ *```\w*\n.*?^ *```$", "", page.read_text("utf-8"), flags=re.M | re.S)


def headings(page: Path) -> set[str]:
    """The anchors of its headings, as GitHub and the console's Help make them."""
    found = re.findall(r"^#+ +(.+?) *$", without_code(page), re.M) if page.suffix == ".md" else []
    plain = [re.sub(r"\[(.*?)\]\(.*?\)|`", r"\1", text).lower() for text in found]
    return {re.sub(r"[^\w\- ]", "", text).replace(" ", "-") for text in plain}


def linked(page: Path) -> set[Path]:
    """The pages that a page links to."""
    targets = [target for target, _ in LINK.findall(page.read_text("utf-8")) if target.endswith(".md")]
    return {(page.parent / target).resolve() for target in targets}


@pytest.mark.parametrize(
    "folder", sorted({page.parent for page in PAGES} - {HOUSE}), ids=lambda folder: folder.name
)
def test_the_index_of_a_folder_lists_each_page(folder: Path) -> None:
    """`README.md` of the folder, or that of the docs, which also lists those of the folders."""
    listed = linked(folder / "README.md") | linked(DOCS / "README.md")
    wanted = {
        page
        for page in PAGES
        if folder in (page.parent, page.parent.parent if page.stem == "README" else None)
    }
    missing = {page.name for page in wanted - listed - {DOCS / "README.md"}}
    assert missing - PAGES_OF_NO_PROGRAM == set()


PAGES_OF_NO_PROGRAM = {"console_try.md"}
"""What the console's own page speaks: nothing to connect."""


def test_the_glossary_is_short() -> None:
    """At most twelve words of our own."""
    assert 0 < len(re.findall(r"^\| \*\*", (DOCS / "glossary.md").read_text("utf-8"), re.M)) <= 12


def test_pages_for_developers_are_not_in_the_list_of_help() -> None:
    """The page that lists all pages has them under a heading of their own, behind all others."""
    script = (HOUSE / "Middleware/api/console/static/help/help.js").read_text("utf-8")
    unlisted = json.loads(re.findall(r"^const UNLISTED = (\[.*\]);$", script, re.M)[0])
    theirs = (DOCS / "README.md").read_text("utf-8").partition("\n## For developers\n")[2]
    assert [f"{name}.md" for name in unlisted] == [target for target, _ in LINK.findall(theirs)]


def test_the_tutorial_comes_first() -> None:
    """In the console's Help; in the README it is the second link, behind how to install."""
    assert next(iter(help_pages())) == "tutorial"
    first, second, *_ = LINK.findall((HOUSE / "README.md").read_text("utf-8"))
    assert (first[0], second[0]) == ("docs/install.md", "docs/tutorial.md")


QUESTIONS = {
    "where is the port set": "docs/configuration-how-to.md#change-the-port",
    "how do I give my chat a memory": "docs/tutorial.md#5-give-it-a-memory",
    "how do I reach it from my phone": "docs/configuration-how-to.md#use-it-from-your-phone",
    "which model does an example use": "docs/models.md#which-model-an-example-uses",
    "how do I add my OpenAI key": "docs/models.md#openai-and-other-services-that-need-a-key",
    "why is the answer slow": "docs/troubleshooting.md#it-takes-too-long",
    "how do I see what a workflow did": "docs/console.md#runs",
    "how do I hide thinking": "docs/cleaning.md#turn-cleaning-on",
    "how do I connect SillyTavern": "docs/frontends/sillytavern.md",
    "how do I connect Open WebUI": "docs/frontends/open-webui.md",
    "how do I write my own workflow": "docs/tutorial.md#3-make-a-user-with-a-critic",
    "how do I move in from WilmerAI": "docs/from-wilmerai.md",
    "how do I update or uninstall": "docs/install.md",
}


@pytest.mark.parametrize("place", QUESTIONS.values(), ids=list(QUESTIONS))
def test_what_people_ask_first_is_one_click_from_the_readme(place: str) -> None:
    """That the place is there is the test of links."""
    assert f"]({place})" in (HOUSE / "README.md").read_text("utf-8")


SAMPLES = [
    page for page in PAGES if page.name not in ("install.md", "server.md", "commands.md", "CONTRIBUTING.md")
]


def test_samples_spell_the_command_one_way() -> None:
    """`./run`; the pages of the install, the server and its commands say which other names it has."""
    assert not [
        f"{page.relative_to(HOUSE).as_posix()}: {line}"
        for page in SAMPLES
        for line in re.findall(r"(?:python server\.py|^\$? ?headrace) .*", page.read_text("utf-8"), re.M)
    ]


ONCE = {
    "the five lines that clean": '"think", "thinking", "thought"',
    "the associations of VS Code": '"json.schemas"',
    "the three fields of Ollama": "| Ollama | `http://127.0.0.1:11434` |",
}


@pytest.mark.parametrize("words", ONCE.values(), ids=list(ONCE))
def test_a_snippet_has_one_page(words: str) -> None:
    """Others link to it. The tutorial shows whole files, and so has its own."""
    having = [page.name for page in PAGES if words in page.read_text("utf-8") and page.name != "tutorial.md"]
    assert len(having) == 1
