"""Draws `demo.svg`: what the built-in demo model says, beside what a user sees of it.

    .venv/bin/python docs/pictures/draw_demo.py

Nothing is written by hand: the left side is the model's own text, the right side is that text behind the
rules of the endpoint file that ships. A test compares the file with what this draws.
"""

from __future__ import annotations

import json
import sys
import textwrap
from html import escape
from pathlib import Path

HERE = Path(__file__).resolve().parent
HOUSE = HERE.parents[1]
sys.path.insert(0, str(HOUSE))

from Middleware.llmapis.handlers.impl.demo_api_handler import demo_words  # noqa: E402
from Middleware.utilities.streaming_utils import post_process_llm_output  # noqa: E402

PICTURE = HERE / "demo.svg"
OWN = "Endpoints/my-model/Main.json"
EXAMPLE = HOUSE / "Public/Configs/Endpoints/my-model/Main.example.json"
COLUMNS, LINE, PANE, GAP = 44, 19, 400, 20
STYLE = """<style>
  text { font: 13px ui-monospace, Menlo, Consolas, monospace; fill: #1f2328; white-space: pre }
  .title { font-weight: bold } .gone { fill: #b42318 }
  rect { fill: #f6f8fa; stroke: #d0d7de }
</style>"""


def said() -> str:
    """What the model says to `Hello!`."""
    return "".join(demo_words([{"role": "user", "content": "Hello!"}], OWN))


def seen() -> str:
    """What is left of it behind the endpoint file of the demo."""
    endpoint = json.loads(EXAMPLE.read_text("utf-8"))
    return post_process_llm_output(said(), endpoint, {})


def lines(text: str) -> list[str]:
    return [part for line in text.split("\n") for part in textwrap.wrap(line, COLUMNS) or [""]]


def pane(left: int, title: str, rows: list[str], gone: int) -> list[str]:
    """One half; the first `gone` rows are those that the user never sees."""
    drawn = [f'<text class="title" x="{left + 14}" y="30">{escape(title)}</text>']
    for number, row in enumerate(rows):
        kind = ' class="gone"' if number < gone else ""
        drawn.append(f'<text{kind} x="{left + 14}" y="{58 + LINE * number}">{escape(row)}</text>')
    return drawn


def draw() -> str:
    """The picture as text."""
    raw, clean = said(), seen()
    cut = raw.index(clean)
    hidden, shown = lines(raw[:cut].rstrip()), lines(clean)
    height = 58 + LINE * (len(hidden) + len(shown))
    width = 2 * PANE + GAP
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}">',
        STYLE,
        *(
            f'<rect x="{x}" y="0.5" width="{PANE - 1}" height="{height - 1}" rx="6"/>'
            for x in (0.5, PANE + GAP)
        ),
        *pane(0, "What the model says", [*hidden, *shown], len(hidden)),
        *pane(PANE + GAP, "What you see", shown, 0),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


if __name__ == "__main__":
    PICTURE.write_text(draw(), "utf-8")
