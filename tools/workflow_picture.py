"""Draws the workflows that a user of the config tree reaches, as one SVG: each file a panel, each node a box.

    .venv/bin/python tools/workflow_picture.py chat > chat.svg

The same files give the same bytes. The picture follows the reader's light or dark theme and loads no font.
Nodes that run together are side by side; what follows the answer is below a dashed line.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

HOUSE = Path(__file__).resolve().parents[1]
if str(HOUSE) not in sys.path:
    sys.path.insert(0, str(HOUSE))

from Middleware.config import paths  # noqa: E402
from Middleware.config.loader import ConfigSnapshot, ConfigTree  # noqa: E402
from Middleware.config.users import UserSettings, load_user  # noqa: E402
from Middleware.config.workflows import child_file, load_routing  # noqa: E402
from Middleware.workflows.checks.user_walk import UserWalk  # noqa: E402
from Middleware.workflows.checks.workflow_graph import EndpointFacts, Lookups, workflow_graph  # noqa: E402

WIDTH, MARGIN, PAD, GAP = 720, 16, 14, 18
"""Pixels: of the picture, around the panels, within them, between two rows."""
HEAD, LINE, BOX_PAD = 34, 18, 10
STYLE = """<style>
  .bg{fill:#ffffff}.panel{fill:#f6f8fa;stroke:#d0d7de}.box{fill:#ffffff;stroke:#8c959f}.model{fill:#ddf4ff}
  .answer{stroke:#0969da;stroke-width:2.5}.ink{fill:#1f2328}.soft{fill:#59636e}.mark{fill:#0550ae}
  .line{stroke:#8c959f;fill:none}.tip{fill:#8c959f}
  @media (prefers-color-scheme: dark){
    .bg{fill:#0d1117}.panel{fill:#161b22;stroke:#30363d}.box{fill:#0d1117;stroke:#7d8590}.model{fill:#12283f}
    .answer{stroke:#58a6ff}.ink{fill:#e6edf3}.soft{fill:#9198a1}.mark{fill:#79c0ff}
    .line{stroke:#7d8590}.tip{fill:#7d8590}}
</style>"""
LEGEND = "Blue: asks a model. Thick frame: the client gets its text."


@dataclass(frozen=True, slots=True)
class Panel:
    """One workflow file. `graph`: what `workflow_graph` makes of it; `caption`: when it runs, or empty.

    `answers`: whether its text goes to the client, not to another workflow.
    """

    name: str
    caption: str
    graph: Mapping[str, Any]
    answers: bool


def panels(configs: Path, user_name: str) -> list[Panel]:
    """The workflows of a user, in the order in which a request meets them; what memory runs comes last."""
    snapshot = ConfigTree(configs).snapshot()
    user = load_user(snapshot, user_name)
    walk = UserWalk(snapshot, user)
    walk.findings()
    rest = sorted(file for file in walk.files_read if file.startswith("Workflows/"))
    queue = [*_roots(snapshot, user)]
    queue += [(file, "run by a memory node", False) for file in rest]
    made: dict[str, Panel] = {}
    while queue:
        file, caption, answers = queue.pop(0)
        graph = _graph(snapshot, user, file) if file not in made else None
        if graph is not None:
            made[file] = Panel(Path(file).stem, caption, graph, answers)
            queue = [*_children(graph, answers), *queue]
    return list(made.values())


def _children(graph: Mapping[str, Any], answers: bool) -> Iterator[tuple[str, str, bool]]:
    """The workflows that its nodes run, and whether their text is the client's."""
    for node in graph["nodes"]:
        for child in node["children"]:
            if child["path"]:
                yield child["path"], "", answers and node["answers"]


def _roots(snapshot: ConfigSnapshot, user: UserSettings) -> Iterator[tuple[str, str, bool]]:
    """The files at which requests begin, each with when it runs, and whether its text is the client's."""
    folder = user.workflow_folder
    if user.custom_workflow_override:
        yield paths.workflow_file(folder, str(user.custom_workflow)), "", True
        return
    yield paths.workflow_file(folder, str(user.categorization_workflow)), "runs first", False
    for category in load_routing(snapshot, str(user.routing_config)).categories:
        yield paths.workflow_file(folder, category.workflow), f"if it says {category.name}", True
    yield paths.workflow_file(folder, paths.DEFAULT_WORKFLOW), "if it says none of them", True


def _graph(snapshot: ConfigSnapshot, user: UserSettings, file: str) -> Mapping[str, Any] | None:
    folder = file.removeprefix("Workflows/").rpartition("/")[0]
    lookups = Lookups(
        endpoint=lambda name: EndpointFacts(),
        child=lambda child: child_file(
            snapshot, user, child.name, folder=child.folder, calling_folder=folder
        ),
        lines=lambda pointer: (0, 0),
    )
    return workflow_graph(file, snapshot.read(file), lookups)


# --- words ---


def describe(shown: Sequence[Panel]) -> str:
    """The picture in words: each workflow with its nodes in order."""
    return " ".join(f"{panel.name}: {', '.join(map(_title, panel.graph['nodes']))}." for panel in shown)


def _title(node: Mapping[str, Any]) -> str:
    return f"{node['n']} {node['title']}"


def _lines(node: Mapping[str, Any]) -> list[str]:
    """What stands below the title of a box."""
    used = sorted({use["n"] for use in node["uses"]})
    facts = [node["type"]]
    if node["endpoint"]:
        facts.append(f"asks {node['endpoint']['name'] or node['endpoint']['written']}")
    if used:
        facts.append(f"uses {(' and ' if len(used) < 3 else ', ').join(map(str, used))}")
    lines = [" · ".join(facts)]
    if node["children"]:
        names = dict.fromkeys(child["workflow"] or "a text of its own" for child in node["children"])
        lines.append(f"runs {' or '.join(names)}")
    return lines


# --- shapes ---


def draw(title: str, shown: Sequence[Panel]) -> str:
    """The picture as text."""
    parts: list[str] = []
    top = MARGIN
    for panel in shown:
        drawn, height = _panel(panel, top)
        parts += drawn
        top += height + GAP
    parts.append(_text(MARGIN, top + 4, "soft", LEGEND, 12))
    height = top + MARGIN + 2
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" '
            'font-family="system-ui, sans-serif" role="img" aria-labelledby="t d">',
            f'<title id="t">The workflow of {escape(title)}</title>',
            f'<desc id="d">{escape(describe(shown))}</desc>',
            STYLE,
            f'<rect class="bg" width="{WIDTH}" height="{height}" rx="8"/>',
            *parts,
            "</svg>",
            "",
        ]
    )


def _panel(panel: Panel, top: int) -> tuple[list[str], int]:
    """The shapes of one workflow, and how high it is."""
    nodes = {node["n"]: node for node in panel.graph["nodes"]}
    parts = [_text(MARGIN + PAD, top + 23, "ink", panel.name, 15, bold=True)]
    if panel.caption:
        parts.append(_text(WIDTH - MARGIN - PAD, top + 23, "soft", panel.caption, 13, end=True))
    y, answered = top + HEAD, False
    for number, row in enumerate(panel.graph["rows"]):
        members = [nodes[n] for n in row if n in nodes]
        if not members:
            continue
        if number:
            middle = WIDTH // 2
            if members[0]["after"] and not answered:
                answered = True
                parts.append(_dashes(y + GAP + 2))
                y += 10
            else:
                parts.append(f'<path class="line" d="M{middle} {y}V{y + GAP - 5}"/>')
                parts.append(f'<path class="tip" d="M{middle - 4} {y + GAP - 6}h8l-4 6z"/>')
            y += GAP
        drawn, height = _row(members, y, panel.answers)
        parts += drawn
        y += height
    height = y + PAD - top
    frame = (
        f'<rect class="panel" x="{MARGIN}" y="{top}" width="{WIDTH - 2 * MARGIN}" height="{height}" rx="6"/>'
    )
    return [frame, *parts], height


def _row(members: Sequence[Mapping[str, Any]], y: int, answers: bool) -> tuple[list[str], int]:
    """The boxes of nodes that run together, side by side. `answers`: as of their panel."""
    inside = WIDTH - 2 * MARGIN - 2 * PAD
    gap = 10
    width = (inside - gap * (len(members) - 1)) // len(members)
    height = 2 * BOX_PAD + LINE * max(1 + len(_lines(node)) for node in members)
    parts = []
    for place, node in enumerate(members):
        x = MARGIN + PAD + place * (width + gap)
        looks = "box" + " model" * bool(node["endpoint"]) + " answer" * (answers and node["answers"])
        parts.append(f'<rect class="{looks}" x="{x}" y="{y}" width="{width}" height="{height}" rx="5"/>')
        room = width - 2 * BOX_PAD - (70 if node["answers"] else 0)
        parts.append(_text(x + BOX_PAD, y + BOX_PAD + 12, "ink", _fit(_title(node), room, 14), 14, bold=True))
        if node["answers"]:
            words = "answers" if answers else "its output"
            parts.append(_text(x + width - BOX_PAD, y + BOX_PAD + 12, "mark", words, 13, end=True))
        for at, line in enumerate(_lines(node), start=1):
            words = _fit(line, width - 2 * BOX_PAD, 13)
            parts.append(_text(x + BOX_PAD, y + BOX_PAD + 12 + LINE * at, "soft", words, 13))
    return parts, height


def _dashes(y: int) -> str:
    """The line below which the client waits for nothing."""
    left, right = MARGIN + PAD, WIDTH - MARGIN - PAD
    words = _text(right, y - 4, "soft", "the client has its answer", 12, end=True)
    return f'<path class="line" stroke-dasharray="4 4" d="M{left} {y}H{right}"/>{words}'


def _fit(text: str, room: int, size: int) -> str:
    """The text, cut where it would leave its box: no font is measured, so wide letters are assumed."""
    most = int(room / (size * 0.56))
    return text if len(text) <= most else f"{text[: most - 1]}…"


def _text(x: int, y: int, look: str, words: str, size: int, *, bold: bool = False, end: bool = False) -> str:
    weight = ' font-weight="600"' if bold else ""
    anchor = ' text-anchor="end"' if end else ""
    return f'<text class="{look}" x="{x}" y="{y}" font-size="{size}"{weight}{anchor}>{escape(words)}</text>'


if __name__ == "__main__":
    sys.stdout.write(draw(sys.argv[1], panels(HOUSE / "Public" / "Configs", sys.argv[1])))
