"""Makes the pages of `docs/examples` and the pictures in `packs` from what `packs` says of each example user.

    .venv/bin/python tools/shelf.py                  write what has changed
    .venv/bin/python tools/shelf.py --check          name what would change; exit status 1 if anything would
    .venv/bin/python tools/shelf.py --costs FILE     put what bench/pack_costs.py measured into pack.json, too

A page is the pack's README.md, with its facts in place of the line that shows the picture, and the text of
every page at its end. Links are rewritten for the place of the page. Source: packs/README.md.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

HOUSE = Path(__file__).resolve().parents[1]
if str(HOUSE) not in sys.path:
    sys.path.insert(0, str(HOUSE))

from tools.workflow_picture import describe, draw, panels  # noqa: E402

PACKS, PAGES, CONFIGS = HOUSE / "packs", HOUSE / "docs" / "examples", HOUSE / "Public" / "Configs"
PICTURE_LINE = "![The workflow](workflow.svg)"
LINK = re.compile(r"\]\(([^)#:\s]+)(#[^)\s]+)?\)")

Facts = Mapping[str, Any]


def packs() -> dict[str, Facts]:
    """Name -> facts, in the order of the shelf."""
    found = {file.parent.name: json.loads(file.read_text("utf-8")) for file in PACKS.glob("*/pack.json")}
    return dict(sorted(found.items(), key=lambda item: (item[1]["position"], item[0])))


def made_files() -> Iterator[tuple[Path, str]]:
    """Each file that is made, and what belongs in it."""
    shelf = packs()
    yield PAGES / "README.md", index_page(shelf)
    for name, facts in shelf.items():
        shown = panels(CONFIGS, name)
        yield PACKS / name / "workflow.svg", draw(name, shown)
        yield PAGES / f"{name}.md", page(name, facts, describe(shown))


def page(name: str, facts: Facts, picture: str) -> str:
    """The page of one example. `picture`: what its picture shows, in words."""
    folder = PACKS / name
    text = (folder / "README.md").read_text("utf-8")
    if text.count(PICTURE_LINE) != 1:
        raise SystemExit(f"packs/{name}/README.md must have the line {PICTURE_LINE} once")
    shown = f"![The workflows. {picture}](workflow.svg)"
    glance = "\n".join(["## At a glance", "", *(f"- {line}" for line in at_a_glance(facts)), "", shown])
    text = relinked(text.replace(PICTURE_LINE, glance), folder)
    end = relinked((PACKS / "page-end.md").read_text("utf-8").replace("{name}", name), PACKS)
    return f"{text.rstrip()}\n\n{end}"


def at_a_glance(facts: Facts) -> Iterator[str]:
    """The facts of a pack as lines of Markdown; links as from its folder."""
    cost, tried = facts["cost"], facts["tried"]
    yield f"**Good for**: {facts['goodFor']}"
    note = f". {cost['note']}" if cost.get("note") else ""
    yield (
        f"**Costs a turn**: {calls_in_words(cost['calls'])}, with {about(cost['promptTokens'])} "
        f"prompt tokens and {about(cost['completionTokens'])} completion tokens, "
        f"[measured](../../docs/examples/README.md#what-the-numbers-mean) on {cost['measured']}{note}"
    )
    yield f"**Needs**: {'; '.join(needs_in_words(facts['needs']))}"
    yield f"**Last tried**: {tried['date']}, {tried['with']}"


def calls_in_words(calls: float) -> str:
    """`1 call of a model`, `2.3 calls of a model`."""
    return f"{calls:g} call{'' if calls == 1 else 's'} of a model"


def about(number: int) -> str:
    """Two digits that count: 4,239 is `about 4,200`."""
    return f"about {rounded(number)}"


def rounded(number: int) -> str:
    return f"{round(number, min(0, 2 - len(str(number)))):,}"


def needs_in_words(needs: Facts) -> Iterator[str]:
    """What somebody has to have: endpoints, extras, programs and services."""
    for role, abilities in needs["roles"].items():
        yield f"the endpoint `{role}` ({', '.join(abilities)})"
    for extra in needs["extras"]:
        yield f"the extra `{extra}`"
    for program in needs["programs"]:
        yield f"the program `{program}`"
    yield from needs["services"]


def index_page(shelf: Mapping[str, Facts]) -> str:
    """The page that lists the examples."""
    lines = ["| example | what it shows | calls | in | out | read again |", "|---|---|--:|--:|--:|--:|"]
    for name, facts in shelf.items():
        cost = facts["cost"]
        numbers = [rounded(cost[key]) for key in ("promptTokens", "completionTokens", "readTokens")]
        place = f"../docs/examples/{name}.md"
        lines.append(f"| [{name}]({place}) | {facts['shows']} | {cost['calls']:g} | {' | '.join(numbers)} |")
    text = (PACKS / "examples.md").read_text("utf-8").replace("{examples}", "\n".join(lines))
    return relinked(text, PACKS)


def relinked(text: str, folder: Path) -> str:
    """The text with links that lead from `PAGES` where they led from `folder`."""

    def link(found: re.Match[str]) -> str:
        target = os.path.relpath(folder / found[1], PAGES)
        return f"]({Path(target).as_posix()}{found[2] or ''})"

    return LINK.sub(link, text)


def take_costs(files: Sequence[str], day: str) -> None:
    """Puts the averages of the second half of each measured chat into the packs, with the day."""
    for file in files:
        for name, talks in json.loads(Path(file).read_text("utf-8")).items():
            place = PACKS / name / "pack.json"
            facts = json.loads(place.read_text("utf-8"))
            rows = [row for talk in talks for row in talk[len(talk) // 2 :]]
            sums = {key: sum(row[key] for row in rows) for key in ("calls", "prompt", "completion", "read")}
            facts["cost"] = {
                "measured": day,
                "calls": round(sums["calls"] / len(rows), 1),
                "promptTokens": round(sums["prompt"] / len(rows)),
                "completionTokens": round(sums["completion"] / len(rows)),
                "readTokens": round(sums["read"] / len(rows)),
                **{key: text for key, text in facts.get("cost", {}).items() if key == "note"},
            }
            place.write_text(json.dumps(facts, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def main(words: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--check", action="store_true", help="name what would change, and write nothing")
    parser.add_argument(
        "--costs", nargs="+", metavar="FILE", default=[], help="results of bench/pack_costs.py"
    )
    arguments = parser.parse_args(words)
    take_costs(arguments.costs, datetime.now(UTC).date().isoformat())
    changed = [
        (file, text) for file, text in made_files() if not file.is_file() or file.read_text("utf-8") != text
    ]
    for file, text in changed:
        print(file.relative_to(HOUSE).as_posix())
        if not arguments.check:
            file.write_text(text, encoding="utf-8", newline="\n")
    return 1 if arguments.check and changed else 0


if __name__ == "__main__":
    raise SystemExit(main())
