"""The files of the console's page as they travel: foreign code is what its README says (spec console.md 17.2)."""

from __future__ import annotations

import hashlib
import posixpath
import re
from collections.abc import Iterable
from pathlib import Path

import pytest

from Middleware.api.console.page_files import packed_form

STATIC = Path(__file__).resolve().parents[3] / "Middleware" / "api" / "console" / "static"
VENDOR = STATIC / "vendor"
HASHES = dict(
    re.findall(
        r"^\| (\S+) \| [\d.]+ KB \| `([0-9a-f]{64})` \|$", (VENDOR / "README.md").read_text("utf-8"), re.M
    )
)


def gzipped(files: Iterable[Path]) -> int:
    """What is sent, file by file (workbench.md 16.9)."""
    return sum(len(packed_form(file, file.read_bytes())) for file in files)


def test_the_table_names_every_foreign_file() -> None:
    foreign = [file.name for file in VENDOR.iterdir() if file.suffix in (".js", ".css")]
    assert sorted(HASHES) == sorted(foreign)


@pytest.mark.parametrize("name", sorted(HASHES))
def test_a_foreign_file_has_the_hash_of_the_table(name: str) -> None:
    assert hashlib.sha256((VENDOR / name).read_bytes()).hexdigest() == HASHES[name]


def test_foreign_code_is_small() -> None:
    assert gzipped(VENDOR / name for name in HASHES) < 185_000


FIRST_PICTURE = [
    "index.html", "console.css", "marks.svg", "vendor/preact.js", "app.js", "runs/columns.js", "runs/commands.js", "runs/filter.js",
    "runs/run_list.js", "runs/runs.js", "shared/address.js", "shared/asked.js", "shared/bar.js", "shared/finder.js",
    "shared/kept.js", "shared/key.js", "shared/keys.js", "shared/parts.js", "shared/place.js",
    "shared/server.js", "shared/words.js",
]  # fmt: skip
"""What a browser loads to show the list of runs."""


def loaded_with(*names: str) -> set[str]:
    """These files, and those that they import, and so on."""
    seen: set[str] = set()
    left = list(names)
    while left:
        name = left.pop()
        if name not in seen:
            seen.add(name)
            text = "" if name.startswith("vendor/") else (STATIC / name).read_text("utf-8")
            imports = re.findall(r"""^import[^;]*?"(\.[\w./]+)";""", text, re.M)
            left += [posixpath.normpath(posixpath.join(posixpath.dirname(name), one)) for one in imports]
    return seen


FORBIDDEN = (
    "innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "new Function",
    "dangerouslySetInnerHTML", "http://", "https://",
)  # fmt: skip
OURS = sorted(file for file in STATIC.rglob("*.js") if file.parent != VENDOR)
CSS = STATIC / "console.css"


class TestSizes:
    def test_our_script_and_style_are_small(self) -> None:
        assert gzipped([*OURS, STATIC / "console.css"]) < 160_000

    def test_the_page_is_small_in_all(self) -> None:
        foreign = [VENDOR / name for name in HASHES]
        assert gzipped([*OURS, *foreign, STATIC / "console.css", STATIC / "index.html"]) < 345_000

    def test_the_first_picture_of_runs_is_small(self) -> None:
        assert gzipped(STATIC / name for name in FIRST_PICTURE) < 55_000

    def test_all_that_runs_loads_unasked_is_small(self) -> None:
        """The list, and behind it the run beside it."""
        unasked = loaded_with("app.js", "runs/runs.js", "runs/run.js") | set(FIRST_PICTURE)
        assert gzipped(STATIC / name for name in unasked) < 85_000

    def test_the_first_picture_is_all_that_the_list_imports(self) -> None:
        """But for what is loaded behind it."""
        assert loaded_with("app.js", "runs/runs.js") == {
            name for name in FIRST_PICTURE if name.endswith(".js")
        }

    def test_the_browser_is_told_of_all_of_it_at_once(self) -> None:
        page = (STATIC / "index.html").read_text("utf-8")
        told = set(re.findall(r'<link rel="modulepreload" href="static/([^"]+)">', page))
        assert told == {name for name in FIRST_PICTURE if name.endswith(".js")}

    def test_no_file_is_long(self) -> None:
        assert [file.name for file in OURS if len(file.read_text("utf-8").splitlines()) > 300] == []


class TestLines:
    """Source: spec workbench.md 16.15."""

    def test_no_line_of_our_script_is_long(self) -> None:
        lines = [(file.name, line) for file in OURS for line in file.read_text("utf-8").splitlines()]
        assert [line for line in lines if len(line[1]) > 120] == []

    def test_the_style_has_one_rule_a_line(self) -> None:
        text = re.sub(r"/\*.*?\*/", "", CSS.read_text("utf-8"), flags=re.S)
        assert [line for line in text.splitlines() if line.count("}") > 1 and not line.startswith("@")] == []

    def test_only_the_first_file_lies_outside_the_folders(self) -> None:
        assert [file.name for file in OURS if file.parent == STATIC] == ["app.js"]

    def test_what_all_pages_share_needs_no_page(self) -> None:
        """It is the lowest floor."""
        shared = [file for file in OURS if file.parent.name == "shared"]
        texts = [(file.name, file.read_text("utf-8")) for file in shared]
        assert [name for name, text in texts if re.search(r"""from "\.\./(?!vendor/)""", text)] == []


class TestWords:
    @pytest.mark.parametrize("file", OURS, ids=lambda file: file.name)
    def test_our_javascript_makes_no_html_and_names_no_other_host(self, file: Path) -> None:
        text = file.read_text("utf-8")
        assert [word for word in FORBIDDEN if word in text] == []

    def test_the_page_has_no_inline_script_style_or_handler(self) -> None:
        page = (STATIC / "index.html").read_text("utf-8")
        assert re.findall(r"<style|\sstyle=|\son\w+=|javascript:", page) == []
        assert re.findall(r"<script[^>]*>(.*?)</script>", page, re.S) == [""]

    @pytest.mark.parametrize("file", OURS, ids=lambda file: file.name)
    def test_types_of_our_javascript_are_checked(self, file: Path) -> None:
        assert file.read_text("utf-8").startswith("// @ts-check\n")


@pytest.mark.parametrize(
    "word", ["quiet", "well", "failing", "refused", "done", "failed", "cancelled", "bad", "good"]
)
def test_a_word_that_many_parts_bear_is_never_styled_by_itself(word: str) -> None:
    """One part's look of `.quiet` made a notice and a card of others sixteen pixels wide."""
    css = re.sub(r"/\*.*?\*/", "", (STATIC / "console.css").read_text("utf-8"), flags=re.S)
    css = re.sub(r":is\([^)]*\)", "", css)
    alone = [one.strip() for rule in re.findall(r"[^{}]+(?=\{)", css) for one in rule.split(",")]
    assert f".{word}" not in alone
