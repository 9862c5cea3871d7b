"""The specification stands in `docs/spec`, and each section that the code cites is there."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

HOUSE = Path(__file__).resolve().parents[1]
SPEC = HOUSE / "docs/spec"
SOURCES = sorted(
    path
    for folder in ("Middleware", "tests", "bench", "Public")
    for path in (HOUSE / folder).glob("**/*.py")
    if "caselib" not in path.parts and path.name not in ("run_cases.py", Path(__file__).name)
)
NAMES = (
    "agents",
    "backends",
    "cleaning",
    "console",
    "frontend-api",
    "keys",
    "memory",
    "more-fronts",
    "nodes",
    "operate",
    "prompt-reuse",
    "tools",
    "workbench",
    "workflows",
)
NUMBER = r"\d+(?:\.\d+)?"
CITATION = re.compile(
    rf"\b({'|'.join(NAMES)})\.md`?(?:,? (?:stages? )?((?:{NUMBER})(?:(?:, | and | - |-|, and ){NUMBER})*))?"
)


def citations(text: str) -> Iterator[tuple[str, str]]:
    """(page, number) of every citation; the number is empty where the whole page is meant."""
    for page, numbers in CITATION.findall(" ".join(re.sub(r"\n\s*#?", " ", text).split())):
        for number in re.findall(NUMBER, numbers) or [""]:
            yield page, number


def sections(page: Path) -> set[str]:
    """`3`, `3.4` for headings and the numbered points of a section, and the empty number for the page."""
    found, chapter = {""}, ""
    for line in page.read_text("utf-8").splitlines():
        if heading := re.match(r"#+ (?:Stage )?(\d+(?:\.\d+)?)", line):
            number = heading.group(1)
            chapter = number.partition(".")[0]
            found.add(number)
        elif chapter and (point := re.match(rf"(?:(\d+)\. |\*\*{chapter}\.(\d+) )", line)):
            found.add(f"{chapter}.{point.group(1) or point.group(2)}")
    return found


SECTIONS = {page.stem: sections(page) for page in SPEC.glob("*.md")}


def test_every_cited_section_exists() -> None:
    """A reader of the code finds what it cites."""
    offenders = [
        f"{path.relative_to(HOUSE).as_posix()}: {page}.md {number}"
        for path in SOURCES
        for page, number in citations(path.read_text("utf-8"))
        if number not in SECTIONS.get(page, ())
    ]
    assert not offenders


def test_a_section_that_is_not_there_is_seen() -> None:
    """The search itself: lists, line ends and sections that do not exist."""
    text = "Source: spec frontend-api.md 8, 10.1\n    and 99.7; nodes.md 3 - 4."
    assert list(citations(text)) == [
        ("frontend-api", "8"),
        ("frontend-api", "10.1"),
        ("frontend-api", "99.7"),
        ("nodes", "3"),
        ("nodes", "4"),
    ]
    assert "99.7" not in SECTIONS["frontend-api"]


def test_only_what_is_cited_is_kept() -> None:
    """Each page of `docs/spec` is cited somewhere in the code."""
    cited = {page for path in SOURCES for page, _ in citations(path.read_text("utf-8"))}
    assert cited == set(SECTIONS)
